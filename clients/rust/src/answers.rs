//! Answers to steps, as JSON on the control topic.

use std::sync::mpsc::{sync_channel, SyncSender};
use std::time::Duration;

use rdkafka::client::ClientContext;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{DeliveryResult, Header, Message, OwnedHeaders};
use rdkafka::producer::{BaseRecord, Producer, ProducerContext, ThreadedProducer};
use serde::{Deserialize, Serialize};
use serde_json::{json, Map, Value};

use crate::errors::{Error, Failure};
use crate::events::Headers;
use crate::options::Options;

pub(crate) const TRIES_HEADER: &str = "afl_tries";
const PASSED_ON: [&str; 3] = ["traceparent", "tracestate", TRIES_HEADER];
const QUEUE_FULL_WAIT: Duration = Duration::from_millis(20);

/// Names the step of an answer. The step's id is enough; all of it answers for one attempt, with its token.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepRef {
    /// The step that waits.
    pub step_id: String,
    /// The run; by default what the step's id begins with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workflow_id: Option<String>,
    /// The event that is answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event_id: Option<String>,
    /// The attempt that is answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempt: Option<i64>,
    /// The event's token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer_token: Option<String>,
}

impl StepRef {
    /// Names a step by its id.
    pub fn new(step_id: impl Into<String>) -> Self {
        Self { step_id: step_id.into(), ..Self::default() }
    }

    fn workflow(&self) -> &str {
        self.workflow_id.as_deref().unwrap_or_else(|| self.step_id.split(':').next().unwrap_or_default())
    }
}

/// Sends answers to steps. Threads may share it. Each method returns when its answer is acknowledged.
pub struct Answers {
    producer: ThreadedProducer<Deliveries>,
    pub(crate) prefix: String,
    pub(crate) name: String,
    pub(crate) group: Option<String>,
}

impl std::fmt::Debug for Answers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Answers").field("prefix", &self.prefix).field("name", &self.name).finish_non_exhaustive()
    }
}

impl Answers {
    /// Makes a producer of these options. `name` and `group` are for people.
    pub fn new(options: &Options) -> Result<Self, Error> {
        Ok(Self {
            producer: options.producer().create_with_context(Deliveries)?,
            prefix: options.prefix.clone(),
            name: options.name.clone(),
            group: options.group.clone(),
        })
    }

    /// Lets the step go on with a result: a struct or map of its returns.
    pub fn continue_step(&self, step: &StepRef, result: &impl Serialize, headers: &Headers) -> Result<(), Error> {
        self.send(step, "result", json_of(result)?, headers)
    }

    /// Gives the step returns, and lets it wait on.
    pub fn update_step(&self, step: &StepRef, partial: &impl Serialize, headers: &Headers) -> Result<(), Error> {
        self.send(step, "partial", json_of(partial)?, headers)
    }

    /// Fails the step.
    pub fn fail_step(&self, step: &StepRef, failure: &Failure, headers: &Headers) -> Result<(), Error> {
        self.send(step, "error", serde_json::to_value(failure)?, headers)
    }

    fn send(&self, step: &StepRef, entry: &str, value: Value, headers: &Headers) -> Result<(), Error> {
        let key = step.workflow();
        let mut answer = json_of(step)?;
        answer[entry] = value;
        answer["workflow_id"] = json!(key);
        answer["agent"] = json!(self.name);
        if let Some(group) = &self.group {
            answer["group"] = json!(group);
        }
        let mut passed = OwnedHeaders::new().insert(Header { key: "content-type", value: Some("application/json") });
        for key in PASSED_ON {
            if let Some(value) = headers.get(key) {
                passed = passed.insert(Header { key, value: Some(value) });
            }
        }
        self.deliver(
            &format!("{}control", self.prefix),
            Some(key.as_bytes()),
            Some(answer.to_string().as_bytes()),
            passed,
        )?;
        Ok(())
    }

    /// Sends a record, and returns its partition when it is acknowledged.
    pub(crate) fn deliver(
        &self,
        topic: &str,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: OwnedHeaders,
    ) -> Result<i32, Error> {
        let undelivered = |cause| Error::Undelivered { topic: topic.to_owned(), cause };
        let (sender, acknowledged) = sync_channel(1);
        let mut record = BaseRecord::with_opaque_to(topic, Box::new(sender)).headers(headers);
        record.key = key;
        record.payload = value;
        while let Err((cause, refused)) = self.producer.send(record) {
            if cause.rdkafka_error_code() != Some(RDKafkaErrorCode::QueueFull) {
                return Err(undelivered(cause));
            }
            record = refused;
            std::thread::sleep(QUEUE_FULL_WAIT);
        }
        acknowledged.recv().unwrap_or(Err(KafkaError::Canceled)).map_err(undelivered)
    }
}

impl Drop for Answers {
    fn drop(&mut self) {
        // Nothing waits in the queue: who sends waits for the acknowledgement.
        let _ = self.producer.flush(Duration::ZERO);
    }
}

/// Returns an object; null, as of `()`, is the empty one.
pub(crate) fn json_of(value: &impl Serialize) -> Result<Value, serde_json::Error> {
    match serde_json::to_value(value)? {
        Value::Null => Ok(Value::Object(Map::new())),
        object @ Value::Object(_) => Ok(object),
        _ => Err(serde::ser::Error::custom("a result is a struct or map of returns")),
    }
}

type Acknowledgement = SyncSender<Result<i32, KafkaError>>;

struct Deliveries;

impl ClientContext for Deliveries {}

impl ProducerContext for Deliveries {
    type DeliveryOpaque = Box<Acknowledgement>;

    fn delivery(&self, delivered: &DeliveryResult<'_>, acknowledgement: Self::DeliveryOpaque) {
        let told = match delivered {
            Ok(record) => Ok(record.partition()),
            Err((cause, _)) => Err(cause.clone()),
        };
        // Who sent it may be gone.
        let _ = acknowledgement.send(told);
    }
}

#[cfg(test)]
mod tests {
    use rdkafka::mocking::MockCluster;

    use super::*;

    #[derive(Deserialize)]
    struct Vectors {
        vectors: Vec<Vector>,
    }

    #[derive(Deserialize)]
    struct Vector {
        key: String,
        partition_of_6: i32,
        partition_of_12: i32,
    }

    #[test]
    fn keys_go_where_kafkas_own_tests_put_them() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../schemas/partitioner_vectors.json");
        let Vectors { vectors } = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
        assert!(vectors.len() >= 7);
        let cluster = MockCluster::new(1).unwrap();
        let answers = Answers::new(&Options { brokers: cluster.bootstrap_servers(), ..Options::default() }).unwrap();
        cluster.create_topic("of-6", 6, 1).unwrap();
        cluster.create_topic("of-12", 12, 1).unwrap();

        for vector in vectors {
            for (topic, wanted) in [("of-6", vector.partition_of_6), ("of-12", vector.partition_of_12)] {
                let placed = answers.deliver(topic, Some(vector.key.as_bytes()), Some(b"{}"), OwnedHeaders::new());
                assert_eq!(placed.unwrap(), wanted, "{:?} {topic}", vector.key);
            }
        }
    }

    #[test]
    fn a_result_is_an_object() {
        assert_eq!(json_of(&()).unwrap(), json!({}));
        assert_eq!(
            json_of(&[("a", 1.0)].into_iter().collect::<std::collections::BTreeMap<_, _>>()).unwrap().to_string(),
            r#"{"a":1.0}"#
        );
        assert!(json_of(&"a text").unwrap_err().to_string().contains("a struct or map"));
    }
}
