"""Texts of records that are kept: cut to a readable length before a step's row, a milestone or memory has them."""

from __future__ import annotations

from hashlib import sha256

from afl.core.text.exception_text import exception_class, exception_text
from afl.core.text.printable import bounded, printable
from afl_stream.limits import MAX_FAILURE_CHARS, MAX_FAILURE_TYPE_CHARS, MAX_NAME_CHARS
from afl_stream.wire.messages import FailureReason


def kept_failure(error_type: str, message: str) -> FailureReason:
    """Return a failure as it is sent and kept.

    A handler's message and its type are any text: of megabytes, or with lone surrogates, which would not encode.
    """
    return FailureReason(
        type=printable(error_type, MAX_FAILURE_TYPE_CHARS), message=bounded(message, MAX_FAILURE_CHARS)
    )


def kept_error(error: BaseException) -> FailureReason:
    """Return an exception as it is sent and kept."""
    return kept_failure(exception_class(error), exception_text(error))


def kept_reason(reason: str | None) -> str:
    """Return an operator's reason, as it is kept."""
    return bounded(reason or "", MAX_FAILURE_CHARS)


def kept_name(name: str | None) -> str | None:
    """Return a group's or a person's name, as it is kept and compared."""
    # Asked for each answer: nearly every name is short and plain.
    if name is None or (len(name) <= MAX_NAME_CHARS and name.isprintable()):
        return name
    return printable(name, MAX_NAME_CHARS)


def kept_id(command_id: str | None) -> str | None:
    """Return an id that a command was sent with, as it is kept and compared: a long one by its digest."""
    if command_id is None or len(command_id) <= MAX_NAME_CHARS:
        return command_id
    return f"sha256:{sha256(command_id.encode('utf-8', 'surrogatepass')).hexdigest()}"
