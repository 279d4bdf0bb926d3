//! The partitions that are assigned now: their records, and the offsets that may be committed.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use log::{debug, info, warn};
use rdkafka::client::ClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext, Rebalance};
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode};
use rdkafka::message::{Message, OwnedMessage};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

/// A partition with this many records that wait is not read any further.
const FULL: usize = 500;
/// And is read again when so few are left.
const LOW: usize = 100;
/// How long a rebalance waits for handlers that run, so that their events are not handled twice.
const PATIENCE: Duration = Duration::from_secs(2);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Open,
    /// No further record is begun; the one that is handled now is answered and committed.
    Ending,
    /// Another member has the partition, and its offset.
    Revoked,
}

#[derive(Debug)]
struct State {
    records: VecDeque<OwnedMessage>,
    phase: Phase,
    is_busy: bool,
}

/// A partition from its assignment to its revocation. One thread handles its records, in order.
#[derive(Debug)]
pub(crate) struct Partition {
    topic: String,
    number: i32,
    state: Mutex<State>,
    changed: Condvar,
}

impl Partition {
    fn new(topic: &str, number: i32) -> Self {
        let state = State { records: VecDeque::new(), phase: Phase::Open, is_busy: false };
        Self { topic: topic.to_owned(), number, state: Mutex::new(state), changed: Condvar::new() }
    }

    /// Waits for a record. None is the end of the partition here.
    pub(crate) fn next(&self) -> Option<OwnedMessage> {
        let mut state = self.lock();
        state.is_busy = false;
        self.changed.notify_all();
        let waits = |state: &mut State| state.phase == Phase::Open && state.records.is_empty();
        state = self.changed.wait_while(state, waits).unwrap_or_else(PoisonError::into_inner);
        if state.phase != Phase::Open {
            return None;
        }
        state.is_busy = true;
        state.records.pop_front()
    }

    /// Waits for as long, and returns whether the partition is still to be handled then.
    pub(crate) fn wait(&self, time: Duration) -> bool {
        let waits = |state: &mut State| state.phase == Phase::Open;
        let (state, _) =
            self.changed.wait_timeout_while(self.lock(), time, waits).unwrap_or_else(PoisonError::into_inner);
        state.phase == Phase::Open
    }

    /// Says that no thread handles it any more.
    pub(crate) fn leave(&self) {
        self.lock().is_busy = false;
        self.changed.notify_all();
    }

