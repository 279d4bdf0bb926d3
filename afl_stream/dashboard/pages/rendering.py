"""Templates, and the words and forms in which values are shown."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse

from afl.core.json_objects import write_json
from afl.core.release import VERSION
from afl.core.text.printable import printable, printable_json
from afl_stream.dashboard.context import dashboard_of
from afl_stream.dashboard.views.state_words import SIGNS, state_of, words_of

FOLDER: Final = Path(__file__).parent.parent
#: What stands where there is no value: a dash.
NOTHING: Final = "\u2013"
#: More of one value is not for reading; the JSON has all of it.
_LONGEST: Final = 20_000
#: The navigation: groups of pages, each with its path, and its name.
NAVIGATION: Final = (
    ("Work", (("/runs", "Runs"), ("/start", "Start"), ("/schedules", "Schedules"), ("/external", "External events"))),
    ("Code", (("/programs", "Programs"), ("/handlers", "Handlers"))),
    (
        "Records",
        (("/topics", "Topics"), ("/dead-letters", "Dead letters"), ("/tasks", "Tasks"), ("/logs", "Logs")),
    ),
    ("Deployment", (("/servers", "Servers"), ("/pauses", "Pauses"), ("/locks", "Locks"), ("/settings", "Settings"))),
)

#: The parts of pages that every template may use.
_MACROS: Final = ("chip", "time", "ago", "values", "failure", "pager", "remark", "empty")


def page(request: Request, template: str, *, status_code: int = 200, **values: Any) -> HTMLResponse:
    """Return a page made from a template."""
    dashboard, session_id = dashboard_of(request), request.state.session_id
    principal = getattr(request.state, "principal", None)
    text = (
        environment()
        .get_template(template)
        .render(
            navigation=NAVIGATION,
            path=request.url.path,
            here=request.url.path + (f"?{request.url.query}" if request.url.query else ""),
            principal=principal,
            may_operate=principal is not None and principal.may_operate,
            is_read_only=dashboard.access.is_read_only,
            has_sign_in=bool(dashboard.access.tokens),
            csrf=dashboard.sessions.csrf_token(session_id),
            notes=dashboard.sessions.take_notes(session_id),
            now_ms=dashboard.deployment.clock.now_ms(),
            prefix=dashboard.deployment.config.prefix,
            release=VERSION,
            **values,
        )
    )
    return HTMLResponse(text, status_code=status_code)


@cache
def environment() -> Environment:
    """Return the environment of the templates: every value is escaped, and one that is missing is a mistake."""
    made = Environment(
        loader=FileSystemLoader(FOLDER / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(_FILTERS)
    made.globals.update(signs=SIGNS)
    macros = made.get_template("_macros.html").module
    made.globals.update({name: getattr(macros, name) for name in _MACROS})
    return made


def moment(at_ms: int | None) -> str:
    """Return a time as people here read it."""
    return datetime.fromtimestamp(at_ms / 1_000).strftime("%Y-%m-%d %H:%M:%S") if at_ms else NOTHING


def clock(at_ms: int | None) -> str:
    """Return the time of a day, to the millisecond."""
    return datetime.fromtimestamp(at_ms / 1_000).strftime("%H:%M:%S.%f")[:-3] if at_ms else NOTHING


def iso(at_ms: int | None) -> str:
    """Return a time as programs read it."""
    return datetime.fromtimestamp(at_ms / 1_000).astimezone().isoformat(timespec="milliseconds") if at_ms else ""


def length(length_ms: int | None) -> str:
    """Return a duration in a few characters."""
    if length_ms is None:
        return NOTHING
    if length_ms < 1_000:
        return f"{length_ms} ms"
    seconds = length_ms / 1_000
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes = int(seconds) // 60
    if minutes < 60:
        return f"{minutes} min {int(seconds) % 60} s"
    hours = minutes // 60
    return f"{hours} h {minutes % 60} min" if hours < 48 else f"{hours // 24} d {hours % 24} h"


def json_text(value: object, indent: int | None = 2) -> str:
    """Return a value as JSON for people: nothing in it controls a terminal or the direction of text."""
    document = value if isinstance(value, Mapping | list | str | int | float | bool | type(None)) else str(value)
    text = printable_json(write_json(document, indent=indent))
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}\n… {len(text):,} characters; the JSON has all"


def line(text: object, longest: int = 300) -> str:
    """Return a text on one line, cut to a readable length."""
    return printable(str(text).replace("\n", " "), longest)


def number(value: int | None) -> str:
    """Return a number with its thousands apart."""
    return NOTHING if value is None else f"{value:,}"


#: The filters of the templates.
_FILTERS: Final = {
    "moment": moment,
    "iso": iso,
    "clock": clock,
    "took": length,
    "json": json_text,
    "line": line,
    "state": state_of,
    "words": words_of,
    "command": shlex.join,
    "number": number,
}
