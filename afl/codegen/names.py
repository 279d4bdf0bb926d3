"""Names in other languages: in their case, no words of theirs, and each once."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence

_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")


def words(name: str) -> list[str]:
    """Return the words of a name: those of `chargeCard`, `ChargeCard` and `charge_card` are the same."""
    return _WORDS.findall(name) or ["x" * max(1, len(name))]


def pascal(name: str) -> str:
    """Return a name as `ChargeCard`. What has capitals inside keeps them."""
    return "".join(part[:1].upper() + part[1:] for part in re.split(r"[_.]+", name) if part) or _nameless(name)


def snake(name: str) -> str:
    """Return a name as `charge_card`."""
    return "_".join(word.lower() for word in words(name))


def _nameless(name: str) -> str:
    return "X" * max(1, len(name))


def short(qualified: str) -> str:
    """Return the part of a name after its namespace."""
    return qualified.rpartition(".")[2]


def distinct(wishes: Sequence[tuple[str, str]], taken: Iterable[str] = ()) -> list[str]:
    """Return a name for each wish, a short name and a long one: the short ones where nothing else has them.

    All that wish the same short name get their long ones, so that none depends on the order; what is still the same
    gets a number. `taken` are names that nothing may get.
    """
    used = set(taken)
    asked = Counter(wish for wish, _ in wishes)
    chosen = [first if asked[first] == 1 and first not in used else second for first, second in wishes]
    given: list[str] = []
    # Those that have their short name keep it, whatever the others get.
    kept = {name for name, (first, _) in zip(chosen, wishes, strict=True) if name == first}
    for name, (first, _) in zip(chosen, wishes, strict=True):
        blocked = used if name == first else used | kept
        free, number = name, 2
        while free in blocked:
            free, number = f"{name}_{number}" if name[-1:].isdigit() else f"{name}{number}", number + 1
        used.add(free)
        given.append(free)
    return given


def field_names(
    names: Sequence[str], reserved: Collection[str], wish: Callable[[str], str] = lambda name: name
) -> list[str]:
    """Return the names of the fields of one record: as wished, with `_` behind those that something else has."""
    kept = {name for name in names if wish(name) == name and name not in reserved}
    used: set[str] = set()
    given: list[str] = []
    for name in names:
        free = wish(name)
        while name not in kept and (free in reserved or free in kept or free in used):
            free += "_"
        used.add(free)
        given.append(free)
    return given
