"""Limits that both sides go by, the engine and the stream: each stands here, and nowhere else."""

from __future__ import annotations

from typing import Final

#: AFL's Int and Long, which are Avro's long.
LONG_MIN: Final = -(2**63)
LONG_MAX: Final = 2**63 - 1

#: Up to here a Double holds every integer, in every language.
EXACT_IN_DOUBLE: Final = 2**53

#: Lists and maps nested in one another in one value. Those who copy, encode and read values recurse.
MAX_VALUE_DEPTH: Final = 100

#: Steps of one workflow, blocks and yields counted in. At 1 KB a step it takes 1 GB then: what makes more has run away,
#: or is better split into several.
MAX_WORKFLOW_STEPS: Final = 1_000_000

#: An event's payload, or an answer's result with all that was told before it, as JSON. Both are stored in one document
#: with each other, and MongoDB's are 16 MB at most.
MAX_PAYLOAD_BYTES: Final = 4 * 1024 * 1024

#: A value that an expression makes, the parameters of a step together, or its returns: counted as
#: engine/values/sizes.py does. Four payloads. A store that keeps less in one piece, as MongoDB does, says so by name
#: (DocumentTooLarge).
MAX_VALUE_BYTES: Final = 16 * 1024 * 1024

#: What the rows of one workflow hold, by the same count. It is in memory while the workflow runs, and in the store.
MAX_STATE_BYTES: Final = 512 * 1024 * 1024

#: What a `Timeout`, or a pause of a `Retry`, may give, in milliseconds: a hundred years. Later moments have no date.
MAX_TIMEOUT_MS: Final = 100 * 365 * 24 * 3_600_000

#: External events of one workflow that no wait has taken, by default, and bytes of their data.
MAX_PENDING_EVENTS: Final = 100
MAX_PENDING_EVENT_BYTES: Final = 64 * 1024 * 1024

#: Executions of a workflow that continues as new into which an event is carried after that in which it was raised, by
#: default.
MAX_CARRIED_EXECUTIONS: Final = 5

#: Executions of such a workflow of which the history is kept, by default.
KEPT_EXECUTIONS: Final = 10

#: Handlers of one process that may still run after their time was up, by default. Each keeps a thread.
MAX_STUCK_HANDLERS: Final = 64

#: What is kept of a failure, be it an exception, a step's error or the message of an answer: its text, and its class.
MAX_EXCEPTION_CHARS: Final = 10_000
MAX_CLASS_CHARS: Final = 200

#: Longest workflow id; a step id adds a colon and a digest, and both must fit a record key comfortably.
MAX_WORKFLOW_ID_CHARS: Final = 128

#: Longest name that Kafka takes for a topic.
MAX_TOPIC_NAME_CHARS: Final = 249

#: What one run of a script may use, by default: time on the clock and of the processor in seconds, memory, the result
#: as JSON, and what is kept of what it prints; and what those processes of one worker hold together that wait.
SCRIPT_WALL_S: Final = 30
SCRIPT_CPU_S: Final = 10
SCRIPT_MEMORY_MIB: Final = 256
SCRIPT_OUTPUT_BYTES: Final = 4 * 1024 * 1024
SCRIPT_PRINTED_BYTES: Final = 64 * 1024
SCRIPT_IDLE_MIB: Final = 128
