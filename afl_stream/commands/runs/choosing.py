"""The options that choose runs from a list, and the filter that they make."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from afl_stream.commands.refusals import CommandRefused

if TYPE_CHECKING:
    from afl.engine.model.visibility import WorkflowFilter
    from afl.engine.types import Value
    from afl.stores.public.persistence import EngineStore

F = TypeVar("F", bound=Callable[..., Any])

#: The states of runs as they are shown; each also has a word that people say.
_STATES: Final = {
    "running": "RUNNING",
    "waiting": "PAUSED",
    "paused": "PAUSED",
    "completed": "COMPLETED",
    "error": "ERROR",
    "failed": "ERROR",
    "cancelled": "CANCELLED",
}
_TIME: Final = "2h, 30m, 7d, or 2026-11-30T17:25"


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The options as they were given."""

    states: Sequence[str] = ()
    workflows: Sequence[str] = ()
    programs: Sequence[str] = ()
    facets: Sequence[str] = ()
    since: str | None = None
    until: str | None = None
    error: str = ""
    inputs: Sequence[str] = ()


def choosing(command: F) -> F:
    """Give a command the options of a Choice."""
    options = (
        click.option(
            "--state",
            "states",
            multiple=True,
            type=click.Choice(sorted(_STATES), case_sensitive=False),
            help="Runs in this state; repeat for several.",
        ),
        click.option("--workflow", "workflows", multiple=True, metavar="NAME", help="Runs of this workflow."),
        click.option(
            "--program",
            "programs",
            multiple=True,
            metavar="ID",
            help="Runs of this program; the beginning of its id.",
        ),
        click.option("--facet", "facets", multiple=True, metavar="NAME", help="Runs with a step of this facet."),
        click.option("--since", metavar="TIME", help=f"Runs that were started since then: {_TIME}."),
        click.option("--until", metavar="TIME", help="Runs that were started before then."),
        click.option("--error", default="", metavar="TEXT", help="Runs with this text in their first cause."),
        click.option(
            "-i",
            "--input",
            "inputs",
            multiple=True,
            metavar="NAME=VALUE",
            help="Runs with this input: a text, a number or JSON. Repeat for several.",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


def filter_of(store: EngineStore, choice: Choice, now_ms: int) -> WorkflowFilter:
    """Return the filter of a choice. Raises CommandRefused, NoSuchProgram, NotFound."""
    from afl.compiled.program import Kind
    from afl.engine.model.visibility import WorkflowFilter
    from afl_stream.visibility.programs import full_fingerprints

    inputs: dict[str, list[Value]] = {}
    for name, values in map(_input_of, choice.inputs):
        inputs.setdefault(name, []).extend(values)
    programs = [found for start in choice.programs for found in full_fingerprints(store, start)]
    facets = (Kind.FACET, Kind.EVENT_FACET, Kind.WORKFLOW, Kind.SCHEMA)
    return WorkflowFilter(
        statuses=tuple(dict.fromkeys(_STATES[state.lower()] for state in choice.states)),
        names=_named(store, choice.workflows, (Kind.WORKFLOW,)),
        programs=tuple(dict.fromkeys(programs)),
        facets=_named(store, choice.facets, facets),
        since_ms=_time_of(choice.since, "--since", now_ms),
        before_ms=_time_of(choice.until, "--until", now_ms),
        error_text=choice.error,
        inputs=inputs,
    )


def _named(store: EngineStore, names: Sequence[str], kinds: Sequence[Any]) -> tuple[str, ...]:
    """Return the qualified names that are meant; a name that no program declares is taken as it is."""
    from afl_stream.visibility.programs import declared_names

    found: dict[str, None] = {}
    for name in names:
        found.update(dict.fromkeys(declared_names(store, name, kinds) or [name]))
    return tuple(found)


def _time_of(text: str | None, option: str, now_ms: int) -> int | None:
    """Return a time, which is given as itself, in local time unless it says another, or as how long ago it was."""
    from afl_stream.settings.durations import duration_ms

    if text is None:
        return None
    ago_ms = duration_ms(text)
    if ago_ms is not None:
        return now_ms - ago_ms
    try:
        return int(datetime.fromisoformat(text).timestamp() * 1000)
    except (ValueError, OverflowError):
        raise CommandRefused(f"{option} {text}: expected {_TIME}") from None


def _input_of(pair: str) -> tuple[str, list[Value]]:
    """Return an input's name, and the values that fit: the text, and what it is as JSON."""
    from afl.core.json_objects import read_json

    name, equals, text = pair.partition("=")
    if not equals or not name:
        raise CommandRefused(f"--input {pair}: expected NAME=VALUE, for instance --input order=17")
    values: list[Value] = [text]
    with suppress(ValueError, RecursionError):
        values.append(read_json(text))
    return name, values
