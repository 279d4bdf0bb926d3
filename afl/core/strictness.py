"""How strictly findings are judged before a program is run."""

from __future__ import annotations

from enum import StrEnum


class Strictness(StrEnum):
    """How many findings refuse a program: what the Python API, the commands and `--strict` take for errors."""

    #: What was left open is a warning, in programs too: the runtime may know more.
    LENIENT = "lenient"
    #: What was left open is an error in a program.
    PROGRAM = "program"
    #: Every warning is an error.
    STRICT = "strict"
