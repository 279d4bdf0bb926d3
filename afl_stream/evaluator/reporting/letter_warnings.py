"""Warnings about records that have become dead letters: the reason, and the command that shows them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from afl.core.text.warning_limits import LimitedLog
from afl_stream.transport import Record
from afl_stream.wire.dead_letters import letter_fields, listing_command, reason_of, text_of


class BuriedRecord(NamedTuple):
    """A record that became a dead letter. `said` names it for people; "": its place does; None: they were told."""

    record: Record
    error: Exception
    said: str | None = ""

    @property
    def reason(self) -> str:
        """Why it is one, as headers and counts name it."""
        return reason_of(self.error)


def warn_of_letters(warnings: LimitedLog, buried: Sequence[BuriedRecord]) -> None:
    """Warn of these records, as far as the limits of repeated warnings allow."""
    for record, error, said in buried:
        if said is None:
            continue
        reason = reason_of(error)
        named = said or f"the record {record.topic}[{record.partition}]@{record.offset} is a dead letter"
        warnings.warning(
            f"dead letters of {record.topic}, {reason}",
            "%s: %s: %s; it is listed by: %s",
            named,
            reason,
            text_of(error),
            listing_command(record, reason),
            extra=letter_fields(record, reason),
        )
