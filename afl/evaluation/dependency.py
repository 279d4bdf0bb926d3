"""The dependencies between the statements of a block, from the references in all parts of each statement."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import cast

from afl.compiled.program import CALLABLE, SCHEMAS, AmbiguousName, CompiledProgram, ProgramError, blocks_of
from afl.engine.errors import NoProgress
from afl.engine.expressions.nodes import Node, Reference, references_in
from afl.engine.planning.branch_planner import split_yields
from afl.engine.types import SYSTEM_STATEMENTS as _SYSTEM
from afl.engine.types import ObjectType
from afl.evaluation.block import StatementDefinition

_SYSTEM_TYPES = frozenset(object_type for _, object_type in _SYSTEM.values())


@dataclass
class DependencyGraph:
    """The statements of one block, and the statements that each needs first."""

    #: Statement id to the ids of the statements that it refers to.
    dependencies: dict[str, set[str]] = field(default_factory=dict)
    #: Step name to statement id. Yields have no name that could be referred to.
    name_to_id: dict[str, str] = field(default_factory=dict)
    statements: dict[str, StatementDefinition] = field(default_factory=dict)

    @classmethod
    def from_ast(
        cls,
        block_ast: Node,
        workflow_inputs: Collection[str],  # noqa: ARG003 - a public signature
        program_ast: Node | CompiledProgram | None = None,
        *,
        namespace: str = "",
        uses: Sequence[str] = (),
    ) -> DependencyGraph:
        """Build the graph of a compiled block.

        With the program, call targets become qualified names: by the compiler's resolution, else as `namespace` with
        its imports `uses` sees them; unknown names stay as written. `workflow_inputs` are never dependencies; the
        parameter exists for compatibility. Raises AmbiguousName when several declarations have a target's name,
        ProgramError for a statement that is not a step.
        """
        program = CompiledProgram(program_ast) if isinstance(program_ast, Mapping) else program_ast
        graph = cls()
        # Statements of `sys` have no name that could be referred to, and an argument list of their own.
        steps = [(step, _system_name(step, index)) for index, step in enumerate(nodes_under(block_ast, "steps"))]
        for step, system_name in steps:
            if system_name is None and _is_step(step):
                name = str(step["name"])
                graph.name_to_id[name] = str(step.get("id") or name)
        for step, system_name in steps:
            if system_name is not None:
                called, object_type = _SYSTEM[str(step["type"])]
                graph._add(str(step.get("id") or system_name), system_name, object_type, called, step)
                continue
            name = str(step["name"])
            target, object_type = _resolve(_call(step), program, namespace, uses)
            graph._add(graph.name_to_id[name], name, object_type, target, step)
        for position, statement in enumerate(yields_of(block_ast)):
            identity = str(statement.get("id") or f"yield-{position}")
            target, _ = _resolve(_call(statement), program, namespace, uses)
            graph._add(identity, f"_yield_{identity}", ObjectType.YIELD_ASSIGNMENT, target, statement)
        return graph

    def _add(self, identity: str, name: str, object_type: str, facet_name: str, node: Node) -> None:
        if identity in self.statements:
            raise ProgramError(f"two statements of a block have the id {identity}")
        referred = (path[0] for kind, path in references_of_statement(node) if kind == "step" and path)
        needs = {self.name_to_id[step] for step in referred if step in self.name_to_id} - {identity}
        self.dependencies[identity] = needs
        self.statements[identity] = StatementDefinition(
            id=identity,
            name=name,
            object_type=object_type,
            facet_name=facet_name,
            dependencies=needs,
            args=nodes_under(node if object_type in _SYSTEM_TYPES else _call(node), "args"),
            is_yield=object_type == ObjectType.YIELD_ASSIGNMENT,
        )

    def can_create(self, statement_id: str, completed: AbstractSet[str]) -> bool:
        """Say whether a statement may start. A yield also waits for every other statement that is not a yield."""
        if not self.dependencies.get(statement_id, set()) <= completed:
            return False
        statement = self.statements.get(statement_id)
        if statement is None or not statement.is_yield:
            return True
        return all(other in completed for other, each in self.statements.items() if not each.is_yield)

    def get_ready_statements(self, completed: AbstractSet[str]) -> list[StatementDefinition]:
        """Return the statements that may start and are not complete, in source order."""
        return [
            statement
            for identity, statement in self.statements.items()
            if identity not in completed and self.can_create(identity, completed)
        ]

    def get_statement(self, statement_id: str) -> StatementDefinition | None:
        """Return a statement by id, None when the block has none of that id."""
        return self.statements.get(statement_id)

    def get_all_statements(self) -> list[StatementDefinition]:
        """Return all statements: steps, then yields, in source order."""
        return list(self.statements.values())

    def topological_order(self) -> list[str]:
        """Return the ids so that each comes after those it needs. Raises NoProgress with the statements of a cycle."""
        order: list[str] = []
        placed: set[str] = set()
        remaining = list(self.dependencies)
        while remaining:
            ready = [identity for identity in remaining if self.dependencies[identity] <= placed]
            if not ready:
                raise NoProgress(tuple(remaining))
            order += ready
            placed.update(ready)
            remaining = [identity for identity in remaining if identity not in placed]
        return order


def references_of_statement(statement: Node) -> Iterator[Reference]:
    """Yield every reference of a statement to something outside of it.

    These are in its arguments, those of mixins included, in the condition of an assertion, and in its bodies and its
    catch as far as they do not declare the name themselves. A step's references to its own results are left out.
    """
    if "condition" in statement:
        yield from references_in(statement["condition"])
    yield from _references_of_call(statement)
    call = statement.get("call")
    if isinstance(call, Mapping):
        yield from _references_of_call(call)
    own = {str(statement["name"])} if "name" in statement else set()
    for block in blocks_of(statement.get("body")):
        yield from _outside(references_of_block(block), own)
    catch = statement.get("catch")
    if isinstance(catch, Mapping):
        yield from _outside(references_of_block(catch), own)


def references_of_block(block: Node) -> Iterator[Reference]:
    """Yield every reference of an andThen or catch block to a name that it does not declare itself."""
    foreach = block.get("foreach")
    declared: set[str] = set()
    if isinstance(foreach, Mapping):
        yield from references_in(foreach.get("iterable"))
        declared.add(str(foreach.get("variable")))
    when = block.get("when")
    for case in nodes_under(when, "cases") if isinstance(when, Mapping) else ():
        yield from _outside(references_in(case.get("condition")), declared)
        yield from _references_of_statements(case, declared)
    yield from _references_of_statements(block, declared)


def _references_of_statements(scope: Node, declared: AbstractSet[str]) -> Iterator[Reference]:
    steps = nodes_under(scope, "steps")
    inside = declared | {str(step["name"]) for step in steps if "name" in step}
    for statement in (*steps, *yields_of(scope)):
        yield from _outside(references_of_statement(statement), inside)


def _references_of_call(call: Node) -> Iterator[Reference]:
    for arg in nodes_under(call, "args"):
        yield from references_in(arg.get("value"))
    for mixin in nodes_under(call, "mixins"):
        yield from _references_of_call(mixin)


def _outside(references: Iterable[Reference], declared: AbstractSet[str]) -> Iterator[Reference]:
    return (reference for reference in references if not (reference[0] == "step" and set(reference[1][:1]) & declared))


def nodes_under(node: Node, key: str) -> list[Node]:
    """Return the list of nodes under a key, empty where it is left out. Raises ProgramError for anything else."""
    found = node.get(key)
    if found is None:
        return []
    if isinstance(found, list | tuple) and all(isinstance(each, Mapping) for each in found):
        return list(cast(Sequence[Node], found))
    raise ProgramError(f"{key!r} must be a list of objects, found {type(found).__name__}")


def yields_of(block: Node) -> list[Node]:
    """Return the yields of a block: compiled programs have one under "yield", or several under "yields".

    `yield A(..) with B(..)` of the older shape counts as two.
    """
    found = nodes_under(block, "yields")
    single = block.get("yield")
    if not found and single is not None:
        found = [single] if isinstance(single, Mapping) else nodes_under(block, "yield")
    return split_yields(found)


def _system_name(statement: Node, index: int) -> str | None:
    """Return the engine's name for a statement of `sys`; None for any other."""
    system = _SYSTEM.get(str(statement.get("type")))
    return None if system is None else f"{system[0]}-{index}"


