"""Dependencies between the statements of a block, from the references in each statement."""

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
