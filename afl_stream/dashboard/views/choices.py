"""The parameters that choose runs from the list, as they stand in a url, and the filter that they make."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Final
from urllib.parse import urlencode

from afl.engine.model.visibility import WorkflowFilter
from afl.stores.public.persistence import EngineStore
from afl_stream.visibility.choosing import Choice, UnknownChoice, run_filter
from afl_stream.web.parameters import BadParameter

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
    try:
        given = Choice(
            states=choice.state,
            workflows=choice.workflow,
            programs=choice.program,
            facets=choice.facet,
            since=choice.since,
            until=choice.until,
            error=choice.error,
            inputs=choice.input,
        )
        return run_filter(store, given, now_ms)
    except UnknownChoice as error:
        raise BadParameter(error.name, error.found, error.expected) from None
