//! Agents on librdkafka's mock cluster: which offsets they commit, and what ends them.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use afl_stream::{Agent, BoxError, Deferred, Error, Event, Options};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::{Header, Message, OwnedHeaders, OwnedMessage};
use rdkafka::mocking::MockCluster;
use rdkafka::producer::{BaseRecord, DefaultProducerContext, ThreadedProducer};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr};
use rdkafka::ClientConfig;
use serde_json::{json, Value};

const EVENTS: &str = "afl.events.shop.Charge";
const GROUP: &str = "afl.agent.shop.Charge";
const DEADLINE: Duration = Duration::from_secs(60);

struct World {
    cluster: MockCluster<'static, DefaultProducerContext>,
    producer: ThreadedProducer<DefaultProducerContext>,
}

impl World {
    fn new() -> Self {
        let cluster = MockCluster::new(1).unwrap();
        for topic in [EVENTS, "afl.control", "afl.dlq.events.shop.Charge"] {
            cluster.create_topic(topic, 1, 1).unwrap();
        }
        let producer = ClientConfig::new().set("bootstrap.servers", cluster.bootstrap_servers()).create().unwrap();
        Self { cluster, producer }
    }

    fn options(&self) -> Options {
        // The environment may have another prefix, for agents.
        Options { brokers: self.cluster.bootstrap_servers(), prefix: "afl.".to_owned(), ..Options::default() }
    }

    fn put(&self, value: &[u8], headers: OwnedHeaders) {
        self.producer.send(BaseRecord::<[u8], [u8]>::to(EVENTS).payload(value).headers(headers)).unwrap();
    }

    fn put_event(&self, number: i64, change: impl Fn(&mut Value)) {
        let mut event = json!({
            "id": format!("w:{number}#1"), "workflow_id": "w", "step_id": format!("w:{number}"), "attempt": 1,
            "event_type": "shop.Charge", "payload": {"number": number},
            "returns": {"required": ["receipt"], "optional": []},
        });
        change(&mut event);
        self.put(event.to_string().as_bytes(), OwnedHeaders::new());
    }

    /// Returns this many records of a topic, from its beginning.
    fn records(&self, topic: &str, count: usize) -> Vec<OwnedMessage> {
        let reader = self.reader("reader");
        let mut list = TopicPartitionList::new();
        list.add_partition_offset(topic, 0, Offset::Beginning).unwrap();
        reader.assign(&list).unwrap();
        let mut found = Vec::new();
        let began = Instant::now();
        while found.len() < count {
            assert!(began.elapsed() < DEADLINE, "{} of {count} on {topic}", found.len());
            if let Some(Ok(record)) = reader.poll(Duration::from_millis(100)) {
                found.push(record.detach());
            }
        }
        found
    }

    fn answers(&self, count: usize) -> Vec<Value> {
        let records = self.records("afl.control", count);
        records.iter().map(|record| serde_json::from_slice(record.payload().unwrap()).unwrap()).collect()
    }

    fn committed(&self) -> Option<i64> {
        let mut list = TopicPartitionList::new();
        list.add_partition(EVENTS, 0);
        let found = self.reader(GROUP).committed_offsets(list, DEADLINE).unwrap();
        found.elements()[0].offset().to_raw().filter(|offset| *offset >= 0)
    }

    fn reader(&self, group: &str) -> BaseConsumer {
        let servers = self.cluster.bootstrap_servers();
        ClientConfig::new().set("bootstrap.servers", servers).set("group.id", group).create().unwrap()
    }

    /// Runs an agent until this returns, and returns what the agent did.
    fn run(&self, agent: &Agent, until: impl FnOnce()) -> Result<(), Error> {
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            let running = scope.spawn(|| agent.run_until(&stop));
            until();
            stop.store(true, Ordering::Relaxed);
            running.join().unwrap()
        })
    }
}

fn eventually(condition: impl Fn() -> bool) {
    let began = Instant::now();
    while !condition() {
        assert!(began.elapsed() < DEADLINE);
        thread::sleep(Duration::from_millis(20));
    }
}

