"""The strictness with which findings are judged before a program is run."""

from __future__ import annotations

from enum import StrEnum


class Strictness(StrEnum):
    """The findings that refuse a program: which of them the Python API, the commands and `--strict` treat as errors."""

    #: Names that a program leaves open are warnings: the runtime may know more.
    LENIENT = "lenient"
    #: Names that a program leaves open are errors.
    PROGRAM = "program"
    #: Every warning is an error.
    STRICT = "strict"
