"""Facets that are named on the command line, compared with the topics that there are."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from afl_stream.topics.declared import Topology


def facets_with_topics(topology: Topology, topics: Iterable[str]) -> list[str]:
    """Return the qualified names of the facets whose events these topics carry, sorted."""
    return sorted({name for topic in topics if topology.is_facet_topic(topic) for name in topology.facets_of(topic)})


def no_topic_of(facet: str, names: list[str]) -> str:
    """Return the sentence that no topic carries events of this facet, with the names that may be meant."""
    from afl.core.text.near_names import near_names

    near = near_names(facet, names) or near_names(facet, [name.rpartition(".")[2] for name in names])
    meant = f"; did you mean {' or '.join(near)}?" if near else f"; there are: {', '.join(names[:10]) or 'none'}"
    return f"no topic carries events of a facet {facet}{meant}"
