"""Standard input, output and error of a command, whatever its caller has made of them: closed, full, ASCII, unread."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, redirect_stdout, suppress
from typing import Final, TextIO, cast

from afl.core.text.printable import ascii_json

#: What a stream does with a character that it cannot carry: it is written as Python's escape.
_ESCAPED: Final = "backslashreplace"
#: Error handlers of streams that never raise for a character.
_NEVER_RAISE: Final = frozenset({"backslashreplace", "replace", "ignore", "namereplace", "xmlcharrefreplace"})


@contextmanager
def standard_streams() -> Iterator[None]:
    """Make the three standard streams fit for use; to be entered before anything is read, written or opened.

    A stream that was closed is one on the null device, and its descriptor is taken: the next file that is opened would
    get it, and what is printed would stand in that file. What an encoding cannot carry is written as an escape.
    """
    with ExitStack() as undo:
        _take_descriptors()
        _open_streams(undo)
        for stream in (sys.stdout, sys.stderr):
            _escape_characters(stream, undo)
        yield


def flush_output() -> None:
    """Write out what is left. Raises BrokenPipeError, and OSError where a disk is full."""
    for stream in (sys.stdout, sys.stderr):
        stream.flush()


def give_up_output() -> None:
    """Let standard output and error that take nothing any more take everything: or Python would complain at its end."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            _to_null_device(stream)
        except ValueError:
            pass  # Closed by whoever called.


@contextmanager
def stdout_apart(*, for_good: bool = False) -> Iterator[TextIO]:
    """Keep standard output for what is written to the stream that this gives, which is to be flushed after each writing.

    What other code prints goes to standard error meanwhile; so does what it writes to descriptor 1, or has a process
    write that it starts. With `for_good` that stays so: what is printed at the end of the process goes there too.
    """
    before = sys.stdout
    before.flush()
    if _descriptor_of(before) != 1:
        # A stream that the caller of `main` has put there.
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
            before.flush()  # What somebody has written to the stream that was there: by now it is standard error.
        if not for_good:
            os.dup2(ours, 1)
            sys.stdout = before
        try:
            out.close()
        except OSError:
            _to_null_device(out)
            out.close()


def json_for(stream: TextIO, document: str) -> str:
    """Return a JSON document as this stream can carry it: with JSON's own escapes where it takes no UTF-8."""
    return document if document.isascii() or takes_utf(stream) else ascii_json(document)


def takes_utf(stream: TextIO) -> bool:
    """Say whether a stream carries every character; one that names no encoding does."""
    return (getattr(stream, "encoding", None) or "utf-8").lower().startswith("utf")


def _take_descriptors() -> None:
    for descriptor, mode in ((0, os.O_RDONLY), (1, os.O_WRONLY), (2, os.O_WRONLY)):
        try:
            os.fstat(descriptor)
        except OSError:
            # The lowest that is free: those below it are taken by now.
            os.open(os.devnull, mode)
            os.set_inheritable(descriptor, True)


def _open_streams(undo: ExitStack) -> None:
    for name, mode, errors in (("stdin", "r", "strict"), ("stdout", "w", _ESCAPED), ("stderr", "w", _ESCAPED)):
        if getattr(sys, name) is None:
            stream = undo.enter_context(_null_device(mode, errors))
            # The first one, too: libraries look for it.
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
