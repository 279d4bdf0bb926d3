//! Agents and answers for AFL Stream, over [librdkafka](https://github.com/fede1024/rust-rdkafka).
//!
//! An [`Agent`] consumes the events of facets, runs their handlers, answers, and only then moves its offsets. [`Answers`] answers
//! steps from anywhere else: what a handler has [`Deferred`], or what a person decides.

mod agent;
mod answers;
mod errors;
mod events;
mod letters;
mod options;
mod partitions;

pub use agent::Agent;
pub use answers::{Answers, StepRef};
pub use errors::{BoxError, Deferred, Error, Failure};
pub use events::{Event, Headers, Returns};
pub use options::{Assignor, Options};
