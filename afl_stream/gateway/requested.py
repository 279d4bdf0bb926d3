"""A request as its operation gets it: parameters that are read and checked one by one."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from afl_stream.web.parameters import BadParameter, Choice, one_of


@dataclass(frozen=True, slots=True)
class Requested:
    """The parameters of one request, who asks, and whether that one has gone meanwhile."""

    by: str
    path: Mapping[str, str]
    values: Mapping[str, Any]
    has_gone: Callable[[], Awaitable[bool]]

    def text(self, name: str, default: str | None = None, *, most: int = 1_000) -> str:
        """Return a text. Raises BadParameter; also where it is missing, and there is no default."""
        found = self.values.get(name, default)
        if not isinstance(found, str) or len(found) > most or (default is None and not found):
            raise BadParameter(name, found, f"a text of at most {most:,} characters")
        return found

    def one_of(self, name: str, kind: type[Choice]) -> Choice | None:
        """Return one of the values of an enumeration; None where it is missing. Raises BadParameter."""
        if name not in self.values:
            return None
        return one_of(name, self.values[name], kind)

    def object(self, name: str) -> Mapping[str, Any]:
        """Return an object; an empty one where it is missing. Raises BadParameter."""
        found = self.values.get(name, {})
        if not isinstance(found, dict):
            raise BadParameter(name, found, "a JSON object")
        return found

    def whole(self, name: str, default: int, *, low: int, high: int) -> int:
        """Return a whole number. Raises BadParameter."""
        found = self.values.get(name, default)
        if isinstance(found, float) and found.is_integer():
            found = int(found)
        if type(found) is not int or not low <= found <= high:
            # Its value alone would look right: "found '3'".
            shown = f"the text {found[:100]!r}" if isinstance(found, str) else ""
            raise BadParameter(name, found, f"a whole number, {low} to {high:,}", shown=shown)
        return found

    def seconds(self, name: str, default: float, *, low: float = 0.0, high: float = 86_400) -> float:
        """Return a number of seconds, also from a text in the query. Raises BadParameter."""
        found = self.values.get(name, default)
        if isinstance(found, str):
            try:
                found = float(found)
            except ValueError:
                raise BadParameter(name, found, f"seconds, {low:g} to {high:g}") from None
        if isinstance(found, bool) or not isinstance(found, int | float) or not low <= found <= high:
            raise BadParameter(name, found, f"seconds, {low:g} to {high:g}")
        return float(found) if math.isfinite(found) else default
