"""The engine's limits: how much one call, one workflow and one value may take."""

from __future__ import annotations

from typing import Final

#: Iterations of one call of `execute` or `resume`. A run that can't progress ends as ERROR long before, so this stops
#: only programs that run away; it is far above what any finite workflow of a few 100,000 steps needs.
MAX_ITERATIONS: Final = 1_000_000

#: Steps nested in one another, blocks counted in. Ends unconditional recursion within milliseconds; no program written
#: by hand comes near it.
MAX_NESTING_DEPTH: Final = 250

#: Bits of an integer. Python refuses to write, and JSON parsers to read, what is a few times longer.
MAX_INTEGER_BITS: Final = 4_096

#: Operators nested in one another in one expression. Closures call one another, one Python frame a level (two while
#: compiling), and the interpreter's own limit of 1,000 frames must stay out of reach.
MAX_EXPRESSION_DEPTH: Final = 200

#: Children that a foreach creates at once. At some 2 µs a step a slice takes about 10 ms: no longer do others wait.
FOREACH_SLICE: Final = 5_000

#: Steps of all workflows that stay in memory between calls. A compact step takes about 1 KB: some 200 MB at most.
HOT_WORKFLOW_STEPS: Final = 200_000

#: Unanswered events of one workflow. More than agents work on at once; the rest is created as answers come in.
MAX_OPEN_EVENTS: Final = 10_000

#: How long a poller may be silent before its tasks are taken over, in milliseconds: three renewals, so that one that
#: comes late costs nothing.
TASK_LEASE_MS: Final = 9_000

#: The same for `poll_once`, which renews nothing: as long as a handler may take there.
POLL_ONCE_LEASE_MS: Final = 300_000
