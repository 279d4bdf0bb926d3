"""The engine's limits: how much one call, one workflow and one value may take."""

from __future__ import annotations

from typing import Final

# Of values, and so of both sides: how deep lists and maps nest.
from afl.core.values import MAX_VALUE_DEPTH as MAX_VALUE_DEPTH

#: Iterations of one call of `execute` or `resume`. A run that can't progress ends as ERROR long before, so this stops
#: only programs that run away; it is far above what any finite workflow of a few 100,000 steps needs.
MAX_ITERATIONS: Final = 1_000_000

#: Steps of one workflow, blocks and yields counted in. At 1 KB a step it takes 1 GB then: what makes more has run away,
#: or is better split into several.
MAX_WORKFLOW_STEPS: Final = 1_000_000

#: An event's payload, or an answer's result with all that was told before it, as JSON. Both are stored in one document
#: with each other, and MongoDB's are 16 MB at most.
MAX_PAYLOAD_BYTES: Final = 4 * 1024 * 1024

#: A value that an expression makes, the parameters of a step together, or its returns: counted as values/sizes.py does.
#: Four payloads. A store that keeps less in one piece, as MongoDB does, says so by name (DocumentTooLarge).
MAX_VALUE_BYTES: Final = 16 * 1024 * 1024

#: What the rows of one workflow hold, by the same count. It is in memory while the workflow runs, and in the store.
MAX_STATE_BYTES: Final = 512 * 1024 * 1024

#: What a `Timeout` may give, in milliseconds: a hundred years. Moments beyond it have no date.
MAX_TIMEOUT_MS: Final = 100 * 365 * 24 * 3_600_000

#: Steps nested in one another, blocks counted in. Ends unconditional recursion within milliseconds; no program written
#: by hand comes near it.
MAX_NESTING_DEPTH: Final = 250

#: Bits of an integer. Python refuses to write, and JSON parsers to read, what is a few times longer.
MAX_INTEGER_BITS: Final = 4_096

#: Operators nested in one another in one expression. Closures call one another, one Python frame a level (two while
#: compiling), and the interpreter's own limit of 1,000 frames must stay out of reach. A chain of operators counts as
#: one level; where its calls would be more than this it is a loop.
MAX_EXPRESSION_DEPTH: Final = 200

#: A foreach of no more elements than this creates its children at once, in one iteration.
FOREACH_WHOLE: Final = 5_000

#: Children that a larger foreach creates in an iteration. With events to make and rows to write a child costs 50 to
#: 70 µs: a slice takes some 15 ms, within the time that a workflow has before others get their turn.
FOREACH_SLICE: Final = 250

#: What one iteration moves of a workflow: so many steps, or five times as many of those that only bind their attributes
#: (a fifth of the work), or so many bytes that they are given. The rest runs in the next iteration, so that others get
#: their turn in between: 1,000 steps take some 15 ms. Every evaluator of a workflow must go by the same numbers.
ITERATION_STEPS: Final = 1_000
ITERATION_BYTES: Final = 4 * 1024 * 1024

#: Characters kept of the text of a step's error: every step around it has it, too.
MAX_ERROR_CHARS: Final = 10_000

#: Steps of all workflows that stay in memory between calls. A step takes 550 to 750 bytes: some 150 MB at most.
HOT_WORKFLOW_STEPS: Final = 200_000

#: Unanswered events of one workflow. More than agents work on at once; the rest is created as answers come in.
MAX_OPEN_EVENTS: Final = 10_000

#: How long a poller may be silent before its tasks are taken over, in milliseconds: three renewals, so that one that
#: comes late costs nothing.
TASK_LEASE_MS: Final = 9_000

#: The same for `poll_once`, which renews nothing: as long as a handler may take there.
POLL_ONCE_LEASE_MS: Final = 300_000


def near(limit: int) -> int:
    """From where on a run is warned that it comes near to a limit."""
    return limit * 4 // 5


#: Handlers of one process that may still run after their time was up, by default. Each keeps a thread.
MAX_STUCK_HANDLERS: Final = 64