def _is_step(statement: Node) -> bool:
    # Hand-written programs leave the type out. Any other type is refused, never silently ignored.
    if statement.get("type", "StepStmt") != "StepStmt" or "name" not in statement:
        raise ProgramError(f"a {statement.get('type', 'statement without a name')} is not a step of a dependency graph")
    return True


def _call(statement: Node) -> Node:
    call = statement.get("call")
    if not isinstance(call, Mapping) or "target" not in call:
        raise ProgramError(f"statement {statement.get('name') or statement.get('id')} calls nothing")
    return call


def _resolve(call: Node, program: CompiledProgram | None, namespace: str, uses: Sequence[str]) -> tuple[str, str]:
    """Return a target's name, qualified if it is known, and the type of the steps that call it."""
    written = str(call["target"])
    if program is None:
        return written, ObjectType.VARIABLE_ASSIGNMENT
    names = program.names
    resolved = str(call.get("resolved") or written)
    facet = names.resolve(resolved, namespace, uses, CALLABLE)
    if facet.candidates:
        raise AmbiguousName("facet", written, facet.candidates)
    if facet.found is not None:
        return facet.found, ObjectType.VARIABLE_ASSIGNMENT
    schema = names.resolve(resolved, namespace, uses, SCHEMAS)
    if schema.candidates:
        raise AmbiguousName("schema", written, schema.candidates)
    kind = ObjectType.VARIABLE_ASSIGNMENT if schema.found is None else ObjectType.SCHEMA_INSTANTIATION
    return written, kind