fn receipt(event: &Event, given: Value) -> Result<Value, BoxError> {
    assert_eq!(event.step_id, format!("w:{}", given["number"]));
    Ok(json!({"receipt": given["number"].to_string()}))
}

#[test]
fn what_a_rebalance_refuses_to_commit_is_committed_after_it() {
    let world = World::new();
    use RDKafkaRespErr::{RD_KAFKA_RESP_ERR_COORDINATOR_LOAD_IN_PROGRESS, RD_KAFKA_RESP_ERR_REBALANCE_IN_PROGRESS};
    let refusals = [RD_KAFKA_RESP_ERR_REBALANCE_IN_PROGRESS, RD_KAFKA_RESP_ERR_COORDINATOR_LOAD_IN_PROGRESS];
    world.cluster.request_errors(RDKafkaApiKey::OffsetCommit, &refusals);
    world.put_event(1, |_| ());

    let agent = Agent::new(world.options()).handle("shop.Charge", receipt);
    let ended = world.run(&agent, || eventually(|| world.committed() == Some(1)));

    assert!(ended.is_ok(), "{ended:?}");
    assert_eq!(world.answers(1)[0]["result"], json!({"receipt": "1"}));
}

#[test]
fn events_are_answered_in_order_and_once_also_where_more_wait_than_an_agent_holds() {
    let world = World::new();
    let count = 1_300;
    for number in 0..count {
        world.put_event(number, |_| ());
    }

    let agent = Agent::new(world.options()).handle("shop.Charge", receipt);
    let ended = world.run(&agent, || drop(world.answers(1_300)));

    assert!(ended.is_ok(), "{ended:?}");
    assert_eq!(world.committed(), Some(count));
    let answered: Vec<_> = world.answers(1_300).into_iter().map(|answer| answer["step_id"].clone()).collect();
    assert_eq!(answered, (0..count).map(|number| json!(format!("w:{number}"))).collect::<Vec<_>>());
}

#[test]
fn failures_say_what_happened_and_how_often_it_was_tried() {
    let world = World::new();
    let past = |event: &mut Value| event["deadline"] = json!(1);
    world.put_event(1, |_| ());
    world.put_event(2, past);
    world.put_event(3, |event| event["event_type"] = json!("shop.Other"));
    world.put_event(4, |event| event["payload"] = json!({"number": "four"}));
    world.put_event(5, |_| ());

    let options = Options { attempts: 3, backoff: Duration::from_millis(1), ..world.options() };
    let work = |event: &Event, number: Numbered| -> Result<Value, BoxError> {
        match number.number {
            1 => panic!("try {}", event.tries),
            5 => Ok(json!({"receipt": "x".repeat(2_000_000)})),
            _ => Err(format!("late after {}: {}", event.tries, event.should_stop()).into()),
        }
    };
    let agent = Agent::new(options).handle("shop.Charge", work);
    let ended = world.run(&agent, || drop(world.answers(5)));

    assert!(ended.is_ok(), "{ended:?}");
    let failures: Vec<_> = world.answers(5).into_iter().map(|answer| answer["error"].clone()).collect();
    assert_eq!(failures[0], json!({"type": "Panic", "message": "try 3"}));
    assert_eq!(failures[1], json!({"type": "Error", "message": "late after 1: true"}));
    assert_eq!(failures[2], json!({"type": "NoHandler", "message": "no handler for facet shop.Other"}));
    assert_eq!(failures[3]["type"], "BadPayload");
    assert_eq!(failures[4]["type"], "BadResult");
    let tries = header_of(&world.records("afl.control", 1)[0], "afl_tries");
    assert_eq!(tries.as_deref(), Some("3"));
    assert_eq!(world.committed(), Some(5));
}

