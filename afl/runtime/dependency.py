"""Which statements of a block wait for which: read off the references in everything that belongs to a statement."""

from afl.evaluation.dependency import (
    DependencyGraph,
    nodes_under,
    references_of_block,
    references_of_statement,
    yields_of,
)

__all__ = [
    "DependencyGraph",
    "nodes_under",
    "references_of_block",
    "references_of_statement",
    "yields_of",
]
