"""The settings of logs: how much is logged, in which form, and whether with the data of runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from afl_stream.settings.sections import choice, flag

LOG_FORMATS: Final = ("text", "json")
LOG_LEVELS: Final = ("error", "warning", "info", "debug")


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggingSettings:
    """What the commands write to standard error about what happens."""

    format: str = choice(
        "text", LOG_FORMATS, "`text`: lines for people; or `json`: an object on each line, with the ids as fields"
    )
    level: str = choice(
        "warning", LOG_LEVELS, "the least level that is logged; `-v` logs `info` at least, and `-vv` `debug`"
    )
    values: bool = flag(False, "whether the lines about events have payloads and results, which may be anything")
