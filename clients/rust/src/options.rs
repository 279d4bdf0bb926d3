//! What an agent is told, and the settings of librdkafka that follow from it.

use std::time::Duration;

use rdkafka::ClientConfig;

/// How the members of a group share out partitions. All members of a group need the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Assignor {
    /// As agents in Python have it: the others continue while one joins.
    #[default]
    CooperativeSticky,
    /// For a group with kafkajs or kcat; `agent.assignor = "range"` for agents in Python.
    Range,
}

/// Options of an agent and of [`Answers`](crate::Answers), each with a default.
#[derive(Clone, Debug)]
pub struct Options {
    /// `host:port`, with commas between several: by default `AFL_KAFKA_BOOTSTRAP`, or `localhost:9092`.
    pub brokers: String,
    /// Who answers. By default it has the process.
    pub name: String,
    /// The prefix of topics and groups: `AFL_PREFIX` by default, or `afl.`.
    pub prefix: String,
    /// The group for all facets: by default `{prefix}agent.{facet}`, which one facet needs.
    pub group: Option<String>,
    /// How often a handler is run, at most, for an event.
    pub attempts: u32,
    /// The first wait between them, which doubles.
    pub backoff: Duration,
    /// How the group shares out partitions.
    pub assignor: Assignor,
    /// More settings of librdkafka: security, for example.
    pub client: Vec<(String, String)>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            brokers: from_environment("AFL_KAFKA_BOOTSTRAP", "localhost:9092"),
            name: format!("rust-{}", std::process::id()),
            prefix: from_environment("AFL_PREFIX", "afl."),
            group: None,
            attempts: 1,
            backoff: Duration::from_millis(500),
            assignor: Assignor::default(),
            client: Vec::new(),
        }
    }
}

fn from_environment(name: &str, otherwise: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| otherwise.to_owned())
}

impl Options {
    /// Returns the defaults with these brokers, where there are any: a word of the command line, for example.
    pub fn of(brokers: Option<String>) -> Self {
        let defaults = Self::default();
        Self { brokers: brokers.unwrap_or_else(|| defaults.brokers.clone()), ..defaults }
    }

    /// Returns a producer's settings. A key goes where Java's clients put it; a record is acknowledged by all replicas in sync.
    pub(crate) fn producer(&self) -> ClientConfig {
        self.with(&[
            ("partitioner", "murmur2_random"),
            ("enable.idempotence", "true"),
            ("linger.ms", "1"),
            // A broker may be away for longer: the agent then tries again, and says so.
            ("message.timeout.ms", "30000"),
        ])
    }

    /// Returns a consumer's settings. librdkafka commits what is stored, and what is stored is answered.
    pub(crate) fn consumer(&self, group: &str) -> ClientConfig {
        let mut config = self.with(&[
            ("auto.offset.reset", "earliest"),
            ("allow.auto.create.topics", "false"),
            // For topics that are made after the agent has started.
            ("topic.metadata.refresh.interval.ms", "5000"),
            // A partition that is paused loses what is fetched ahead.
            ("queued.min.messages", "1000"),
            ("fetch.message.max.bytes", "262144"),
            ("auto.commit.interval.ms", "500"),
        ]);
        config.set("group.id", group).set("enable.auto.commit", "true").set("enable.auto.offset.store", "false");
        // With KIP-848 the broker decides about these.
        if config.get("group.protocol") != Some("consumer") {
            let assignor = match self.assignor {
                Assignor::CooperativeSticky => "cooperative-sticky",
                Assignor::Range => "range",
            };
            for (name, value) in [
                ("partition.assignment.strategy", assignor),
                ("session.timeout.ms", "10000"),
                ("heartbeat.interval.ms", "1000"),
            ] {
                if config.get(name).is_none() {
                    config.set(name, value);
                }
            }
        }
        config
    }

    fn with(&self, defaults: &[(&str, &str)]) -> ClientConfig {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", &self.brokers).set("client.id", &self.name);
        for (name, value) in defaults {
            config.set(*name, *value);
        }
        for (name, value) in &self.client {
            config.set(name, value);
        }
        config
    }
}