#[test]
fn what_is_no_event_is_a_dead_letter_and_fails_the_step_of_its_headers() {
    let world = World::new();
    let named = r#"{"id":"w:1#1","subject":"w:1","attempt":1}"#;
    world.put(b"{\"not\": ", OwnedHeaders::new().insert(Header { key: "afl", value: Some(named) }));

    let agent = Agent::new(world.options()).handle("shop.Charge", receipt);
    let ended = world.run(&agent, || drop(world.answers(1)));

    assert!(ended.is_ok(), "{ended:?}");
    let answer = &world.answers(1)[0];
    assert_eq!((&answer["event_id"], &answer["error"]["type"]), (&json!("w:1#1"), &json!("UnreadableEvent")));
    let letter = &world.records("afl.dlq.events.shop.Charge", 1)[0];
    assert_eq!(letter.payload(), Some(&b"{\"not\": "[..]));
    for (name, wanted) in
        [("afl", named), ("afl.dlq.reason", "bad_json"), ("afl.dlq.offset", "0"), ("afl.dlq.group", GROUP)]
    {
        assert_eq!(header_of(letter, name).as_deref(), Some(wanted), "{name}");
    }
}

#[test]
fn an_event_in_avro_ends_the_agent_and_those_before_it_are_committed() {
    let world = World::new();
    world.put_event(1, |_| ());
    world.put(b"\xc3\x01\x00\x00", OwnedHeaders::new());
    world.put_event(3, |_| ());

    let ended = Agent::new(world.options()).handle("shop.Charge", receipt).run();

    let said = ended.unwrap_err().to_string();
    assert!(said.starts_with("afl.events.shop.Charge[0]@1: ") && said.contains("wire.facet_events"), "{said}");
    assert_eq!(world.committed(), Some(1));
}

#[test]
fn an_agent_that_ends_leaves_what_it_tries_again_to_others_and_answers_what_was_deferred_nowhere() {
    let world = World::new();
    world.put_event(1, |_| ());
    world.put_event(2, |_| ());
    let tried = Arc::new(AtomicU32::new(0));
    let seen = Arc::new(Mutex::new(Vec::new()));

    let options = Options { attempts: 9, backoff: Duration::from_secs(3_600), ..world.options() };
    let (counted, kept) = (Arc::clone(&tried), Arc::clone(&seen));
    let agent = Agent::new(options).handle("shop.Charge", move |event: &Event, given: Value| -> Result<(), BoxError> {
        if given["number"] == 1 {
            kept.lock().unwrap().push(serde_json::to_string(&event.step_ref())?);
            return Err(Deferred.into());
        }
        counted.fetch_add(1, Ordering::Relaxed);
        Err("not yet".into())
    });
    let ended = world.run(&agent, || eventually(|| tried.load(Ordering::Relaxed) == 1));

    assert!(ended.is_ok(), "{ended:?}");
    assert_eq!(world.committed(), Some(1));
    let wanted = r#"{"step_id":"w:1","workflow_id":"w","event_id":"w:1#1","attempt":1}"#;
    assert_eq!(*seen.lock().unwrap(), [wanted]);
}

#[test]
fn a_group_that_shares_out_otherwise_and_options_that_lack_something_say_what_to_set() {
    let world = World::new();
    let refusal = RDKafkaRespErr::RD_KAFKA_RESP_ERR_INCONSISTENT_GROUP_PROTOCOL;
    world.cluster.request_errors(RDKafkaApiKey::JoinGroup, &[refusal]);

    let ended = Agent::new(world.options()).handle("shop.Charge", receipt).run();
    assert!(ended.unwrap_err().to_string().contains("agent.assignor"));

    let ended = Agent::new(world.options()).run();
    assert!(ended.unwrap_err().to_string().contains("an agent needs a handler"));
    let several = Agent::new(world.options()).handle("shop.Charge", receipt).handle("shop.Ship", receipt);
    assert!(several.run().unwrap_err().to_string().contains("Options::group"));
}

#[derive(serde::Deserialize)]
struct Numbered {
    number: i64,
}

fn header_of(record: &OwnedMessage, name: &str) -> Option<String> {
    use rdkafka::message::Headers as _;
    let found = record.headers()?.iter().find(|header| header.key == name)?;
    Some(String::from_utf8_lossy(found.value?).into_owned())
}
