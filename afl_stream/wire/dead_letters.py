"""The headers of a dead letter: where the record was, and why it could not be handled."""

from __future__ import annotations

from typing import Final

from afl.core.text.exception_text import exception_class, exception_line
from afl.core.text.masking import masked_text
from afl.core.text.printable import bounded, printable
from afl_stream.errors import IdRefused, Reason, StreamError, Unreadable
from afl_stream.limits import MAX_ERROR_HEADER_CHARS
from afl_stream.transport import Headers
from afl_stream.wire.headers import rfc3339

DLQ_PREFIX: Final = "afl_dlq_"


def dead_letter_headers(
    *, topic: str, partition: int, offset: int, error: Exception, headers: Headers = (), at_ms: int | None = None
) -> Headers:
    """Return the headers of a dead letter: the original ones, then where it was and why it could not be handled.

    The value and key go unchanged beside them. Headers of an earlier dead-lettering are replaced.
    """
    if isinstance(error, Unreadable):
        reason = error.reason.value
    else:
        reason = Reason.BAD_ID.value if isinstance(error, IdRefused) else exception_class(error)
    text = str(error) if isinstance(error, StreamError) else exception_line(error)
    origin = [
        ("topic", topic),
        ("partition", str(partition)),
        ("offset", str(offset)),
        ("reason", reason),
        ("error", bounded(printable(masked_text(text), MAX_ERROR_HEADER_CHARS), MAX_ERROR_HEADER_CHARS)),
    ]
    if at_ms is not None:
        origin.append(("time", rfc3339(at_ms)))
    kept = [(name, value) for name, value in headers if not name.startswith(DLQ_PREFIX)]
    # Errors may quote a lone surrogate from the record; a header must be UTF-8 all the same.
    return (*kept, *((DLQ_PREFIX + name, value.encode("utf-8", "backslashreplace")) for name, value in origin))
