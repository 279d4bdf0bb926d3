"""The exit codes of the `afl-stream` command, and what each of them means."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """How a command ended. Scripts rely on the numbers: never change one."""

    OK = 0
    #: The workflow failed or was cancelled, events are left that nobody here answers, or a check found something.
    WORK_LEFT = 1
    #: The command line, a file, an input or a setting is wrong. Nothing was produced.
    BAD_INPUT = 2
    #: What the command needs is not there, not reachable, damaged, or held by another process.
    UNAVAILABLE = 3
    #: What was waited for has not come in time. Nothing was taken back.
    TIMEOUT = 4
    #: A mistake of this program.
    INTERNAL = 70
    #: Interrupted before the end.
    INTERRUPTED = 130


#: The table of `--help`: one line for each code.
MEANINGS = {
    ExitCode.OK: "done",
    ExitCode.WORK_LEFT: "a failed or cancelled workflow, work left that nobody here does, or findings of a check",
    ExitCode.BAD_INPUT: "wrong usage, file, input or setting; nothing was produced",
    ExitCode.UNAVAILABLE: "not found, not reachable, damaged, or in use by another process",
    ExitCode.TIMEOUT: "not finished in time; it may still finish",
    ExitCode.INTERNAL: "a mistake of this program; -v shows where",
    ExitCode.INTERRUPTED: "interrupted",
}


def table() -> str:
    """The codes and their meanings, a line each, for `--help`."""
    return "\n".join(f"  {code.value:<4} {meaning}" for code, meaning in MEANINGS.items())
