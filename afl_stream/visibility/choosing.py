"""What chooses runs from the list, as people write it, and the filter that it makes."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from afl.compiled.program import Kind
from afl.core.json_objects import read_json
from afl.core.text.near_names import close_names, did_you_mean, near_names
from afl.engine.model.visibility import WorkflowFilter
from afl.engine.types import Value
from afl.stores.public.persistence import EngineStore
from afl_stream.errors import StreamError
from afl_stream.settings.moments import TIME_FORMS, moment_ms
from afl_stream.visibility.programs import declared_inputs, declared_names, full_fingerprints

#: The states of runs as they are shown, and as the store has them.
STATES: Final = {
    "running": "RUNNING",
    "waiting": "PAUSED",
    "completed": "COMPLETED",
    "failed": "ERROR",
    "cancelled": "CANCELLED",
}
#: The words that choose states: those that are shown, and others that people say.
STATUS_OF: Final = {**STATES, "paused": "PAUSED", "error": "ERROR"}
_FACETS: Final = (Kind.FACET, Kind.EVENT_FACET, Kind.WORKFLOW, Kind.SCHEMA)


class UnknownChoice(StreamError):
    """A part of a choice means nothing: `name` is the part, `found` the text, `expected` what would be right."""

    def __init__(self, name: str, found: str, expected: str) -> None:
        super().__init__(f"{name}: found {found[:100]!r}, expected {expected}")
        self.name = name
        self.found = found
        self.expected = expected


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What chooses runs, as it was given: each part narrows the list, a part with several values widens it again.

    Names may be short, `since` and `until` ages, and `inputs` are NAME=VALUE.
    """

    states: Sequence[str] = ()
    workflows: Sequence[str] = ()
    programs: Sequence[str] = ()
    facets: Sequence[str] = ()
    since: str = ""
    until: str = ""
    error: str = ""
    inputs: Sequence[str] = ()


def run_filter(store: EngineStore, choice: Choice, now_ms: int) -> WorkflowFilter:
    """Return the filter of a choice.

    Raises UnknownChoice, named `state`, `since`, `until` or `input`; NoSuchProgram; StoreUnavailable.
    """
    inputs: dict[str, list[Value]] = {}
    for name, values in map(_input_of, choice.inputs):
        inputs.setdefault(name, []).extend(values)
    since_ms, before_ms = _moment_of("since", choice.since, now_ms), _moment_of("until", choice.until, now_ms)
    if since_ms is not None and before_ms is not None and before_ms <= since_ms:
        raise UnknownChoice("until", choice.until, f"a time after that of since, {choice.since}")
    programs = [found for start in choice.programs for found in full_fingerprints(store, start)]
    return WorkflowFilter(
        statuses=tuple(dict.fromkeys(map(_status_of, choice.states))),
        names=_named(store, choice.workflows, (Kind.WORKFLOW,)),
        programs=tuple(dict.fromkeys(programs)),
        facets=_named(store, choice.facets, _FACETS),
        since_ms=since_ms,
        before_ms=before_ms,
        error_text=choice.error,
        inputs=inputs,
    )


def _status_of(state: str) -> str:
    status = STATUS_OF.get(state.lower())
    if status is None:
        raise UnknownChoice("state", state, ", ".join(STATES))
    return status


def _moment_of(name: str, text: str, now_ms: int) -> int | None:
    found = moment_ms(text, now_ms) if text else None
    if text and found is None:
        raise UnknownChoice(name, text, TIME_FORMS)
    return found


def _named(store: EngineStore, names: Sequence[str], kinds: Sequence[Kind]) -> tuple[str, ...]:
    """Return the qualified names that are meant; a name that no program declares is taken as it is."""
    found: dict[str, None] = {}
    for name in names:
        found.update(dict.fromkeys(declared_names(store, name, kinds) or [name]))
    return tuple(found)


def unknown_names(store: EngineStore, choice: Choice) -> list[str]:
    """Return a sentence about each workflow, facet and input of a choice that no program of the store declares."""
    told = []
    for what, names, kinds in (("workflow", choice.workflows, (Kind.WORKFLOW,)), ("facet", choice.facets, _FACETS)):
        for name in names:
            if not declared_names(store, name, kinds):
                every = declared_names(store, None, kinds)
                meant = did_you_mean(near_names(name, [*every, *(one.rpartition(".")[2] for one in every)]))
                told.append(f"no run has a program with a {what} {name}{f'; {meant}' if meant else ''}")
    given = dict.fromkeys(_input_of(pair)[0] for pair in choice.inputs)
    known = declared_inputs(store) if given else []
    for name in given:
        if name not in known:
            meant = did_you_mean(close_names(name, known, 3))
            told.append(f"no run has a workflow with an input {name}{f'; {meant}' if meant else ''}")
    return told


def _input_of(pair: str) -> tuple[str, list[Value]]:
    """Return an input's name, and the values that fit: the text, and what it is as JSON."""
    name, equals, text = pair.partition("=")
    if not equals or not name:
        raise UnknownChoice("input", pair, "NAME=VALUE, for instance order=17")
    values: list[Value] = [text]
    with suppress(ValueError, RecursionError):
        values.append(read_json(text))
    return name, values
