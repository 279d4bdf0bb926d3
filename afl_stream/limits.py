"""Limits and format versions of the stream side, each defined once."""

from __future__ import annotations

from typing import Final

from afl.core.release import VERSION

# Of values, and so of both sides: what Int and Long hold, and how deep lists and maps nest.
from afl.core.values import LONG_MAX as LONG_MAX
from afl.core.values import LONG_MIN as LONG_MIN
from afl.core.values import MAX_VALUE_DEPTH as MAX_VALUE_DEPTH

#: What this release calls itself in records.
RUNTIME_VERSION: Final = VERSION

#: Version of a workflow whose program does not name one.
WORKFLOW_VERSION: Final = "1.0"

#: Format of persisted steps and of events. A higher major number is refused as a newer format.
STEP_SCHEMA_VERSION: Final = "1.0"

#: Major number in the Avro namespace of every record (`afl.v1`). Readers take this one and the one before.
RECORD_FORMAT: Final = 1

#: Longest workflow id; a step id adds a colon and a digest, and both must fit a record key comfortably.
MAX_WORKFLOW_ID_CHARS: Final = 128

#: Longest digest in a step id. Ours are shorter; others' ids are keys of records and rows, too.
MAX_STEP_DIGEST_CHARS: Final = 128

#: Longest name that Kafka takes for a topic.
MAX_TOPIC_NAME_CHARS: Final = 249

#: Default of `max_event_bytes`. Below Kafka's own 1,048,588 for a record batch, headers and framing included.
MAX_EVENT_BYTES: Final = 900_000

#: Defaults of `evaluator.max_workflow_steps`, `.max_payload_bytes`, `.max_value_bytes` and `.max_state_bytes`: the
#: engine's own.
MAX_WORKFLOW_STEPS: Final = 1_000_000
MAX_PAYLOAD_BYTES: Final = 4 * 1024 * 1024
MAX_VALUE_BYTES: Final = 16 * 1024 * 1024
MAX_STATE_BYTES: Final = 512 * 1024 * 1024

#: Largest compiled program read from the definitions topic, unpacked. A bound against decompression bombs.
MAX_PROGRAM_BYTES: Final = 64 * 1024 * 1024

#: Limits of a kept failure: its message, the text of an exception, and its type.
MAX_FAILURE_CHARS: Final = 10_000
MAX_FAILURE_TYPE_CHARS: Final = 200

#: Limit of a name that is kept from a record: of a group, or of the person who asked for a run.
MAX_NAME_CHARS: Final = 249

#: Waiting steps that the answer to a DescribeWorkflow names; it counts all.
MAX_DESCRIBED_STEPS: Final = 20

#: How much of an error's text goes into a dead-letter header.
MAX_ERROR_HEADER_CHARS: Final = 1_000

#: Writer schemas that one reader keeps in memory. Ids come from the outside, so the cache needs a bound.
MAX_CACHED_SCHEMAS: Final = 10_000
#: Returns that an event's schema describes. Readers count a record's fields without bytes against its bytes, of which
#: every event has more than this; if a facet has more returns, only the evaluator checks the results.
MAX_TOLD_RETURNS: Final = 64
#: How long records wait whose writer schema is gone from the schemas topic: one wait for each loss of that topic. Every
#: process that has a schema announces it again within half a minute.
SCHEMA_WAIT_S: Final = 600
#: The highest number of a store's claim: far more than are ever counted up to, and exact in every language.
MAX_CLAIM_NUMBER: Final = 2**53

#: Default limits of one run of a script: time on the clock and of the processor in seconds, memory, the result as JSON,
#: and its printed text; and the memory that one worker's waiting processes hold together.
SCRIPT_WALL_S: Final = 30
SCRIPT_CPU_S: Final = 10
SCRIPT_MEMORY_MIB: Final = 256
SCRIPT_OUTPUT_BYTES: Final = 4 * 1024 * 1024
SCRIPT_PRINTED_BYTES: Final = 64 * 1024
SCRIPT_IDLE_MIB: Final = 128

#: Defaults of `evaluator.max_parked_answers`, `evaluator.max_parked_per_workflow` and
#: `evaluator.max_parked_bytes`, and bytes of the parked answers of one workflow.
MAX_PARKED_ANSWERS: Final = 100_000
MAX_PARKED_PER_WORKFLOW: Final = 1_000
MAX_PARKED_BYTES: Final = 1024 * 1024 * 1024
MAX_PARKED_BYTES_PER_WORKFLOW: Final = 64 * 1024 * 1024

#: Handlers of one process that may still run after their time was up, by default. Each keeps a thread.
MAX_STUCK_HANDLERS: Final = 64

#: Room that key, headers and the batch around a record take on top of its value.
RECORD_OVERHEAD_BYTES: Final = 16_384
