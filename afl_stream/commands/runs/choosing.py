"""The options that choose runs from a list, and the filter that they make."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from afl_stream.commands.refusals import CommandRefused

if TYPE_CHECKING:
    from afl.engine.model.visibility import WorkflowFilter
    from afl.stores.public.persistence import EngineStore
    from afl_stream.visibility.choosing import Choice

F = TypeVar("F", bound=Callable[..., Any])

#: The words that --state takes; tests compare them with afl_stream.visibility.choosing.STATUS_OF.
STATES: Final = ("cancelled", "completed", "error", "failed", "paused", "running", "waiting")
_TIME: Final = "2h, 30m, 7d, or 2026-11-30T17:25"


def choosing(command: F) -> F:
    """Give a command the options of a Choice."""
    options = (
        click.option(
            "--state",
            "states",
            multiple=True,
            type=click.Choice(STATES, case_sensitive=False),
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
        click.option("--since", default="", metavar="TIME", help=f"Runs that were started since then: {_TIME}."),
        click.option("--until", default="", metavar="TIME", help="Runs that were started before then."),
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
    """Return the filter of a choice. Raises CommandRefused, NoSuchProgram."""
    from afl_stream.visibility.choosing import UnknownChoice, run_filter

    try:
        return run_filter(store, choice, now_ms)
    except UnknownChoice as error:
        raise CommandRefused(f"--{error.name} {error.found}: expected {error.expected}") from None
