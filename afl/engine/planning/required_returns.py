"""The returns of a facet that an agent's result must have, because they have no other source."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from afl.engine.model.plan import BlockPlan, FacetPlan, StatementPlan


def required_returns(facet: FacetPlan, blocks: Iterable[BlockPlan]) -> tuple[str, ...]:
    """Return the names of the returns that a result must have, for a step that runs these blocks afterwards.

    Optional are returns that are Json or have a default, and those that a yield in the blocks gives. A block written in
    Python may give any.
    """
    given = {name for name, _ in facet.return_defaults}
    for block in _own_blocks(blocks):
        if block.script is not None:
            return ()
        for yielded in block.yields:
            if yielded.yield_alias is None:
                given.update(name for name, _ in yielded.args)
    return tuple(name for name, declared in facet.return_types.items() if declared != "Json" and name not in given)


def require_returns(statement: StatementPlan, callee: FacetPlan) -> None:
    """Set the required returns of a call of an event facet.

    The facet itself keeps only the returns that every call requires.
    """
    if not statement.blocks:
        statement.required_returns = callee.required_returns
        return
    required = statement.required_returns = required_returns(callee, statement.blocks)
    callee.always_required = tuple(name for name in callee.always_required if name in required)


def _own_blocks(blocks: Iterable[BlockPlan]) -> Iterator[BlockPlan]:
    """Yield the blocks, and all blocks written inside them, without those of the facets that they call."""
    pending = list(blocks)
    while pending:
        block = pending.pop()
        yield block
        pending += [case.block for case in block.cases]
        for statement in block.statements:
            pending += [body for body in statement.blocks if body.is_statement_body]
            if statement.catch is not None and statement.catch.is_statement_body:
                pending.append(statement.catch)
