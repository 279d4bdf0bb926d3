//! Events as JSON: what a record has to be, and why it is not one.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::answers::{Answers, StepRef};
use crate::errors::Error;

/// The headers of a record, as text.
pub type Headers = BTreeMap<String, String>;

const KNOWN_VERSIONS: [(&str, u64); 3] = [("workflow_version", 1), ("step_schema_version", 1), ("runtime_version", 0)];
const NEEDED: [&str; 6] = ["id", "workflow_id", "step_id", "event_type", "payload", "attempt"];

/// Which returns a result must have, and which it may have.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Returns {
    /// Those that it must have.
    #[serde(default)]
    pub required: Vec<String>,
    /// Those that it may have.
    #[serde(default)]
    pub optional: Vec<String>,
}

/// A request to do the work of a facet for a step. `id` is the key for idempotency.
#[derive(Debug, Deserialize)]
pub struct Event {
    /// The same when the event comes again.
    pub id: String,
    /// The run.
    pub workflow_id: String,
    /// The step that waits.
    pub step_id: String,
    /// The facet, by its qualified name.
    #[serde(rename = "event_type")]
    pub facet: String,
    /// The attempt of the program; a further one is another event.
    pub attempt: i64,
    /// When the answer has to be there, in ms since the epoch.
    pub deadline: Option<i64>,
    /// What an answer needs where events have it.
    pub answer_token: Option<String>,
    /// What a result has to be.
    pub returns: Option<Returns>,
    payload: Box<RawValue>,
    /// How often the handler has run for this event here, this time included.
    #[serde(skip)]
    pub tries: u32,
    /// The record's headers.
    #[serde(skip)]
    pub headers: Headers,
    #[serde(skip)]
    pub(crate) answers: Option<Arc<Answers>>,
    #[serde(skip)]
    pub(crate) is_ending: Arc<AtomicBool>,
}

impl Event {
    /// Reads the parameters. A Long is exact in an `i64`.
    pub fn payload<P: DeserializeOwned>(&self) -> Result<P, serde_json::Error> {
        serde_json::from_str(self.payload.get())
    }

    /// Returns what names the step in answers; keep it to answer later.
    pub fn step_ref(&self) -> StepRef {
        StepRef {
            step_id: self.step_id.clone(),
            workflow_id: Some(self.workflow_id.clone()),
            event_id: Some(self.id.clone()),
            attempt: Some(self.attempt),
            answer_token: self.answer_token.clone(),
        }
    }

    /// Gives the step returns before the handler ends.
    pub fn update(&self, partial: &impl Serialize) -> Result<(), Error> {
        match &self.answers {
            Some(answers) => answers.update_step(&self.step_ref(), partial, &self.headers),
            None => Err(Error::Options("an event outside of an agent has nowhere to send updates".to_owned())),
        }
    }

    /// Returns how long an answer is still wanted: none is a step without a deadline.
    pub fn time_left(&self) -> Option<Duration> {
        let deadline = UNIX_EPOCH + Duration::from_millis(self.deadline?.max(0).unsigned_abs());
        Some(deadline.duration_since(SystemTime::now()).unwrap_or_default())
    }

    /// Returns whether a long handler should stop: the deadline is over, or the agent ends and leaves the event to another.
    pub fn should_stop(&self) -> bool {
        self.is_ending.load(Ordering::Relaxed) || self.time_left().is_some_and(|left| left.is_zero())
    }
}

/// Why a record is no event.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NoEvent {
    /// It can never be one; the reason is the code of its dead letter.
    Unreadable { reason: &'static str, message: String },
    /// Another setting or release can read it.
    NotYetReadable(String),
}

fn unreadable(reason: &'static str, message: impl ToString) -> NoEvent {
    NoEvent::Unreadable { reason, message: message.to_string() }
}

/// Returns the event in a record's value, on the topic of this facet.
pub(crate) fn read_event(value: Option<&[u8]>, facet: &str) -> Result<Event, NoEvent> {
    let value = value.ok_or_else(|| unreadable("null_value", "the record has no value"))?;
    if value.is_empty() {
        return Err(unreadable("empty_value", "the record's value has no bytes"));
    }
    if value[0] == 0 || value.starts_with(&[0xc3, 1]) {
        let remedy = format!("give the evaluators wire.facet_events = \"{facet}=json\"");
        let said = format!("the event is Avro: {remedy}; what is Avro already, an agent in Python answers");
        return Err(NoEvent::NotYetReadable(said));
    }
    let mut text = std::str::from_utf8(value).map_err(|error| unreadable("bad_json", error))?;
    let mut members = members_of(text)?;
    if let (Some(data), true) = (members.get("data"), members.contains_key("specversion")) {
        text = data.get();
        members = members_of(text)?;
    }
    for (name, ours) in KNOWN_VERSIONS {
        let version: String =
            members.get(name).and_then(|found| serde_json::from_str(found.get()).ok()).unwrap_or_default();
        let first = version.split('.').next().and_then(|first| first.parse::<u64>().ok());
        if first.is_some_and(|first| first > ours) {
            let said = format!("{name} is {version}, and this client knows {ours}: upgrade it");
            return Err(NoEvent::NotYetReadable(said));
        }
    }
    if let Some(name) = NEEDED.iter().find(|name| !members.contains_key(**name)) {
        return Err(unreadable("missing_field", format!("Event without {name}")));
    }
    let event: Event = serde_json::from_str(text).map_err(|error| unreadable("wrong_type", error))?;
    if !event.payload.get().starts_with('{') {
        return Err(unreadable("wrong_type", "Event.payload is no map of parameters"));
    }
    Ok(event)
}