    /// Has the offset behind this record committed. A partition that was revoked meanwhile has another owner's offset.
    pub(crate) fn answered(&self, consumer: &BaseConsumer<Assignment>, offset: i64) {
        let state = self.lock();
        if state.phase == Phase::Revoked {
            info!(
                "{}[{}]@{offset} was answered behind a rebalance: another member has it too",
                self.topic, self.number
            );
            return;
        }
        // The lock is held: a rebalance does not come between.
        let stored = self.listed(Offset::Offset(offset + 1)).and_then(|list| consumer.store_offsets(&list));
        if let Err(error) = stored {
            warn!("{}[{}]@{offset} was answered, and not committed: {error}", self.topic, self.number);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn listed(&self, offset: Offset) -> KafkaResult<TopicPartitionList> {
        let mut list = TopicPartitionList::new();
        list.add_partition_offset(&self.topic, self.number, offset)?;
        Ok(list)
    }

    fn end(&self) {
        let mut state = self.lock();
        if state.phase == Phase::Open {
            state.phase = Phase::Ending;
        }
        self.changed.notify_all();
    }

    /// Ends the partition here, and waits until then for the record that is handled now.
    fn revoke(&self, until: Instant) {
        self.end();
        let left = until.saturating_duration_since(Instant::now());
        let waiting = self.changed.wait_timeout_while(self.lock(), left, |state| state.is_busy);
        waiting.unwrap_or_else(PoisonError::into_inner).0.phase = Phase::Revoked;
    }
}

/// Where a record was queued.
pub(crate) struct Added {
    pub(crate) partition: Arc<Partition>,
    /// No thread handles it yet.
    pub(crate) is_new: bool,
    /// It is paused now, and to be resumed.
    pub(crate) is_full: bool,
}

/// What a consumer has: it tells of revoked partitions, and stores the offsets of the others.
#[derive(Debug, Default)]
pub(crate) struct Assignment {
    partitions: Mutex<HashMap<(String, i32), Arc<Partition>>>,
}

impl Assignment {
    /// Queues a record with its partition, which is paused when it is full.
    pub(crate) fn add(&self, consumer: &BaseConsumer<Self>, record: OwnedMessage) -> Added {
        let key = (record.topic().to_owned(), record.partition());
        let mut partitions = self.lock();
        let is_new = !partitions.contains_key(&key);
        let partition =
            partitions.entry(key).or_insert_with_key(|(topic, number)| Arc::new(Partition::new(topic, *number)));
        let mut state = partition.lock();
        state.records.push_back(record);
        let is_full = state.records.len() == FULL;
        drop(state);
        partition.changed.notify_all();
        if is_full {
            let paused = partition.listed(Offset::Invalid).and_then(|list| consumer.pause(&list));
            debug!("{}[{}] is full: {paused:?}", partition.topic, partition.number);
        }
        Added { partition: Arc::clone(partition), is_new, is_full }
    }

    /// Reads partitions again that were full.
    pub(crate) fn resume(&self, consumer: &BaseConsumer<Self>, paused: &mut Vec<Arc<Partition>>) {
        paused.retain(|partition| {
            let state = partition.lock();
            if state.phase == Phase::Open && state.records.len() > LOW {
                return true;
            }
            drop(state);
            let resumed = partition.listed(Offset::Invalid).and_then(|list| consumer.resume(&list));
            debug!("{}[{}] is read again: {resumed:?}", partition.topic, partition.number);
            false
        });
    }

    /// Begins no further record.
    pub(crate) fn end(&self) {
        for partition in self.lock().values() {
            partition.end();
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<(String, i32), Arc<Partition>>> {
        self.partitions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ClientContext for Assignment {}

impl ConsumerContext for Assignment {
    fn pre_rebalance(&self, consumer: &BaseConsumer<Self>, rebalance: &Rebalance<'_>) {
        let revoked: Vec<_> = match rebalance {
            Rebalance::Assign(_) => return,
            Rebalance::Revoke(list) => {
                let mut partitions = self.lock();
                let keys = list.elements().into_iter().map(|one| (one.topic().to_owned(), one.partition()));
                keys.filter_map(|key| partitions.remove(&key)).collect()
            }
            Rebalance::Error(_) => self.lock().drain().map(|(_, partition)| partition).collect(),
        };
        for partition in &revoked {
            partition.end();
        }
        // What is lost already has another owner. Of the rest, librdkafka commits what is stored, before it goes.
        let patience = if consumer.assignment_lost() { Duration::ZERO } else { PATIENCE };
        let until = Instant::now() + patience;
        for partition in &revoked {
            partition.revoke(until);
        }
    }

    fn post_rebalance(&self, consumer: &BaseConsumer<Self>, rebalance: &Rebalance<'_>) {
        if let Rebalance::Assign(list) = rebalance {
            // They may have been full, and paused, when they were here before.
            if let Err(error) = consumer.resume(list) {
                warn!("assigned partitions could not be resumed: {error}");
            }
        }
    }

    fn commit_callback(&self, result: KafkaResult<()>, _: &TopicPartitionList) {
        match result {
            Ok(()) | Err(KafkaError::ConsumerCommit(RDKafkaErrorCode::NoOffset)) => {}
            // What is stored and not committed is committed with the next interval.
            Err(error) => info!("offsets are not committed yet: {error}"),
        }
    }
}
