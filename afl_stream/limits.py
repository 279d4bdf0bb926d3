"""Limits of the stream side, and the format of its records."""

from __future__ import annotations

from typing import Final

# Those of both sides; some are defaults of settings.
from afl.core.limits import EXACT_IN_DOUBLE, MAX_CLASS_CHARS, MAX_EXCEPTION_CHARS
from afl.core.limits import KEPT_EXECUTIONS as KEPT_EXECUTIONS
from afl.core.limits import LONG_MAX as LONG_MAX
from afl.core.limits import LONG_MIN as LONG_MIN
from afl.core.limits import MAX_CARRIED_EXECUTIONS as MAX_CARRIED_EXECUTIONS
from afl.core.limits import MAX_PAYLOAD_BYTES as MAX_PAYLOAD_BYTES
from afl.core.limits import MAX_PENDING_EVENT_BYTES as MAX_PENDING_EVENT_BYTES
from afl.core.limits import MAX_PENDING_EVENTS as MAX_PENDING_EVENTS
from afl.core.limits import MAX_STATE_BYTES as MAX_STATE_BYTES
from afl.core.limits import MAX_STUCK_HANDLERS as MAX_STUCK_HANDLERS
from afl.core.limits import MAX_TOPIC_NAME_CHARS as MAX_TOPIC_NAME_CHARS
from afl.core.limits import MAX_VALUE_BYTES as MAX_VALUE_BYTES
from afl.core.limits import MAX_VALUE_DEPTH as MAX_VALUE_DEPTH
from afl.core.limits import MAX_WORKFLOW_ID_CHARS as MAX_WORKFLOW_ID_CHARS
from afl.core.limits import MAX_WORKFLOW_STEPS as MAX_WORKFLOW_STEPS
from afl.core.limits import SCRIPT_CPU_S as SCRIPT_CPU_S
from afl.core.limits import SCRIPT_IDLE_MIB as SCRIPT_IDLE_MIB
from afl.core.limits import SCRIPT_MEMORY_MIB as SCRIPT_MEMORY_MIB
from afl.core.limits import SCRIPT_OUTPUT_BYTES as SCRIPT_OUTPUT_BYTES
from afl.core.limits import SCRIPT_PRINTED_BYTES as SCRIPT_PRINTED_BYTES
from afl.core.limits import SCRIPT_WALL_S as SCRIPT_WALL_S

#: Major number in the Avro namespace of every record (`afl.v1`). Readers take this one and the one before.
RECORD_FORMAT: Final = 1

#: Longest digest in a step id. Ours are shorter; others' ids are keys of records and rows, too.
MAX_STEP_DIGEST_CHARS: Final = 128

#: Default of `max_event_bytes`. Below Kafka's own 1,048,588 for a record batch, headers and framing included.
MAX_EVENT_BYTES: Final = 900_000

#: Largest compiled program read from the definitions topic, unpacked. A bound against decompression bombs.
MAX_PROGRAM_BYTES: Final = 64 * 1024 * 1024

#: What is kept of a failure: its message, as much as of an exception's text, and its type.
MAX_FAILURE_CHARS: Final = MAX_EXCEPTION_CHARS
MAX_FAILURE_TYPE_CHARS: Final = MAX_CLASS_CHARS

#: Limit of a name that is kept from a record: of a group, of the person who asked for a run, or of an external event.
MAX_NAME_CHARS: Final = 249

#: Longest id of a schedule: the workflow ids of its runs have a time behind it, of 17 characters.
MAX_SCHEDULE_ID_CHARS: Final = 100
#: Shortest interval of a schedule: a run's id has the time of its firing in seconds.
MIN_INTERVAL_MS: Final = 1_000
#: How late the run of a firing may start: least, most, and where nothing is said.
MIN_CATCH_UP_MS: Final = 10_000
MAX_CATCH_UP_MS: Final = 31_536_000_000
DEFAULT_CATCH_UP_MS: Final = 3_600_000
#: How long a schedule waits for a run that it has asked for to appear. After that the run is taken never to have come
#: to exist: its record was lost with its topic, for instance.
UNSEEN_RUN_MS: Final = 600_000

#: Waiting steps that the answer to a DescribeWorkflow names; it counts all.
MAX_DESCRIBED_STEPS: Final = 20

#: How much of an error's text goes into a dead-letter header.
MAX_ERROR_HEADER_CHARS: Final = 1_000

#: Writer schemas that one reader keeps in memory. Ids come from the outside, so the cache needs a bound.
MAX_CACHED_SCHEMAS: Final = 10_000
#: Returns that an event's schema describes. Readers count a record's fields without bytes against its bytes, of which
#: every event has more than this; if a facet has more returns, only the evaluator checks the results.
MAX_DESCRIBED_RETURNS: Final = 64
#: How long records wait whose writer schema is gone from the schemas topic: one wait for each loss of that topic. Every
#: process that has a schema announces it again within half a minute.
SCHEMA_WAIT_S: Final = 600
#: The highest number of a store's claim: far more than are ever counted up to, and exact in every language.
MAX_CLAIM_NUMBER: Final = EXACT_IN_DOUBLE

#: Defaults of `evaluator.max_parked_answers`, `evaluator.max_parked_per_workflow` and
#: `evaluator.max_parked_bytes`, and bytes of the parked answers of one workflow.
MAX_PARKED_ANSWERS: Final = 100_000
MAX_PARKED_PER_WORKFLOW: Final = 1_000
MAX_PARKED_BYTES: Final = 1024 * 1024 * 1024
MAX_PARKED_BYTES_PER_WORKFLOW: Final = 64 * 1024 * 1024

#: Defaults of `evaluator.max_early_events` and `evaluator.max_early_bytes`.
MAX_EARLY_EVENTS: Final = 10_000
MAX_EARLY_BYTES: Final = 256 * 1024 * 1024

#: Room that key, headers and the batch around a record take on top of its value.
RECORD_OVERHEAD_BYTES: Final = 16_384

#: An event in the file of an event store, as JSON with its names. SQLite's own limit of a row is a billion bytes.
MAX_FILE_EVENT_BYTES: Final = 256 * 1024 * 1024
#: The events that are appended at once to a request in MongoDB, whose documents end at 16 MiB.
MAX_DOCUMENT_EVENTS_BYTES: Final = 15 * 1024 * 1024
#: What a process keeps in memory of unfinished requests whose events are on a topic.
MAX_HELD_EVENT_BYTES: Final = 64 * 1024 * 1024

#: The files that a SQLite store is divided into, one for each evaluator process.
MAX_STORE_FILES: Final = 256
