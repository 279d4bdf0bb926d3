"""The check that a handler's result has the returns its facet declares. Agents and engine use the same words."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final, NamedTuple

from afl.core.text.printable import printable

#: The error type of a step whose handler returned a result that the facet's returns do not allow. Programs catch this
#: name.
RESULT_MISMATCH: Final = "ResultMismatch"

#: The most names that one message lists, and the most characters of each.
_MOST_NAMES: Final = 20
_LONGEST_NAME: Final = 100


class DeclaredReturns(NamedTuple):
    """The returns of a facet by name: those that a result must have, and those that it may leave out."""

    required: tuple[str, ...]
    optional: tuple[str, ...] = ()

    def has_unknown(self, result: Mapping[str, object]) -> bool:
        """Say whether a result has a key that is not declared."""
        required, optional = self.required, self.optional
        for name in result:  # noqa: SIM110 - asked for each result: a generator costs as much as the rest of an answer
            if name not in required and name not in optional:
                return True
        return False

    def mismatch(self, facet: str, result: Mapping[str, object], reported: Collection[str] = ()) -> str | None:
        """Return a sentence about missing returns and undeclared keys of a result; None when it has neither.

        `told` are returns that the step has already, by an update.
        """
        required = self.required
        if len(result) == len(required):
            for name in required:
                if name not in result:
                    break
            else:
                return None  # Nearly every result takes this path.
        missing = [name for name in self.required if name not in result and name not in reported]
        unknown = [name for name in result if name not in self.required and name not in self.optional]
        if not missing and not unknown:
            return None
        found = []
        if missing:
            found.append(f"lacks {_listed(missing)}")
        if unknown:
            found.append(f"has {_listed(unknown)}, which {facet} does not declare")
        may_lack = f", and it may hold {_listed(self.optional)}" if self.optional else ""
        wanted = f"it has to hold {_listed(self.required)}{may_lack}" if self.required else may_lack[len(", and ") :]
        return f"the result of {facet} {' and '.join(found)}; {wanted}"


def _listed(names: Iterable[str]) -> str:
    every = [printable(name, _LONGEST_NAME) for name in names]
    if len(every) > _MOST_NAMES:
        every[_MOST_NAMES:] = [f"{len(every) - _MOST_NAMES} more"]
    return ", ".join(every)
