"""The parameters that choose runs from the list, as they stand in a url, and the filter that they make."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, Final
from urllib.parse import urlencode

from afl.compiled.program import Kind
from afl.core.json_objects import read_json
from afl.engine.model.visibility import WorkflowFilter
from afl.engine.types import Value
from afl.stores.public.persistence import EngineStore
from afl_stream.settings.durations import duration_ms
from afl_stream.visibility.programs import declared_names, full_fingerprints
from afl_stream.web.parameters import BadParameter

#: The states of runs as they are shown, and as the store has them.
STATES: Final = {
    "running": "RUNNING",
    "waiting": "PAUSED",
    "completed": "COMPLETED",
    "failed": "ERROR",
    "cancelled": "CANCELLED",
}
_TIME: Final = "an age such as 2h, 30m or 7d, or a time such as 2026-11-30T17:25"
_FACETS: Final = (Kind.FACET, Kind.EVENT_FACET, Kind.WORKFLOW, Kind.SCHEMA)
MOST_RUNS: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class RunChoice:
    """A choice of runs: every part narrows the list, a part with several values widens it again."""

    state: tuple[str, ...] = ()
    workflow: tuple[str, ...] = ()
    program: tuple[str, ...] = ()
    facet: tuple[str, ...] = ()
    since: str = ""
    until: str = ""
    error: str = ""
    input: tuple[str, ...] = ()

    @property
    def is_given(self) -> bool:
        """Return whether anything was chosen."""
        return self != RunChoice()

    def query(self, **more: object) -> str:
        """Return the choice as the query of a url, with more parameters behind it: a saved filter is such a url."""
        pairs: list[tuple[str, str]] = []
        for part in fields(self):
            value = getattr(self, part.name)
            pairs += [(part.name, one) for one in ((value,) if isinstance(value, str) else value) if one]
        pairs += [(name, str(value)) for name, value in more.items() if value not in (None, "")]
        return urlencode(pairs)

    def without(self, name: str, value: str) -> RunChoice:
        """Return the choice without one of its values."""
        parts: dict[str, Any] = {part.name: getattr(self, part.name) for part in fields(self)}
        found = parts[name]
        parts[name] = "" if isinstance(found, str) else tuple(one for one in found if one != value)
        return RunChoice(**parts)

    def given(self) -> list[tuple[str, str]]:
        """Return each value with the name of its part."""
        found = []
        for part in fields(self):
            value = getattr(self, part.name)
            found += [(part.name, one) for one in ((value,) if isinstance(value, str) else value) if one]
        return found


def filter_of(store: EngineStore, choice: RunChoice, now_ms: int) -> WorkflowFilter:
    """Return the filter of a choice. Raises BadParameter, NoSuchProgram."""
    inputs: dict[str, list[Value]] = {}
    for name, values in map(_input_of, choice.input):
        inputs.setdefault(name, []).extend(values)
    for state in choice.state:
        if state not in STATES:
            raise BadParameter("state", state, ", ".join(STATES))
    programs = [found for start in choice.program for found in full_fingerprints(store, start)]
    return WorkflowFilter(
        statuses=tuple(dict.fromkeys(STATES[state] for state in choice.state)),
        names=_named(store, choice.workflow, (Kind.WORKFLOW,)),
        programs=tuple(dict.fromkeys(programs)),
        facets=_named(store, choice.facet, _FACETS),
        since_ms=moment_ms("since", choice.since, now_ms),
        before_ms=moment_ms("until", choice.until, now_ms),
        error_text=choice.error,
        inputs=inputs,
    )


def moment_ms(name: str, text: str, now_ms: int) -> int | None:
    """Return a time that is given as itself, or as how long ago it was; None for "". Raises BadParameter."""
    if not text:
        return None
    ago_ms = duration_ms(text)
    if ago_ms is not None:
        return max(now_ms - ago_ms, 0)
    try:
        found = int(datetime.fromisoformat(text).timestamp() * 1_000)
    except (ValueError, OverflowError, OSError):
        raise BadParameter(name, text, _TIME) from None
    return min(max(found, 0), 1 << 53)


def _named(store: EngineStore, names: Sequence[str], kinds: Sequence[Kind]) -> tuple[str, ...]:
    """Return the qualified names that are meant; a name that no program declares is taken as it is."""
    found: dict[str, None] = {}
    for name in names:
        found.update(dict.fromkeys(declared_names(store, name, kinds) or [name]))
    return tuple(found)


def _input_of(pair: str) -> tuple[str, list[Value]]:
    """Return an input's name, and the values that fit: the text, and what it is as JSON."""
    name, equals, text = pair.partition("=")
    if not equals or not name:
        raise BadParameter("input", pair, "NAME=VALUE, for instance order=17")
    values: list[Value] = [text]
    with suppress(ValueError, RecursionError):
        values.append(read_json(text))
    return name, values
