"""The ends of a run, in the words that workers and pool share."""

from __future__ import annotations

from typing import Final

#: The first byte of a script process's reply: whether it has a result. A process that failed is not used again.
SUCCEEDED: Final = b"+"
FAILED: Final = b"-"

#: The end of a run as the pool saw it; EXITED is followed by the exit status, SIGNALLED by the signal's number.
REPLIED: Final = "replied"
TIMED_OUT: Final = "timed out"
TOO_LARGE: Final = "too large"
EXITED: Final = "exited"
SIGNALLED: Final = "signalled"

#: The exit status of a script's process that lacked the memory to report its failure.
EXIT_OUT_OF_MEMORY: Final = 77

#: Characters kept of an exception's text.
MAX_TEXT_CHARS: Final = 4000
#: The mark behind printed text that was cut.
CUT: Final = "\n... (more was printed than is kept)\n"
