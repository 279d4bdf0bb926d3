"""Log lines of our commands, as text or as JSON: printable and bounded, with secrets masked."""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from typing import Any, Final

from afl.core.json_encoder import make_encoder
from afl.core.text.exception_text import MAX_TRACEBACK_CHARS
from afl.core.text.masking import Secrets
from afl.core.text.patterns import lazy_pattern
from afl.core.text.printable import printable, printable_json, printable_lines

LOG_FORMAT: Final = "%(asctime)s %(levelname)-7s %(name)s: %(message)s"

#: The most characters of one record's message.
MAX_MESSAGE_CHARS: Final = 4_000

#: The place of one argument in a message's template.
_PLACE: Final = lazy_pattern(r"%%|%[^%a-zA-Z]*[a-zA-Z]")


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


#: The attributes of every record of logging; all others are fields that a caller has added.
_OF_LOGGING: Final = frozenset({*vars(logging.makeLogRecord({})), "message", "asctime", "taskName"})


class JsonLogFormatter(LogLineFormatter):
    """Formatter that writes a record as one line of JSON: `time`, `level`, `logger`, `message`, and what was added.

    Fields that a caller has added (`extra`) have their own names: `workflow_id`, `step_id`, ... A traceback is in
    `exception`, and what a template has on further lines in `details`.
    """

    def __init__(self, secrets: Secrets | None = None, process: str = "") -> None:
        """Take the secrets to mask, and which of several processes this is."""
        super().__init__(secrets)
        self._process = process

    def format(self, record: logging.LogRecord) -> str:
        message, below = self._message(record)
        moment = datetime.fromtimestamp(record.created, UTC)
        line: dict[str, object] = {
            "time": f"{moment:%Y-%m-%dT%H:%M:%S}.{int(record.msecs):03d}Z",
            "level": record.levelname,
            "logger": record.name,
            "message": message,
        }
        if self._process:
            line["process"] = self._process
        added = {name: value for name, value in vars(record).items() if name not in _OF_LOGGING}
        line |= {name: self._plain(value) for name, value in added.items() if name not in line and value is not None}
        if below:
            line["details"] = below
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return printable_json(_encode(line))

    def _plain(self, value: object) -> object:
        if isinstance(value, str):
            return self._secrets.masked(value[: 4 * MAX_MESSAGE_CHARS])[:MAX_MESSAGE_CHARS]
        if isinstance(value, bool | int | float):
            return value
        try:
            return self._secrets.masked(_encode(value))[:MAX_MESSAGE_CHARS]
        except (ValueError, RecursionError):
            return "(a value that cannot be written)"


#: Made once: `json.dumps` makes another encoder for each call with options.
_encode: Final = make_encoder(str)
