//! Agents: members of a consumer group that handle events and answer them.

use std::any::Any;
use std::collections::BTreeMap;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use log::{info, warn};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{Headers as _, Message, OwnedMessage};
use serde::de::DeserializeOwned;
use serde::Serialize;
use serde_json::Value;

use crate::answers::{json_of, Answers, TRIES_HEADER};
use crate::errors::{BoxError, Deferred, Error, Failure};
use crate::events::{read_event, step_of, Event, Headers, NoEvent};
use crate::letters::bury;
use crate::options::Options;
use crate::partitions::{Assignment, Partition};

const POLL: Duration = Duration::from_millis(100);
/// While a partition is full, it is looked at more often.
const POLL_WHILE_FULL: Duration = Duration::from_millis(5);
const SAID_AGAIN: Duration = Duration::from_secs(15);

type Handler = Box<dyn Fn(&Event) -> Result<Value, BoxError> + Send + Sync>;

/// Consumes the topics of facets, runs their handlers, answers, and only then moves its offsets.
///
/// The partitions are handled beside each other, in a thread each, and the events of each in order.
pub struct Agent {
    options: Options,
    handlers: BTreeMap<String, Handler>,
}

impl Agent {
    /// Returns an agent without handlers.
    pub fn new(options: Options) -> Self {
        Self { options, handlers: BTreeMap::new() }
    }

    /// Has the events of a facet handled by a function of its parameters, which returns its returns.
    ///
    /// A [`Failure`] fails the step at once, [`Deferred`] leaves the answer to later, and any other error, or a panic, is tried
    /// again.
    #[must_use]
    pub fn handle<P, R>(
        mut self,
        facet: &str,
        handler: impl Fn(&Event, P) -> Result<R, BoxError> + Send + Sync + 'static,
    ) -> Self
    where
        P: DeserializeOwned,
        R: Serialize,
    {
        let typed = move |event: &Event| {
            let given = event.payload().map_err(|error| Failure::new("BadPayload", error))?;
            let returned = handler(event, given)?;
            Ok(json_of(&returned).map_err(|error| Failure::new("BadResult", error))?)
        };
        self.handlers.insert(facet.to_owned(), Box::new(typed));
        self
    }

    /// Works until something cannot be done.
    pub fn run(&self) -> Result<(), Error> {
        self.run_until(&AtomicBool::new(false))
    }

    /// Works until `stop` is true, which is no error, or until something cannot be done.
    ///
    /// It ends when the handlers that run then have ended, and their answers are committed.
    pub fn run_until(&self, stop: &AtomicBool) -> Result<(), Error> {
        let (group, topics) = self.group_and_topics()?;
        let options = Options { group: Some(group.clone()), ..self.options.clone() };
        let consumer: BaseConsumer<Assignment> = options.consumer(&group).create_with_context(Assignment::default())?;
        consumer.subscribe(&topics.iter().map(String::as_str).collect::<Vec<_>>())?;
        let run = Run {
            handlers: &self.handlers,
            options: &options,
            group: &group,
            topics: &topics,
            answers: Arc::new(Answers::new(&options)?),
            consumer: &consumer,
            is_ending: Arc::default(),
            failure: Mutex::default(),
            said: Mutex::default(),
        };
        info!("{} reads {} in the group {group}", options.name, topics.join(", "));
        run.until(stop)
        // The consumer is closed here, and librdkafka commits what is stored.
    }

    fn group_and_topics(&self) -> Result<(String, Vec<String>), Error> {
        let Options { prefix, group, .. } = &self.options;
        let topics = self.handlers.keys().map(|facet| format!("{prefix}events.{facet}")).collect();
        match (group, self.handlers.keys().next()) {
            (_, None) => {
                Err(Error::Options("an agent needs a handler: agent.handle(\"ns.Facet\", handler)".to_owned()))
            }
            (Some(group), _) => Ok((group.clone(), topics)),
            (None, Some(facet)) if self.handlers.len() == 1 => Ok((format!("{prefix}agent.{facet}"), topics)),
            (None, _) => Err(Error::Options("several facets need Options::group, or an agent each".to_owned())),
        }
    }
}

/// What becomes of a record.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Outcome {
    /// Its offset may be committed.
    Done,
    /// It comes again, here or elsewhere: the agent ends, or the partition is another member's.
    Left,
}

/// An agent that works.
struct Run<'a> {
    handlers: &'a BTreeMap<String, Handler>,
    options: &'a Options,
    group: &'a str,
    topics: &'a [String],
    answers: Arc<Answers>,
    consumer: &'a BaseConsumer<Assignment>,
    is_ending: Arc<AtomicBool>,
    failure: Mutex<Option<Error>>,
    said: Mutex<BTreeMap<String, Instant>>,
}

