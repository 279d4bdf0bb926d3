"""Standard input, output and error of a command, in any state its caller left them: closed, full, ASCII, unread."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, redirect_stdout, suppress
from typing import Final, TextIO, cast

from afl.core.text.printable import ascii_json

#: The error handler for characters that a stream cannot encode: they become Python's escapes.
_ESCAPED: Final = "backslashreplace"
#: Error handlers of streams that never raise for a character.
_NEVER_RAISE: Final = frozenset({"backslashreplace", "replace", "ignore", "namereplace", "xmlcharrefreplace"})


@contextmanager
def standard_streams() -> Iterator[None]:
    """Make the three standard streams fit for use. Enter this before anything is read, written or opened.

    A closed stream becomes one on the null device, which also takes its descriptor: otherwise the next opened file
    would get that descriptor, and printed output would land in the file. Characters that the encoding lacks become
    escapes.
    """
    with ExitStack() as undo:
        _take_descriptors()
        _open_streams(undo)
        for stream in (sys.stdout, sys.stderr):
            _escape_characters(stream, undo)
        yield


def flush_output() -> None:
    """Flush standard output. Raises BrokenPipeError, and OSError where a disk is full."""
    for stream in (sys.stdout, sys.stderr):
        stream.flush()


def give_up_output() -> None:
    """Redirect output streams that no longer accept data to the null device, so that Python's end does not complain."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            _to_null_device(stream)
        except ValueError:
            pass  # The caller closed it.


@contextmanager
def stdout_apart(*, for_good: bool = False) -> Iterator[TextIO]:
    """Reserve standard output for the stream that this yields; flush that stream after each write.

    Meanwhile the output of all other code goes to standard error, also when it writes to descriptor 1 or starts a
    process that does. With `for_good` that stays so: output at the end of the process goes to standard error too.
    """
    before = sys.stdout
    before.flush()
    if _descriptor_of(before) != 1:
        # The caller of `main` has replaced the stream.
        with redirect_stdout(sys.stderr):
            yield before
        return
    sys.stderr.flush()
    ours = os.dup(1)
    os.dup2(2, 1)
    out = open(ours, "w", encoding=before.encoding, errors=_ESCAPED, newline="")  # noqa: SIM115 - closed below
    sys.stdout = sys.stderr
    try:
        yield out
    finally:
        with suppress(OSError):
            before.flush()  # Text that other code wrote to the previous stream goes to standard error now.
        if not for_good:
            os.dup2(ours, 1)
            sys.stdout = before
        try:
            out.close()
        except OSError:
            _to_null_device(out)
            out.close()


def json_for(stream: TextIO, document: str) -> str:
    """Return a JSON document in a form that the stream can encode: with JSON's own escapes where it lacks UTF-8."""
    return document if document.isascii() or takes_utf(stream) else ascii_json(document)


def takes_utf(stream: TextIO) -> bool:
    """Say whether a stream can encode every character; a stream without an encoding can."""
    return (getattr(stream, "encoding", None) or "utf-8").lower().startswith("utf")


def _take_descriptors() -> None:
    for descriptor, mode in ((0, os.O_RDONLY), (1, os.O_WRONLY), (2, os.O_WRONLY)):
        try:
            os.fstat(descriptor)
        except OSError:
            # The lowest free descriptor: those below it are in use by now.
            os.open(os.devnull, mode)
            os.set_inheritable(descriptor, True)


def _open_streams(undo: ExitStack) -> None:
    for name, mode, errors in (("stdin", "r", "strict"), ("stdout", "w", _ESCAPED), ("stderr", "w", _ESCAPED)):
        if getattr(sys, name) is None:
            stream = undo.enter_context(_null_device(mode, errors))
            # The original stream too: libraries look for it.
            for attribute in (name, f"__{name}__"):
                if getattr(sys, attribute) is None:
                    undo.callback(setattr, sys, attribute, None)
                    setattr(sys, attribute, stream)


def _null_device(mode: str, errors: str) -> TextIO:
    return cast(TextIO, open(os.devnull, mode, encoding="utf-8", errors=errors))


def _escape_characters(stream: TextIO, undo: ExitStack) -> None:
    if isinstance(stream, io.TextIOWrapper) and stream.errors not in _NEVER_RAISE:
        undo.callback(_reconfigure, stream, stream.errors)
        _reconfigure(stream, _ESCAPED)


def _reconfigure(stream: io.TextIOWrapper, errors: str | None) -> None:
    if not stream.closed:
        with suppress(OSError):
            stream.reconfigure(errors=errors)


def _descriptor_of(stream: TextIO) -> int | None:
    try:
        return stream.fileno()
    except (OSError, ValueError, AttributeError):
        return None


def _to_null_device(stream: TextIO) -> None:
    descriptor = _descriptor_of(stream)
    if descriptor is not None:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, descriptor)
        os.close(null)
        with suppress(OSError):
            stream.flush()
