"""Log lines of our commands: each record on one line, its text printable and bounded, its secrets masked."""

from __future__ import annotations

import logging
import re
from typing import Any, Final

from afl.core.text.exception_text import MAX_TRACEBACK_CHARS
from afl.core.text.masking import Secrets
from afl.core.text.printable import printable, printable_lines

LOG_FORMAT: Final = "%(asctime)s %(levelname)-7s %(name)s: %(message)s"

#: The most characters of one record's message.
MAX_MESSAGE_CHARS: Final = 4_000

#: The place of one argument in a message's template.
_PLACE: Final = re.compile(r"%%|%[^%a-zA-Z]*[a-zA-Z]")


class LogLineFormatter(logging.Formatter):
    """Formatter that writes a record as one line, with a traceback and further lines of the template indented below it.

    A quoted text in a message cannot begin a line of its own, move the cursor or reverse the text direction.
    """

    def __init__(self, secrets: Secrets | None = None, line_format: str = LOG_FORMAT) -> None:
        """Take the secrets to mask; `secrets` may grow later."""
        super().__init__(line_format)
        self._secrets = secrets if secrets is not None else Secrets()

    def format(self, record: logging.LogRecord) -> str:
        shown = logging.makeLogRecord(record.__dict__)
        shown.msg, below = self._message(record)
        shown.args = ()
        shown.exc_text = None
        line = super().format(shown)
        if not below:
            return line
        # The message without the traceback, which the base class has appended to it.
        head, newline, rest = line.partition("\n")
        return f"{head}\n{below}{newline}{rest}"

    def formatException(self, ei: Any) -> str:  # noqa: N802 - the name of the base class
        try:
            text = super().formatException(ei)
        except Exception:  # noqa: BLE001 - an exception's own __str__ may fail
            text = "(a traceback that cannot be written: an exception in it has no readable text)"
        return self._below(text)

    def formatStack(self, stack_info: str) -> str:  # noqa: N802 - the name of the base class
        return self._below(stack_info)

    def _message(self, record: logging.LogRecord) -> tuple[str, str]:
        """Return the record's line, and the lines of its template below it: mostly a traceback."""
        template = str(record.msg)
        first, newline, rest = template.partition("\n")
        try:
            if not newline or not record.args or not isinstance(record.args, tuple):
                return self._line(record.getMessage()), ""
            count = sum(place != "%%" for place in _PLACE.findall(first))
            return self._line(first % record.args[:count]), self._below(rest % record.args[count:])
        except Exception:  # noqa: BLE001 - an argument's own __str__ may fail, or a format not fit
            return self._line(f"{template} (its arguments cannot be written)"), ""

    def _line(self, text: str) -> str:
        # Masked before it is cut: a half of a secret is secret too.
        return printable(self._secrets.masked(text[: 4 * MAX_MESSAGE_CHARS]), MAX_MESSAGE_CHARS)

    def _below(self, text: str) -> str:
        """Return the further lines indented, so that none looks like a record. The end of a traceback says most."""
        shown = printable_lines(self._secrets.masked(text[-4 * MAX_TRACEBACK_CHARS :]))
        if len(shown) > MAX_TRACEBACK_CHARS:
            shown = f"... ({len(text)} characters)\n{shown[-MAX_TRACEBACK_CHARS:]}"
        return "\n".join(f"  {line}" for line in shown.split("\n"))
