"""Refusals of commands: the errors of the command line itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from afl.core.errors import AFLError
from afl.core.text.near_names import near_names

if TYPE_CHECKING:
    from afl.stores.public.persistence import EngineStore


class CommandRefused(AFLError):
    """A command cannot be carried out as it was given. `is_rendered`: the text has its own headings."""

    def __init__(self, text: str, *, is_rendered: bool = False) -> None:
        super().__init__(text)
        self.is_rendered = is_rendered


def refuse_unused_facets(facets: Sequence[str], registered: Sequence[str]) -> None:
    """Refuse a facet of `--facet` that has no handler: modules that name their facets themselves ignore the option."""
    names = {*registered, *(name.rpartition(".")[2] for name in registered)}
    for facet in facets:
        if facet not in names and facet.rpartition(".")[2] not in registered:
            near = near_names(facet, registered)
            hint = f"did you mean {' or '.join(near)}?" if near else f"they are for {', '.join(registered) or 'none'}"
            raise CommandRefused(f"--facet {facet}: the handlers given are not for it; {hint}")


def no_such_run(store: EngineStore, workflow_id: str, hint: str = "afl-stream list shows them") -> NotFound:
    """Return the error for a run that the store does not have, with the ids that may be meant."""
    from afl_stream.visibility.workflows import near_runs

    return NotFound("run", workflow_id, hint, near_runs(store, workflow_id))


def not_named(facets: Sequence[str], registered: Sequence[str]) -> list[str]:
    """Return the facets with a handler that `--facet` does not name; none where it names none."""
    short = {facet.rpartition(".")[2] for facet in facets}
    return [name for name in registered if facets and name not in facets and name.rpartition(".")[2] not in short]


class NotFound(AFLError):
    """An error for a command whose object does not exist."""

    def __init__(self, what: str, name: str, hint: str = "", near: Sequence[str] = ()) -> None:
        meant = f"; did you mean {' or '.join(near)}?" if near else ""
        super().__init__(f"there is no {what} {name}{meant}{f'; {hint}' if hint else ''}")
        self.name, self.near = name, tuple(near)
