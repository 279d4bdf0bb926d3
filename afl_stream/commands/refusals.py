"""Why a command does nothing: the errors of the command line itself."""

from __future__ import annotations

from collections.abc import Sequence


class CommandRefused(Exception):
    """A command cannot be carried out as it was given. `is_rendered`: the text has its own headings."""

    def __init__(self, text: str, *, is_rendered: bool = False) -> None:
        super().__init__(text)
        self.is_rendered = is_rendered


class NotFound(Exception):
    """What a command is about does not exist."""

    def __init__(self, what: str, name: str, hint: str = "", near: Sequence[str] = ()) -> None:
        meant = f"; did you mean {' or '.join(near)}?" if near else ""
        super().__init__(f"there is no {what} {name}{meant}{f'; {hint}' if hint else ''}")
        self.name, self.near = name, tuple(near)
