"""A view of one execution for people and tools: its program, its blocks and graphs, its committed steps.

It is a layer over the store and the compiled program. The engine does not use it: it runs on plans and live records.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from afl.compiled.program import CompiledProgram, Declaration, Kind, Node, blocks_of
from afl.core.ids import id_of_place
from afl.engine.execution.generations import current_steps
from afl.engine.types import Value
from afl.evaluation.block import StatementDefinition
from afl.evaluation.dependency import DependencyGraph, nodes_under
from afl.stores.public.persistence import IterationChanges, PersistenceAPI
from afl.stores.public.step import StepDefinition
from afl.telemetry.telemetry import Telemetry

_FACETS = frozenset({Kind.FACET, Kind.EVENT_FACET})


@dataclass
class ExecutionContext:
    """One execution as its store holds it.

    Make a new one for each use: it caches everything it reads until `clear_caches`.
    """

    persistence: PersistenceAPI
    telemetry: Telemetry
    changes: IterationChanges
    workflow_id: str
    workflow_ast: Node | None = None
    workflow_defaults: Mapping[str, Value] = field(default_factory=dict)
    program_ast: Node | CompiledProgram | None = None
    runner_id: str = ""
    _program: CompiledProgram | None = field(default=None, init=False, repr=False, compare=False)
    _graphs: dict[str, DependencyGraph] = field(default_factory=dict, init=False, repr=False, compare=False)
    _block_asts: dict[str, Node] = field(default_factory=dict, init=False, repr=False, compare=False)
    #: Values that were set, and that stay when another program or workflow is set.
    _set_graphs: dict[str, DependencyGraph] = field(default_factory=dict, init=False, repr=False, compare=False)
    _set_block_asts: dict[str, Node] = field(default_factory=dict, init=False, repr=False, compare=False)
    _looked_up_in: tuple[CompiledProgram | None, Node | None] = field(
        default=(None, None), init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        self._compiled()

    def _compiled(self) -> CompiledProgram | None:
        """Return the program of the current `program_ast`: it may be set at any time."""
        given = self.program_ast
        if isinstance(given, CompiledProgram):
            self._program, self.program_ast = given, given.tree
        elif given is None:
            self._program = None
        elif self._program is None or self._program.tree is not given:
            self._program = CompiledProgram(given)
        return self._program

    # The declarations that run.

    def get_workflow_ast(self) -> Node | None:
        """Return the workflow's declaration."""
        return self.workflow_ast

    def get_facet_definition(self, name: str) -> Node | None:
        """Return a facet's or event facet's declaration, by qualified or unique short name."""
        declaration = self._declaration(name)
        return declaration.node if declaration is not None and declaration.kind in _FACETS else None

    def resolve_qualified_name(self, name: str) -> str:
        """Return the qualified name of a declaration; the name itself at top level, or when it is unknown."""
        declaration = self._declaration(name)
        return name if declaration is None else declaration.qualified_name

    # Steps and blocks.

    def get_workflow_root(self) -> StepDefinition | None:
        """Return the step of the run itself."""
        return self.persistence.get_workflow_root(self.workflow_id)

    def get_block_ast(self, block_step: StepDefinition) -> Node | None:
        """Return the block that a block step runs: an andThen block, case or catch.

        For an element of a foreach it is the block without its foreach. None when the step belongs to no known block.
        """
        self._forget_if_changed()
        known = self._set_block_asts.get(block_step.id, self._block_asts.get(block_step.id))
        if known is None:
            known = self._find_block_ast(block_step)
            if known is not None:
                self._block_asts[block_step.id] = known
        return known

    def set_block_ast_cache(self, block_id: str, block_ast: Node) -> None:
        """Set the block of a block step for later calls on this context."""
        self._set_block_asts[block_id] = block_ast

    def get_block_graph(self, block_id: str) -> DependencyGraph | None:
        """Return the dependencies of a block step's statements; None for a step that is not a known block."""
        self._forget_if_changed()
        graph = self._set_graphs.get(block_id, self._graphs.get(block_id))
        if graph is None:
            block = self._find_step(block_id)
            block_ast = self.get_block_ast(block) if block is not None else None
            if block is None or block_ast is None:
                return None
            around = self._declaration_around(block)
            graph = DependencyGraph.from_ast(
                block_ast,
                self.workflow_defaults,
                self._compiled(),
                namespace="" if around is None else around.namespace,
                uses=() if around is None else around.uses,
            )
            self._graphs[block_id] = graph
        return graph

    def set_block_graph(self, block_id: str, graph: DependencyGraph) -> None:
        """Set the statements of a block step for later calls on this context."""
        self._set_graphs[block_id] = graph

    def get_statement_definition(self, step: StepDefinition) -> StatementDefinition | None:
        """Return the statement of a step; None for a step that is not a statement of a known block."""
        if step.block_id is None or step.statement_id is None:
            return None
        graph = self.get_block_graph(step.block_id)
        return None if graph is None else graph.get_statement(step.statement_id)

    def get_completed_step_by_name(self, step_name: str, block_id: str | None) -> StepDefinition | None:
        """Return the complete step of that name in a block, or, without a block, anywhere in the run."""
        if block_id is not None:
            blocks = [block_id]
        else:
            # Steps whose statements were set need not be in the store.
            blocks = list(dict.fromkeys([*self._set_graphs, *(step.id for step in self._steps() if step.is_block)]))
        for candidate in blocks:
            graph = self.get_block_graph(candidate)
            statement_id = None if graph is None else graph.name_to_id.get(step_name)
            if statement_id is None:
                continue
            for step in self._steps(candidate):
                if step.statement_id == statement_id and step.is_complete:
                    return step
        return None

    def clear_caches(self) -> None:
        """Forget everything that was read or set."""
        for cache in (self._graphs, self._block_asts, self._set_graphs, self._set_block_asts):
            cache.clear()

    # The lookups.

    def _forget_if_changed(self) -> None:
        """Forget the cached data of another program or workflow than the current one."""
        program, workflow = self._compiled(), self.workflow_ast
        if self._looked_up_in[0] is not program or self._looked_up_in[1] is not workflow:
            self._looked_up_in = program, workflow
            self._graphs.clear()
            self._block_asts.clear()

    def _declaration(self, name: str) -> Declaration | None:
        program = self._compiled()
        return None if program is None else program.facet(name)

    def _find_step(self, step_id: str) -> StepDefinition | None:
        for step in (*reversed(self.changes.updated_steps), *self.changes.created_steps):
            if step.id == step_id:
                return step
        return self.persistence.get_step(step_id)

    def _steps(self, block_id: str | None = None) -> list[StepDefinition]:
        """Return the run's steps, or a block's, with uncommitted steps in place of stored ones."""
        counting = self._counting()
        if counting is not None:
            stored: Sequence[StepDefinition] = [
                step
                for step in self.persistence.get_steps_by_workflow(self.workflow_id)
                if step.id in counting and (block_id is None or _same_place(step.block_id, block_id))
            ]
        elif block_id is None:
            stored = self.persistence.get_steps_by_workflow(self.workflow_id)
        else:
            stored = self.persistence.get_steps_by_block(block_id)
        steps = {step.id: step for step in stored}
        for step in (*self.changes.created_steps, *self.changes.updated_steps):
            if block_id is None or step.block_id == block_id:
                steps[step.id] = step
        return list(steps.values())

    def _counting(self) -> frozenset[str] | None:
        """Return the ids of the valid steps, in a run of which a part was run again; None: all are valid."""
        # Only the engine's stores keep steps that were run again.
        row = self.persistence.load_workflow(self.workflow_id) if hasattr(self.persistence, "load_workflow") else None
        if row is None or row.execution == 1 or not hasattr(self.persistence, "load_steps"):
            return None
        steps = current_steps(self.persistence.load_steps(self.workflow_id), row.execution)
        return frozenset(step.id for step in steps)

    def _find_block_ast(self, block: StepDefinition) -> Node | None:
        if block.is_block and block.block_id is not None:
            # The block around this element or case.
            whole = self._find_step(block.block_id)
            around = self.get_block_ast(whole) if whole is not None else None
            return None if around is None else _part_of(around, block)
        if block.container_id is None:
            return _pick(self._workflow_bodies(), block)
        owner = self._find_step(block.container_id)
        if owner is None:
            return None
        return self._catch_of(owner) if _is_catch(block) else _pick(self._bodies_of(owner), block)

    def _catch_of(self, owner: StepDefinition) -> Node | None:
        """Return the catch of a step: the workflow's, its statement's own, or its facet's."""
        if owner.container_id is None:
            return None if self.workflow_ast is None else self.workflow_ast.get("catch")
        own: Node | None = self._statement_node(owner).get("catch")
        declaration = self._declaration(owner.facet_name)
        return own if own is not None or declaration is None else declaration.node.get("catch")

    def _bodies_of(self, owner: StepDefinition) -> tuple[Node, ...]:
        """Return the andThen blocks that a step runs: the workflow's, its statement's own, or its facet's."""
        if owner.container_id is None:
            return self._workflow_bodies()
        own = self._statement_bodies(owner)
        if own:
            return own
        declaration = self._declaration(owner.facet_name)
        return () if declaration is None else declaration.blocks

    def _workflow_bodies(self) -> tuple[Node, ...]:
        return () if self.workflow_ast is None else blocks_of(self.workflow_ast.get("body"))

    def _statement_bodies(self, step: StepDefinition) -> tuple[Node, ...]:
        return blocks_of(self._statement_node(step).get("body"))

    def _statement_node(self, step: StepDefinition) -> Node:
        """Return the statement of a step, empty where it is unknown."""
        block = self._find_step(step.block_id) if step.block_id is not None else None
        block_ast = self.get_block_ast(block) if block is not None else None
        for statement in nodes_under(block_ast or {}, "steps"):
            if step.statement_id in (statement.get("id"), statement.get("name")):
                return statement
        return {}

    def _declaration_around(self, block: StepDefinition) -> Declaration | None:
        """Return the declaration around a block: names in the block are resolved there."""
        owner = self._find_step(block.container_id) if block.container_id is not None else None
        if owner is None or owner.container_id is None:
            return self._workflow_declaration()
        whole = self._find_step(block.block_id) if block.block_id is not None else block
        of_catch = whole is not None and _is_catch(whole)
        if self._statement_node(owner).get("catch") if of_catch else self._statement_bodies(owner):
            around = self._find_step(owner.block_id) if owner.block_id is not None else None
            return None if around is None else self._declaration_around(around)
        return self._declaration(owner.facet_name)

    def _workflow_declaration(self) -> Declaration | None:
        program = self._compiled()
        if program is None or self.workflow_ast is None:
            return None
        workflows = program.workflows()
        same = [declaration for declaration in workflows if declaration.node is self.workflow_ast]
        same = same or [declaration for declaration in workflows if declaration.node == self.workflow_ast]
        return same[0] if same else self._declaration(str(self.workflow_ast.get("name", "")))


def _same_place(block_id: str | None, wanted: str) -> bool:
    return block_id is not None and id_of_place(block_id) == id_of_place(wanted)


def _pick(bodies: tuple[Node, ...], block: StepDefinition) -> Node | None:
    """Return the body that a block step runs: its statement id is `block-N`; the first when it names none."""
    number = str(block.statement_id or "").removeprefix("block-")
    index = int(number) if number.isdecimal() else 0
    return bodies[index] if index < len(bodies) else None


def _is_catch(block: StepDefinition) -> bool:
    return block.statement_id == "catch"


def _part_of(block: Node, part: StepDefinition) -> Node:
    """Return the body of an element of a foreach, or of a case of a `when`."""
    when = block.get("when")
    if isinstance(when, Mapping):
        return nodes_under(when, "cases")[int(str(part.statement_id).removeprefix("case-"))]
    inner = block.get("block")
    return inner if isinstance(inner, Mapping) else {key: part for key, part in block.items() if key != "foreach"}