impl Run<'_> {
    fn until(&self, stop: &AtomicBool) -> Result<(), Error> {
        let assignment = self.consumer.context();
        thread::scope(|scope| {
            let mut threads: Vec<thread::ScopedJoinHandle<'_, ()>> = Vec::new();
            let mut full = Vec::new();
            loop {
                // Again, where it ends already: a partition may have come after that.
                if stop.load(Ordering::Relaxed) || self.is_ending() {
                    self.end();
                }
                threads.retain(|running| !running.is_finished());
                // While the last handlers run, the group is polled on.
                if self.is_ending() && threads.is_empty() {
                    break;
                }
                match self.consumer.poll(if full.is_empty() { POLL } else { POLL_WHILE_FULL }) {
                    Some(Ok(record)) if !self.is_ending() => {
                        let added = assignment.add(self.consumer, record.detach());
                        if added.is_full {
                            full.push(Arc::clone(&added.partition));
                        }
                        if added.is_new {
                            threads.push(scope.spawn(move || self.work(&added.partition)));
                        }
                    }
                    Some(Err(error)) => self.judge(error),
                    Some(Ok(_)) | None => {}
                }
                assignment.resume(self.consumer, &mut full);
            }
        });
        let failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner).take();
        failure.map_or(Ok(()), Err)
    }

    fn is_ending(&self) -> bool {
        self.is_ending.load(Ordering::Relaxed)
    }

    fn end(&self) {
        self.is_ending.store(true, Ordering::Relaxed);
        self.consumer.context().end();
    }

    /// Ends the agent with its first failure.
    fn fail(&self, error: Error) {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        self.end();
    }

    /// Ends the agent for what more attempts do not overcome; librdkafka tries the rest again by itself.
    fn judge(&self, error: KafkaError) {
        use RDKafkaErrorCode as Code;
        match error {
            KafkaError::MessageConsumption(Code::InconsistentGroupProtocol) => {
                self.fail(Error::InconsistentGroup { group: self.group.to_owned() });
            }
            KafkaError::MessageConsumptionFatal(_)
            | KafkaError::MessageConsumption(
                Code::TopicAuthorizationFailed
                | Code::GroupAuthorizationFailed
                | Code::ClusterAuthorizationFailed
                | Code::SaslAuthenticationFailed
                | Code::Authentication
                | Code::InvalidGroupId
                | Code::UnsupportedAssignor
                | Code::FencedInstanceId,
            ) => self.fail(error.into()),
            KafkaError::MessageConsumption(Code::UnknownTopicOrPartition) => self.warn_now_and_then(format!(
                "no topic {} yet: is the facet's name right, and the prefix {:?}? \"afl-stream topics apply PROGRAM.afl\" makes topics",
                self.topics.join(", "),
                self.options.prefix
            )),
            KafkaError::MessageConsumption(Code::AllBrokersDown | Code::Resolve) => {
                self.warn_now_and_then(format!("no answer from the brokers {}: {error}", self.options.brokers));
            }
            _ => self.warn_now_and_then(format!("group {}: {error}", self.group)),
        }
    }

    /// Warns of what librdkafka tries again, and says again and again.
    fn warn_now_and_then(&self, text: String) {
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        if said.get(&text).map_or(true, |at| at.elapsed() >= SAID_AGAIN) {
            warn!("{text}");
            said.insert(text, Instant::now());
        }
    }

    /// Handles the records of a partition in order, until it is another member's or the agent ends.
    fn work(&self, partition: &Partition) {
        while let Some(record) = partition.next() {
            match self.handle(&record, partition) {
                Ok(Outcome::Done) => partition.answered(self.consumer, record.offset()),
                Ok(Outcome::Left) => return partition.leave(),
                Err(cause) => {
                    let place = format!("{}[{}]@{}", record.topic(), record.partition(), record.offset());
                    self.fail(Error::At { record: place, cause: Box::new(cause) });
                    return partition.leave();
                }
            }
        }
    }

    fn handle(&self, record: &OwnedMessage, partition: &Partition) -> Result<Outcome, Error> {
        let Some(headers) = headers_of(record) else {
            return self.give_up(record, None, "bad_headers", "the name of a header is not UTF-8");
        };
        let facet = record.topic().strip_prefix(&format!("{}events.", self.options.prefix)).unwrap_or("FACET");
        let mut event = match read_event(record.payload(), facet) {
            Ok(event) => event,
            Err(NoEvent::NotYetReadable(message)) => return Err(Error::NotYetReadable(message)),
            Err(NoEvent::Unreadable { reason, message }) => {
                return self.give_up(record, Some(&headers), reason, &message);
            }
        };
        event.headers = headers;
        event.answers = Some(Arc::clone(&self.answers));
        event.is_ending = Arc::clone(&self.is_ending);
        match self.handlers.get(&event.facet) {
            Some(handler) => self.try_until_answered(&mut event, handler, partition),
            None => self.fail_step(&event, &Failure::new("NoHandler", format!("no handler for facet {}", event.facet))),
        }
    }

    fn try_until_answered(
        &self,
        event: &mut Event,
        handler: &Handler,
        partition: &Partition,
    ) -> Result<Outcome, Error> {
        loop {
            event.tries += 1;
            if event.tries > 1 {
                event.headers.insert(TRIES_HEADER.to_owned(), event.tries.to_string());
            }
            let returned = catch_unwind(AssertUnwindSafe(|| handler(event)));
            let error = match returned.unwrap_or_else(|panic| Err(Failure::panicked(panic.as_ref()).into())) {
                Ok(result) => return self.continue_step(event, &result),
                Err(error) if error.is::<Deferred>() => return Ok(Outcome::Done),
                Err(error) => error,
            };
            let is_final = match error.downcast_ref::<Failure>() {
                Some(failure) => failure.error_type != Failure::PANIC,
                None => false,
            };
            // What fails because the agent ends is left to another member.
            if !is_final && self.is_ending() {
                return Ok(Outcome::Left);
            }
            let wait = self.options.backoff.saturating_mul(1 << (event.tries - 1).min(20));
            let is_late = event.time_left().is_some_and(|left| left <= wait);
            if is_final || event.tries >= self.options.attempts || is_late {
                let failure = error.downcast_ref().cloned().unwrap_or_else(|| Failure::new("Error", &error));
                return self.fail_step(event, &failure);
            }
            info!("{} of {} is tried again in {wait:?}: {error}", event.id, event.facet);
            if !partition.wait(wait) {
                return Ok(Outcome::Left);
            }
        }
    }

    fn continue_step(&self, event: &Event, result: &Value) -> Result<Outcome, Error> {
        let undeclared = |name: &&String| {
            let returns = event.returns.as_ref();
            returns.is_some_and(|known| !known.required.contains(name) && !known.optional.contains(name))
        };
        if let Some(name) = result.as_object().and_then(|found| found.keys().find(undeclared)) {
            let facet = &event.facet;
            let declared = event.returns.iter().flat_map(|known| known.required.iter().chain(&known.optional));
            let declared = declared.cloned().collect::<Vec<_>>().join(", ");
            let said =
                format!("the result of {facet} has {name}, which {facet} does not declare; it declares {declared}");
            return self.fail_step(event, &Failure::new("ResultMismatch", said));
        }
        match self.deliver(|| self.answers.continue_step(&event.step_ref(), result, &event.headers)) {
            Err(error) if error.is_too_large() => {
                self.fail_step(event, &Failure::new("BadResult", format!("the result cannot be sent: {error}")))
            }
            other => other,
        }
    }

    fn fail_step(&self, event: &Event, failure: &Failure) -> Result<Outcome, Error> {
        let sent = self.deliver(|| self.answers.fail_step(&event.step_ref(), failure, &event.headers));
        match sent {
            Err(error) if error.is_too_large() => {
                let short = Failure::new(&failure.error_type, format!("a message of {} bytes", failure.message.len()));
                self.deliver(|| self.answers.fail_step(&event.step_ref(), &short, &event.headers))
            }
            other => other,
        }
    }

    /// Sends what cannot be read to the dead letters, and fails the step that its headers name.
    fn give_up(
        &self,
        record: &OwnedMessage,
        headers: Option<&Headers>,
        reason: &str,
        message: &str,
    ) -> Result<Outcome, Error> {
        let original = headers.and_then(|_| record.headers().cloned());
        let buried = self.deliver(|| bury(&self.answers, record, original.clone(), reason, message))?;
        match headers.and_then(|headers| Some((headers, step_of(headers)?))) {
            Some((headers, step)) if buried == Outcome::Done => {
                let failure = Failure::new("UnreadableEvent", message);
                self.deliver(|| self.answers.fail_step(&step, &failure, headers))
            }
            _ => Ok(buried),
        }
    }

    /// Sends until it is acknowledged. A broker may be away for long; only an agent that ends does not wait for it.
    fn deliver(&self, send: impl Fn() -> Result<(), Error>) -> Result<Outcome, Error> {
        loop {
            match send() {
                Ok(()) => return Ok(Outcome::Done),
                Err(error) if error.is_timeout() && self.is_ending() => {
                    warn!("group {}: {error}; its event comes again", self.group);
                    return Ok(Outcome::Left);
                }
                Err(error) if error.is_timeout() => warn!("group {}: {error}; it is sent again", self.group),
                Err(error) => return Err(error),
            }
        }
    }
}

/// Returns a record's headers; none where the name of one is no text, which rdkafka does not read.
fn headers_of(record: &OwnedMessage) -> Option<Headers> {
    let Some(found) = record.headers() else {
        return Some(Headers::new());
    };
    let read = || {
        let text = |value: Option<&[u8]>| String::from_utf8_lossy(value.unwrap_or_default()).into_owned();
        found.iter().map(|header| (header.key.to_owned(), text(header.value))).collect()
    };
    catch_unwind(AssertUnwindSafe(read)).ok()
}

impl Failure {
    const PANIC: &'static str = "Panic";

    fn panicked(panic: &(dyn Any + Send)) -> Self {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let said = text.or_else(|| panic.downcast_ref::<String>().cloned());
        Self::new(Self::PANIC, said.unwrap_or_else(|| "the handler panicked".to_owned()))
    }
}