fn members_of(text: &str) -> Result<BTreeMap<String, &RawValue>, NoEvent> {
    serde_json::from_str(text).map_err(|error| unreadable("bad_json", error))
}

/// Returns the step that a record's headers name, though its value cannot be read.
pub(crate) fn step_of(headers: &Headers) -> Option<StepRef> {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Named {
        id: String,
        subject: String,
        attempt: i64,
    }
    let mut named: Named = headers.get("afl").and_then(|said| serde_json::from_str(said).ok()).unwrap_or_default();
    if let Some(id) = headers.get("ce_id") {
        named.id.clone_from(id);
        named.subject = headers.get("ce_subject").cloned().unwrap_or_default();
        named.attempt = headers.get("afl_attempt").and_then(|text| text.parse().ok()).unwrap_or_default();
    }
    let is_named = !named.subject.is_empty() && named.id == format!("{}#{}", named.subject, named.attempt);
    is_named.then(|| StepRef { event_id: Some(named.id), attempt: Some(named.attempt), ..StepRef::new(named.subject) })
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"{"id":"w:a#1","workflow_id":"w","step_id":"w:a","event_type":"n.F","attempt":1,"colour":[1],
        "payload":{"number":9223372036854775807}}"#;

    fn reason_of(value: Option<&[u8]>) -> String {
        match read_event(value, "n.F") {
            Ok(event) => format!("an event, {}", event.id),
            Err(NoEvent::Unreadable { reason, .. }) => reason.to_owned(),
            Err(NoEvent::NotYetReadable(said)) => said,
        }
    }

    #[test]
    fn a_long_keeps_all_of_its_digits() {
        #[derive(Deserialize)]
        struct Params {
            number: i64,
        }
        let event = read_event(Some(GOOD.as_bytes()), "n.F").unwrap();

        assert_eq!(event.payload::<Params>().unwrap().number, i64::MAX);
    }

    #[test]
    fn an_event_is_the_same_as_data_of_a_cloud_event() {
        let structured = format!(r#"{{"specversion":"1.0","id":"x","data":{GOOD}}}"#);

        assert_eq!(reason_of(Some(structured.as_bytes())), "an event, w:a#1");
    }

    #[test]
    fn what_is_no_event_says_why() {
        for (value, reason) in [
            ("", "empty_value"),
            ("{\"not\": \"an event\"", "bad_json"),
            ("[1]", "bad_json"),
            ("{\"specversion\":\"1.0\",\"data\":\"a text\"}", "bad_json"),
            ("{}", "missing_field"),
            (&GOOD.replace("\"attempt\":1", "\"attempt\":\"1\""), "wrong_type"),
            (&GOOD.replace("{\"number\":9223372036854775807}", "\"a text\""), "wrong_type"),
        ] {
            assert_eq!(reason_of(Some(value.as_bytes())), reason, "{value}");
        }
        assert_eq!(reason_of(None), "null_value");
        assert_eq!(reason_of(Some(b"{\"id\":\"\xff\"}")), "bad_json");
    }

    #[test]
    fn what_another_setting_or_release_reads_says_what_to_do() {
        for (value, said) in [
            (&b"\xc3\x01rest"[..], "wire.facet_events = \"n.F=json\""),
            (&b"\x00\x00\x00\x00\x07"[..], "wire.facet_events"),
            (
                &br#"{"step_schema_version":"2.1","id":7}"#[..],
                "step_schema_version is 2.1, and this client knows 1: upgrade it",
            ),
        ] {
            assert!(reason_of(Some(value)).contains(said), "{said}");
        }
        assert_eq!(
            reason_of(Some(GOOD.replace("\"id\"", "\"runtime_version\":\"0.9\",\"id\"").as_bytes())),
            "an event, w:a#1"
        );
    }

    #[test]
    fn headers_name_a_step_only_when_they_agree() {
        let of = |named: &[(&str, &str)]| {
            step_of(&named.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
        };
        let named = StepRef { event_id: Some("w:a#2".to_owned()), attempt: Some(2), ..StepRef::new("w:a") };

        assert_eq!(of(&[("afl", r#"{"id":"w:a#2","subject":"w:a","attempt":2}"#)]), Some(named.clone()));
        assert_eq!(of(&[("ce_id", "w:a#2"), ("ce_subject", "w:a"), ("afl_attempt", "2")]), Some(named));
        assert_eq!(of(&[("afl", r#"{"id":"w:a#3","subject":"w:a","attempt":2}"#)]), None);
        assert_eq!(of(&[("afl", "no JSON")]), None);
        assert_eq!(of(&[]), None);
    }
}
