"""The headers of a dead letter: where the record was, and why it could not be handled. One table of their names."""

from __future__ import annotations

from enum import StrEnum
from typing import Final, Protocol

from afl.core.text.exception_text import exception_class, exception_line, exception_text
from afl.core.text.masking import masked_text
from afl.core.text.printable import bounded, printable
from afl_stream.errors import IdRefused, Reason, StreamError, Unreadable
from afl_stream.limits import MAX_ERROR_HEADER_CHARS
from afl_stream.transport import Headers
from afl_stream.wire.headers import ATTEMPT_HEADER, header, rfc3339
from afl_stream.wire.messages import is_workflow_id, match_step_id

#: What the names of these headers begin with, and what they began with in earlier releases, whose letters are read too.
DLQ_PREFIX: Final = "afl.dlq."
EARLIER_PREFIX: Final = "afl_dlq_"


class DlqHeader(StrEnum):
    """The headers of dead letters, of replayed records and of the notes about replays. Others may read them by name."""

    #: Where the record was.
    TOPIC = "afl.dlq.topic"
    PARTITION = "afl.dlq.partition"
    OFFSET = "afl.dlq.offset"
    #: Its timestamp in ms since the epoch, and its key; left out where it has none.
    TIMESTAMP = "afl.dlq.timestamp"
    KEY = "afl.dlq.key"
    #: Why it was given up: a stable code, the class of the error, and its text for people.
    REASON = "afl.dlq.reason"
    ERROR_CLASS = "afl.dlq.error_class"
    ERROR = "afl.dlq.error"
    #: The step's attempt, where it is known, and how often the handler of an event has run.
    ATTEMPT = "afl.dlq.attempt"
    TRIES = "afl.dlq.tries"
    #: When, and which agent and group, if it was one.
    TIME = "afl.dlq.time"
    GROUP = "afl.dlq.group"
    AGENT = "afl.dlq.agent"
    #: The size of a value that was too large for the topic of dead letters.
    VALUE_OMITTED = "afl.dlq.value_omitted"
    #: On a record that was replayed: the dead letter that it is from, TOPIC[PARTITION]@OFFSET. It stays on the letter
    #: of such a record.
    REPLAYED_FROM = "afl.dlq.replayed_from"
    #: On a note about a letter, which stands among the dead letters: `intended` and `done` of a replay, or `dropped`.
    REPLAY = "afl.dlq.replay"
    #: On a note that a letter was dropped: the reason that was given.
    DROPPED_BECAUSE = "afl.dlq.dropped_because"


class Original(Protocol):
    """A record as it was read, which becomes a dead letter."""

    @property
    def topic(self) -> str: ...
    @property
    def partition(self) -> int: ...
    @property
    def offset(self) -> int: ...
    @property
    def key(self) -> bytes | None: ...
    @property
    def headers(self) -> Headers: ...
    @property
    def timestamp_ms(self) -> int: ...


def reason_of(error: Exception) -> str:
    """Return the stable code of why a record is given up."""
    if isinstance(error, Unreadable):
        return error.reason.value
    return Reason.BAD_ID.value if isinstance(error, IdRefused) else exception_class(error)


def dead_letter_headers(
    original: Original, error: Exception, *, at_ms: int, attempt: int | None = None, tries: int = 0, by: Headers = ()
) -> Headers:
    """Return the headers of a dead letter: the original ones, then where it was and why it could not be handled.

    The value and key go unchanged beside them. Headers of an earlier dead-lettering are replaced, but for the mark of a
    replay. `attempt` is the step's, by default as the original's headers say; `tries` are runs of its handler, 0 where
    there is none; `by` are more headers, about who gave it up.
    """
    reason = reason_of(error)
    text = str(error) if isinstance(error, StreamError) else exception_line(error)
    found = {
        DlqHeader.TOPIC: original.topic,
        DlqHeader.PARTITION: str(original.partition),
        DlqHeader.OFFSET: str(original.offset),
        DlqHeader.TIMESTAMP: str(original.timestamp_ms) if original.timestamp_ms > 0 else None,
        DlqHeader.REASON: reason,
        DlqHeader.ERROR_CLASS: exception_class(error),
        DlqHeader.ERROR: bounded(printable(masked_text(text), MAX_ERROR_HEADER_CHARS), MAX_ERROR_HEADER_CHARS),
        DlqHeader.ATTEMPT: str(attempt) if attempt is not None else header(original.headers, ATTEMPT_HEADER),
        DlqHeader.TRIES: str(tries) if tries else None,
        DlqHeader.TIME: rfc3339(at_ms),
    }
    key = () if original.key is None else ((DlqHeader.KEY.value, original.key),)
    return (
        *original_headers(original.headers, keep_mark=True),
        # Errors may quote a lone surrogate from the record; a header must be UTF-8 all the same.
        *(
            (name.value, text.encode("utf-8", "backslashreplace"))
            for name, text in found.items()
            if text is not None
        ),
        *key,
        *by,
    )  # fmt: skip


def text_of(error: Exception) -> str:
    """Return an error's text for people, without the reason that it may begin with."""
    text = str(error) if isinstance(error, StreamError) else exception_text(error)
    return text.removeprefix(f"{reason_of(error)}: ")


def letter_fields(original: Original, reason: str) -> dict[str, object]:
    """Return the fields of a log record about a dead letter."""
    step_id, workflow_id = _ids_of(original)
    return {
        "reason": reason,
        "topic": original.topic,
        "partition": original.partition,
        "offset": original.offset,
        "workflow_id": workflow_id or None,
        "step_id": step_id or None,
    }


def listing_command(original: Original, reason: str) -> str:
    """Return the command that lists a record's dead letter: by its run where its key or headers name one."""
    _, workflow_id = _ids_of(original)
    by_what = f"--workflow {workflow_id}" if workflow_id else f"--reason {reason}"
    return f"afl-stream dlq list {by_what}"


def _ids_of(original: Original) -> tuple[str, str]:
    """Return the ids of the step and the run that headers or key name; "" for what they do not."""
    texts = (header(original.headers, "ce_subject") or "", (original.key or b"").decode("utf-8", "replace"))
    for text in texts:
        if (matched := match_step_id(text)) is not None:
            return text, matched.group(1)
    return "", next((text for text in texts if is_workflow_id(text)), "")


def original_headers(headers: Headers, *, keep_mark: bool = False) -> Headers:
    """Return the headers that a record had before it became a dead letter. `keep_mark`: with that of a replay."""
    return tuple(
        (name, value)
        for name, value in headers
        if not name.startswith((DLQ_PREFIX, EARLIER_PREFIX)) or (keep_mark and name == DlqHeader.REPLAYED_FROM)
    )


def value_omitted(value: bytes | None) -> tuple[str, bytes]:
    """Return the header that stands for a value that is too large for the topic of dead letters."""
    return DlqHeader.VALUE_OMITTED.value, f"{len(value or b'')} bytes".encode()


def dlq_header(headers: Headers, name: DlqHeader) -> str | None:
    """Return what a dead letter says, also one of an earlier release, whose headers had other names; None: nothing."""
    found = header(headers, name)
    return header(headers, EARLIER_PREFIX + name.removeprefix(DLQ_PREFIX)) if found is None else found
