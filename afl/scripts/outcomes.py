"""How a run ended, in the words that workers and pool share."""

from __future__ import annotations

from typing import Final

#: First byte of a script process's reply: whether there is a result. After a failure the process is not used again.
SUCCEEDED: Final = b"+"
FAILED: Final = b"-"

#: How a run ended as the pool saw it; after EXITED comes the exit status, after SIGNALLED the signal's number.
REPLIED: Final = "replied"
TIMED_OUT: Final = "timed out"
TOO_LARGE: Final = "too large"
EXITED: Final = "exited"
SIGNALLED: Final = "signalled"

#: Exit status of a script's process that had no memory left even to say so.
EXIT_OUT_OF_MEMORY: Final = 77

#: Characters kept of what an exception said.
MAX_TEXT_CHARS: Final = 4000
#: What stands after printed text that was cut.
CUT: Final = "\n... (more was printed than is kept)\n"
