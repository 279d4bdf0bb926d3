"""The exit codes of the commands `afl` and `afl-stream`: one table, with one meaning in both."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """The exit code of a command. Scripts rely on the numbers: never change one."""

    OK = 0
    #: The workflow failed or was cancelled, events are left without an answer, or a check of files found something: an
    #: error in a text, or a text that cannot be read.
    WORK_LEFT = 1
    #: The command line, a file, an input or a setting is wrong. No output was produced.
    BAD_INPUT = 2
    #: A thing that the command needs (a store, a topic, the answers that `afl run` waits for) is missing, unreachable,
    #: damaged, or held by another process.
    UNAVAILABLE = 3
    #: The awaited result did not arrive in time. Nothing was undone.
    TIMEOUT = 4
    #: A bug in this program.
    INTERNAL = 70
    #: Interrupted before the end.
    INTERRUPTED = 130


#: The table of `--help`: one line for each code.
MEANINGS = {
    ExitCode.OK: "done",
    ExitCode.WORK_LEFT: "a failed or cancelled run, work left that is not done here, or findings in files",
    ExitCode.BAD_INPUT: "wrong usage, or an unusable file, input or setting; nothing was produced",
    ExitCode.UNAVAILABLE: "something it needs (also answers for afl run) is missing, unreachable, damaged, or in use",
    ExitCode.TIMEOUT: "not finished in time; it may still finish",
    ExitCode.INTERNAL: "a bug in this program; -v shows where",
    ExitCode.INTERRUPTED: "interrupted",
}


def table() -> str:
    """Return the codes and their meanings, one line each, for `--help`."""
    return "\n".join(f"  {code.value:<4} {meaning}" for code, meaning in MEANINGS.items())
