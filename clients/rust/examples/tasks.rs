//! The agent of the tests: tasks BROKER PREFIX GROUP
use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use afl_stream::{Agent, Answers, BoxError, Deferred, Event, Failure, Headers, Options};
use serde::Deserialize;

#[derive(Deserialize)]
struct Params {
    kind: String,
    number: i64,
}

fn main() -> Result<(), BoxError> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [brokers, prefix, group] = <[String; 3]>::try_from(words).map_err(|_| "tasks BROKER PREFIX GROUP")?;
    let backoff = Duration::from_millis(20);
    let options = Options { brokers, prefix, group: Some(group), attempts: 3, backoff, ..Options::default() };
    let later = Arc::new(Answers::new(&Options { name: "rust-later".to_owned(), ..options.clone() })?);
    let work = move |event: &Event, given: Params| -> Result<BTreeMap<&'static str, String>, BoxError> {
        let mut answer = BTreeMap::from([("text", given.number.to_string()), ("by", "rust".to_owned())]);
        match given.kind.as_str() {
            "wrong" => drop(answer.insert("colour", "red".to_owned())),
            "declined" => return Err(Failure::new("CardDeclined", "no funds").into()),
            "flaky" if event.tries == 1 => return Err("not yet".into()),
            "flaky" => drop(answer.insert("text", format!("try {}", event.tries))),
            "later" => {
                let (later, step) = (Arc::clone(&later), event.step_ref());
                thread::spawn(move || {
                    thread::sleep(Duration::from_millis(50));
                    answer.insert("text", "later".to_owned());
                    later.continue_step(&step, &answer, &Headers::new()).expect("an answer is acknowledged");
                });
                return Err(Deferred.into());
            }
            _ => {}
        }
        Ok(answer)
    };
    let stop = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(signal_hook::consts::SIGTERM, Arc::clone(&stop))?;
    Ok(Agent::new(options).handle("tasks.Do", work).run_until(&stop)?)
}
