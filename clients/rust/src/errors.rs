//! What can go wrong: for the steps, and for the agent itself.

use std::fmt;

use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use serde::Serialize;

/// What a handler returns where it has no result. Any error becomes one by `?`.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Fails a step at once, with a type that a program may catch. Other errors are tried again first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Failure {
    /// What a program catches.
    #[serde(rename = "type")]
    pub error_type: String,
    /// What people read.
    pub message: String,
}

impl Failure {
    /// Returns the failure of this type.
    pub fn new(error_type: impl Into<String>, message: impl fmt::Display) -> Self {
        Self { error_type: error_type.into(), message: message.to_string() }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.error_type, self.message)
    }
}

impl std::error::Error for Failure {}

/// What a handler returns as its error when the answer comes later, by [`Answers`](crate::Answers) and
/// [`Event::step_ref`](crate::Event::step_ref).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deferred;

impl fmt::Display for Deferred {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the answer comes later")
    }
}

impl std::error::Error for Deferred {}

/// What ends an agent, or refuses an answer. Its `Debug` is its text, which a `main` that returns it prints.
#[non_exhaustive]
pub enum Error {
    /// An option or a handler is missing.
    Options(String),
    /// librdkafka refuses a setting, or a broker something that more attempts do not overcome.
    Kafka(KafkaError),
    /// The members of the group share out partitions in other ways.
    InconsistentGroup {
        /// The consumer group.
        group: String,
    },
    /// A value that JSON cannot have.
    Json(serde_json::Error),
    /// A record was not acknowledged.
    Undelivered {
        /// The record's topic.
        topic: String,
        /// Why it was not.
        cause: KafkaError,
    },
    /// An event that another setting or release can read: nothing is skipped.
    NotYetReadable(String),
    /// What happened at a record, `topic[partition]@offset`.
    At {
        /// The record.
        record: String,
        /// What happened.
        cause: Box<Error>,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Options(message) | Self::NotYetReadable(message) => f.write_str(message),
            Self::Kafka(cause) => cause.fmt(f),
            Self::InconsistentGroup { group } => write!(
                f,
                "group {group}: INCONSISTENT_GROUP_PROTOCOL: all members need the same assignor (Options::assignor, agent.assignor)"
            ),
            Self::Json(cause) => cause.fmt(f),
            Self::Undelivered { topic, cause } => write!(f, "a record for {topic} was not delivered: {cause}"),
            Self::At { record, cause } => write!(f, "{record}: {cause}"),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Error {
    /// Whether a record is larger than the producer or the broker takes.
    pub(crate) fn is_too_large(&self) -> bool {
        self.is_undelivered_for(RDKafkaErrorCode::MessageSizeTooLarge)
    }

    /// Whether no broker has acknowledged a record in time.
    pub(crate) fn is_timeout(&self) -> bool {
        self.is_undelivered_for(RDKafkaErrorCode::MessageTimedOut)
    }

    fn is_undelivered_for(&self, code: RDKafkaErrorCode) -> bool {
        matches!(self, Self::Undelivered { cause, .. } if cause.rdkafka_error_code() == Some(code))
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Kafka(cause) | Self::Undelivered { cause, .. } => Some(cause),
            Self::Json(cause) => Some(cause),
            Self::At { cause, .. } => Some(cause),
            _ => None,
        }
    }
}

impl From<KafkaError> for Error {
    fn from(cause: KafkaError) -> Self {
        Self::Kafka(cause)
    }
}

impl From<serde_json::Error> for Error {
    fn from(cause: serde_json::Error) -> Self {
        Self::Json(cause)
    }
}
