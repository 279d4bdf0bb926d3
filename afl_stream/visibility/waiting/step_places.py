"""Paths of stored steps, and the places of their calls in AFL sources."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from afl.compiled.program import CompiledProgram
from afl.engine.model.plan import BlockPlan, StatementPlan, WorkflowPlan
from afl.engine.model.store import StepDocument
from afl.engine.types import ObjectType
from afl.output.source_places import SourcePlace, find_place, source_text

_MIXIN = "mixin-"


class StepPlaces:
    """The steps of one run, each with its path and its place, as far as the run's program tells them."""

    def __init__(
        self,
        workflow: str,
        documents: Sequence[StepDocument],
        program: CompiledProgram | None,
        plan: WorkflowPlan | None,
    ) -> None:
        self._workflow = workflow
        self._documents = {document.id: document for document in documents}
        self._program = program
        self._statements: dict[str, StatementPlan] = {}
        for facet in () if plan is None else plan.facets:
            _take(self._statements, (*facet.blocks, *((facet.catch,) if facet.catch is not None else ())))

    def path_of(self, step_id: str) -> str:
        """Return a step's path from the workflow on, as errors name it; its id where the rows do not tell."""
        at = self._documents.get(step_id)
        if at is None:
            return step_id
        parts: list[str] = []
        while at is not None and at.container_id is not None:
            is_block = ObjectType.is_block(at.object_type)
            if not is_block and at.statement_id is not None:
                parts.append(self._name(at.statement_id))
            block = at if is_block else self._documents.get(at.block_id or "")
            if block is not None:
                if block.foreach_index is not None:
                    parts.append(f"[{block.foreach_index}]")
                if label := self._label(block):
                    parts.append(label)
            at = self._documents.get(at.container_id)
        parts.append(self._workflow)
        return ".".join(reversed(parts)).replace(".[", "[")

    def place_of(self, step_id: str) -> SourcePlace | None:
        """Return where the step's call stands; None where the program is not known, or does not tell."""
        document = self._documents.get(step_id)
        statement = None if document is None else self._statements.get(document.statement_id or "")
        if document is None or statement is None or self._program is None:
            return None
        return find_place(self._program, self.path_of(step_id), document.facet_name, statement.line)

    def _name(self, statement_id: str) -> str:
        statement = self._statements.get(statement_id)
        if statement is None:
            return statement_id.removeprefix(_MIXIN)
        return "yield" if statement.is_yield else statement.name

    def _label(self, block: StepDocument) -> str:
        kind, _, number = (block.statement_id or "").partition("-")
        if kind == "catch":
            return kind
        if kind != "case":
            return ""
        around = self._documents.get(block.block_id or "")
        catch = "catch." if around is not None and around.statement_id == "catch" else ""
        return f"{catch}case[{number}]"


def text_at(place: SourcePlace) -> str | None:
    """Return the line of a place; None where its file is not here, or has changed since."""
    text = source_text(place)
    lines = [] if text is None else text.splitlines()
    if not 0 < place.line <= len(lines):
        return None
    line = lines[place.line - 1]
    return line.strip() if place.word and line[place.column - 1 :].startswith(place.word) else None


def _take(statements: dict[str, StatementPlan], blocks: Iterable[BlockPlan]) -> None:
    for block in blocks:
        _take(statements, [case.block for case in block.cases])
        for statement in block.statements:
            if statement.id not in statements:
                statements[statement.id] = statement
                _take(statements, (*statement.blocks, *((statement.catch,) if statement.catch is not None else ())))
