"""The exit codes of the commands `afl` and `afl-stream`: one table, with one meaning in both."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """How a command ended. Scripts rely on the numbers: never change one."""

    OK = 0
    #: The workflow failed or was cancelled, events are left that nobody here answers, or a look at files found
    #: something: a mistake in a text, a text that cannot be read.
    WORK_LEFT = 1
    #: The command line, a file, an input or a setting is wrong. Nothing was produced.
    BAD_INPUT = 2
    #: What the command needs is not there (a store, a topic, the answers that `afl run` waits for), not reachable,
    #: damaged, or held by another process.
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
    ExitCode.WORK_LEFT: "a failed or cancelled run, work left that nobody here does, or findings in files",
    ExitCode.BAD_INPUT: "wrong usage, or a file, input or setting that nothing can be run with; nothing was produced",
    ExitCode.UNAVAILABLE: "what it needs is not there (answers of afl run among it), not reachable, damaged, or in use",
    ExitCode.TIMEOUT: "not finished in time; it may still finish",
    ExitCode.INTERNAL: "a mistake of this program; -v shows where",
    ExitCode.INTERRUPTED: "interrupted",
}


def table() -> str:
    """The codes and their meanings, a line each, for `--help`."""
    return "\n".join(f"  {code.value:<4} {meaning}" for code, meaning in MEANINGS.items())
