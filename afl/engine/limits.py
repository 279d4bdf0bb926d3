"""The engine's limits on one call, one workflow and one value."""

from __future__ import annotations

from typing import Final

# Those of both sides.
from afl.core.limits import KEPT_EXECUTIONS as KEPT_EXECUTIONS
from afl.core.limits import MAX_CARRIED_EXECUTIONS as MAX_CARRIED_EXECUTIONS
from afl.core.limits import MAX_EXCEPTION_CHARS
from afl.core.limits import MAX_PAYLOAD_BYTES as MAX_PAYLOAD_BYTES
from afl.core.limits import MAX_PENDING_EVENT_BYTES as MAX_PENDING_EVENT_BYTES
from afl.core.limits import MAX_PENDING_EVENTS as MAX_PENDING_EVENTS
from afl.core.limits import MAX_STATE_BYTES as MAX_STATE_BYTES
from afl.core.limits import MAX_STUCK_HANDLERS as MAX_STUCK_HANDLERS
from afl.core.limits import MAX_TIMEOUT_MS as MAX_TIMEOUT_MS
from afl.core.limits import MAX_VALUE_BYTES as MAX_VALUE_BYTES
from afl.core.limits import MAX_VALUE_DEPTH as MAX_VALUE_DEPTH
from afl.core.limits import MAX_WORKFLOW_STEPS as MAX_WORKFLOW_STEPS

#: Iterations of one call of `execute` or `resume`. A run that cannot progress ends as ERROR long before, so this only
#: stops runaway programs; it is far above the need of any finite workflow of a few 100,000 steps.
MAX_ITERATIONS: Final = 1_000_000

#: Iterations without an effect outside that share a commit of `execute` and `resume`. The commit is then a thirtieth of
#: their cost; a crash repeats microseconds of work.
ITERATIONS_PER_COMMIT: Final = 32

#: Nested steps, blocks included. It ends unconditional recursion within milliseconds; hand-written programs stay far
#: below it.
MAX_NESTING_DEPTH: Final = 250

#: Bits of an integer. Python does not write, and JSON parsers do not read, integers a few times longer.
MAX_INTEGER_BITS: Final = 4_096

#: Nested operators in one expression. Closures call one another, one Python frame for each level (two while compiling),
#: and the interpreter's own limit of 1,000 frames must stay out of reach. A chain of operators counts as one level;
#: when its calls would exceed this, it becomes a loop.
MAX_EXPRESSION_DEPTH: Final = 200

#: A foreach of at most this many elements creates its children in one iteration.
FOREACH_WHOLE: Final = 5_000

#: Children that a larger foreach creates in an iteration. With its event and its row a child costs 50 to 70 µs: a slice
#: takes some 15 ms, within the time that a workflow has before others get their turn.
FOREACH_SLICE: Final = 250

#: The work of one iteration of a workflow: this many steps, or five times as many that only bind their attributes (a
#: fifth of the work), or this many bytes given to steps. The rest runs in the next iteration, so that others get their
#: turn in between: 1,000 steps take some 15 ms. Every evaluator of a workflow must use the same numbers.
ITERATION_STEPS: Final = 1_000
ITERATION_BYTES: Final = 4 * 1024 * 1024

#: Characters kept of the text of a step's error: every step around it has it, too.
MAX_ERROR_CHARS: Final = MAX_EXCEPTION_CHARS

#: Steps of all workflows that stay in memory between calls. A step takes 550 to 750 bytes: some 150 MB at most.
HOT_WORKFLOW_STEPS: Final = 200_000

#: Unanswered events of one workflow. It exceeds what agents work on at once; the rest is created as answers come in.
MAX_OPEN_EVENTS: Final = 10_000

#: The longest silence of a poller before its tasks are taken over, in milliseconds: three renewals, so that a late one
#: has no effect.
TASK_LEASE_MS: Final = 9_000

#: The same for `poll_once`, which renews nothing: the longest time for a handler there.
POLL_ONCE_LEASE_MS: Final = 300_000


def near(limit: int) -> int:
    """Return the value from which on a run is warned that it comes near a limit."""
    return limit * 4 // 5
