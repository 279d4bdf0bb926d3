"""The facets of an agent's handlers."""

from __future__ import annotations

from collections.abc import Iterable

from afl.core.handlers.calling import short_name
from afl.core.text.near_names import close_names
from afl_stream.errors import StreamError


def facets_of(names: Iterable[str], known_facets: Iterable[str]) -> list[str]:
    """Return the qualified facets that these registered names stand for: a short name stands for each one that ends
    in it.

    Raises NoSuchFacet for a name without a namespace that no known facet ends in.
    """
    known = sorted(set(known_facets))
    facets: dict[str, None] = {}
    for name in names:
        if "." in name:
            facets[name] = None
            continue
        meant = [facet for facet in known if short_name(facet) == name]
        if not meant:
            raise NoSuchFacet(name, known)
        facets.update(dict.fromkeys(meant))
    return list(facets)


class NoSuchFacet(StreamError):
    """A handler was registered under a short name, and no facet of that name has a topic."""

    def __init__(self, name: str, known: list[str]) -> None:
        near = close_names(name, [short_name(facet) for facet in known])
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(known[:10]) or 'none'}"
        super().__init__(f"no topic belongs to a facet {name} of any namespace: {hint}")
        self.name = name


class NoHandlers(StreamError):
    """An agent has no handlers, so it would take events that it cannot answer."""

    def __init__(self, why: str = "no handler is registered; call register(), or give --handlers MODULE") -> None:
        super().__init__(why)
