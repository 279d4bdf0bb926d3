//! Dead letters: records that can never be read, as they are, with the reason.

use std::time::SystemTime;

use rdkafka::message::{Header, Message, OwnedHeaders, OwnedMessage};

use crate::answers::Answers;
use crate::errors::Error;

/// Sends a record to the dead letters of its topic. One that is too large with its reason goes without its value.
pub(crate) fn bury(
    answers: &Answers,
    record: &OwnedMessage,
    original: Option<OwnedHeaders>,
    reason: &str,
    message: &str,
) -> Result<(), Error> {
    let topic = record.topic();
    let dead = format!("{0}dlq.{1}", answers.prefix, topic.strip_prefix(&answers.prefix).unwrap_or(topic));
    let mut headers = original.unwrap_or_default();
    for (name, value) in [
        ("topic", topic.to_owned()),
        ("partition", record.partition().to_string()),
        ("offset", record.offset().to_string()),
        ("timestamp", record.timestamp().to_millis().unwrap_or(-1).to_string()),
        ("reason", reason.to_owned()),
        ("error_class", "Unreadable".to_owned()),
        ("error", message.to_owned()),
        ("time", humantime::format_rfc3339_millis(SystemTime::now()).to_string()),
        ("group", answers.group.clone().unwrap_or_default()),
        ("agent", answers.name.clone()),
    ] {
        headers = headers.insert(Header { key: &format!("afl.dlq.{name}"), value: Some(&value) });
    }
    if let Some(key) = record.key() {
        headers = headers.insert(Header { key: "afl.dlq.key", value: Some(key) });
    }
    let buried = answers.deliver(&dead, record.key(), record.payload(), headers.clone());
    match buried {
        Err(error) if error.is_too_large() => answers.deliver(&dead, record.key(), None, headers),
        other => other,
    }?;
    Ok(())
}
