"""Telemetry to standard logging: a JSON object for each record, on one logger, with a level that fits its event."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

from afl.core.json_encoder import make_encoder
from afl.core.text.printable import printable_json
from afl.telemetry.telemetry import EVENT_TYPES, TelemetryEvent, TelemetrySink

#: The logger of all telemetry.
LOGGER_NAME: Final = "afl.telemetry"

#: Levels of events that differ from the default. The begin and end of a state add nothing to its transition.
LEVELS: Final[Mapping[str, int]] = {
    "state.begin": logging.DEBUG,
    "state.end": logging.DEBUG,
    "step.error": logging.WARNING,
    "workflow.error": logging.ERROR,
}

#: Events about single states and iterations: most of what there is, and of what it costs.
STATE_EVENTS: Final = frozenset(
    {
        "state.begin",
        "state.end",
        "state.transition",
        "iteration.start",
        "iteration.end",
        "dependency.resolved",
    }
)


class LoggingSink(TelemetrySink):
    """A sink that logs each event as one line of JSON: `timestamp` in milliseconds, `eventType`, ids, `details`.

    The handlers and levels of the logger decide which lines go where. A record's message is the line, its attribute
    `telemetry` the same as a dict. With `values` the outputs of runs are among the details; without, no data of a run
    is logged but its errors' texts.
    """

    def __init__(
        self,
        logger: logging.Logger | None = None,
        *,
        level: int = logging.INFO,
        values: bool = False,
        states: bool = True,
    ) -> None:
        """Take the logger; without `states`, events about single states and iterations are not made."""
        self._logger = logger or logging.getLogger(LOGGER_NAME)
        self._types = frozenset(EVENT_TYPES) if states else frozenset(EVENT_TYPES) - STATE_EVENTS
        self._level = level
        self._values = values

    @property
    def event_types(self) -> frozenset[str] | None:
        """The types whose level is enabled."""
        enabled = {kind for kind in self._types if self._logger.isEnabledFor(LEVELS.get(kind, self._level))}
        return None if len(enabled) == len(EVENT_TYPES) else frozenset(enabled)

    def emit(self, event: TelemetryEvent) -> None:
        """Log one event, where its level is enabled."""
        level = self.level_of(event)
        if not level:
            return
        fields = self.fields_of(event)
        # As `Logger.log` does, without a search of the stack for the caller, which would always be this line.
        record = self._logger.makeRecord(
            self._logger.name, level, __file__, 0, _Line(fields), (), None, "emit", {"telemetry": fields}
        )
        self._logger.handle(record)

    def level_of(self, event: TelemetryEvent) -> int:
        """Return the level of an event; 0 when it is not logged."""
        if event.event_type not in self._types and event.event_type in STATE_EVENTS:
            return 0
        level = LEVELS.get(event.event_type, self._level)
        return level if self._logger.isEnabledFor(level) else 0

    def fields_of(self, event: TelemetryEvent) -> dict[str, object]:
        """Return what is logged of an event."""
        fields = event.to_dict()
        if not self._values and "result" in event.details:
            fields["details"] = {name: value for name, value in event.details.items() if name != "result"}
        return fields


class _Line:
    """A record's message: its text is made when a handler asks for it."""

    __slots__ = ("_fields",)

    def __init__(self, fields: Mapping[str, object]) -> None:
        self._fields = fields

    def __str__(self) -> str:
        return line_of(self._fields)


class JsonLinesFormatter(logging.Formatter):
    """Formatter that writes every record as one line of JSON, not only telemetry, so that a process logs nothing else.

    Other records have `timestamp`, `level`, `logger`, `message`, and `exception` with its traceback if there is one.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return the record's line, without a newline."""
        fields = getattr(record, "telemetry", None)
        if isinstance(fields, dict):
            return line_of({**fields, "level": record.levelname, "logger": record.name})
        line: dict[str, object] = {
            "timestamp": int(record.created * 1000),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return line_of(line)


def line_of(fields: Mapping[str, object]) -> str:
    """Return one line of JSON.

    Values that JSON lacks become their text. Terminal control characters and lone surrogates are escaped.
    """
    return printable_json(_encode(fields))


#: Made once: `json.dumps` makes another encoder for each call with options.
_encode: Final = make_encoder(str)
