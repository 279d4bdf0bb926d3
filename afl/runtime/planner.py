"""Makes plans of a compiled program: resolves every name and compiles every expression that a workflow can reach."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from afl.compiled import (
    CALLABLE,
    SCHEMAS,
    CompiledProgram,
    Declaration,
    Kind,
    Node,
    ProgramError,
    blocks_of,
    line_of,
)
from afl.runtime.binding import binder_of
from afl.runtime.errors import EvaluationError, ReferenceError, UnknownFacet
from afl.runtime.expression import compile_default, compile_expression, expression_text
from afl.runtime.plan import BlockPlan, Default, Expression, FacetPlan, StatementPlan, WorkflowPlan
from afl.runtime.references import BlockContext, CalleeReferences, StatementReferences
from afl.runtime.types import ObjectType

#: Declares no facet at all: such a program may call facets that only the agents know.
_FACETS = frozenset({Kind.FACET, Kind.EVENT_FACET})

#: What a user calls the parts of a program that this version does not run.
_CONSTRUCTS = {"SysLogStmt": "sys.log", "SysAssertStmt": "sys.assert", "pre_script": "script", "mixins": "with"}


class ConstructNotAvailable(ProgramError):
    """The program uses a part of the language that this version of the engine does not run."""

    def __init__(self, construct: str, where: str) -> None:
        super().__init__(f"{where}: `{construct}` is not available in this version of the engine")
        self.construct = construct


def plan_workflow(program: CompiledProgram, name: str) -> WorkflowPlan:
    """Plan a workflow and all that it can call.

    Raises UnknownName or AmbiguousName for the workflow, UnknownFacet, ProgramError and ReferenceError for what is
    wrong inside.
    """
    planner = Planner(program)
    try:
        facet = planner.facet(program.workflow(name))
        planner.finish()
        facets = planner.planned()
        schemas = {n: planner.facet(d) for n, d in program.schemas().items()}
        planner.finish()
    except (ProgramError, EvaluationError, ReferenceError, UnknownFacet):
        raise
    except (LookupError, TypeError, AttributeError, ValueError, RecursionError) as error:
        # A hand-written tree may lack anything, or nest too deep to be walked.
        raise ProgramError(f"{name}: the program is malformed: {type(error).__name__}: {error}") from error
    return WorkflowPlan(facet, facets, schemas, program.fingerprint, lambda: program.text)


class Planner:
    """Plans declarations as they are reached; recursion between facets is fine, each is planned once."""

    def __init__(self, program: CompiledProgram) -> None:
        self._program = program
        self._facets: dict[str, FacetPlan] = {}
        self._unfinished: list[tuple[FacetPlan, Declaration]] = []
        self._bodies: list[StatementPlan] = []
        self._takes_unknown_facets = not program.names.has_any(_FACETS)

    def facet(self, declaration: Declaration) -> FacetPlan:
        """The plan of a declaration; its insides follow in `finish`."""
        plan = self._facets.get(declaration.qualified_name)
        if plan is None:
            plan = self._facets[declaration.qualified_name] = FacetPlan(declaration.qualified_name, declaration.kind)
            self._unfinished.append((plan, declaration))
        return plan

    def planned(self) -> tuple[FacetPlan, ...]:
        """All that was reached so far."""
        return tuple(self._facets.values())

    def finish(self) -> None:
        """Plan everything that was reached so far, and what that reaches."""
        while self._unfinished:
            plan, declaration = self._unfinished.pop()
            self._fill(plan, declaration)
        for statement in self._bodies:
            callee = statement.callee
            if not statement.blocks and callee is not None:
                statement.blocks = callee.blocks
            statement.plain = not statement.blocks and (callee is None or not callee.is_event)
            if statement.plain:
                statement.bind = binder_of(statement)
        self._bodies.clear()

    def _fill(self, plan: FacetPlan, declaration: Declaration) -> None:
        where = declaration.qualified_name
        _refuse(declaration.node, ("mixins", "pre_script", "catch"), where)
        if isinstance(declaration.node.get("body"), Mapping) and declaration.node["body"].get("type") == "ScriptBlock":
            raise ConstructNotAvailable("script", where)
        plan.line = declaration.line
        slots = declaration.fields if plan.is_schema else declaration.params
        plan.param_types = self._types(declaration, slots)
        plan.return_types = self._types(declaration, declaration.returns)
        references = CalleeReferences(declaration.qualified_name)
        plan.defaults = _defaults(declaration.params, references)
        plan.return_defaults = _defaults(declaration.returns, references)
        plan.blocks = self._blocks(declaration, declaration.blocks, None, plan, None, where)

    def _types(self, declaration: Declaration, slots: Iterable[Node]) -> dict[str, object]:
        return {str(s["name"]): self._program.qualified_type(declaration, s.get("type", "Json")) for s in slots}

    def _blocks(
        self,
        declaration: Declaration,
        nodes: Iterable[Node],
        parent: BlockContext | None,
        facet: FacetPlan,
        statement: StatementPlan | None,
        where: str,
    ) -> tuple[BlockPlan, ...]:
        return tuple(
            self._block(declaration, node, index, BlockContext(parent, facet, statement), where)
            for index, node in enumerate(nodes)
        )

    def _block(self, declaration: Declaration, node: Node, index: int, context: BlockContext, where: str) -> BlockPlan:
        _refuse(node, ("when", "script", "catch"), where)
        plan = BlockPlan(index, is_statement_body=context.statement is not None)
        plan.line = line_of(node)
        # The reference's own tree puts steps under `block`; the emitted form has them beside `foreach`.
        inner = node["block"] if isinstance(node.get("block"), Mapping) else node
        foreach = node.get("foreach")
        if foreach:
            source = StatementReferences(BlockContext(context.parent, context.facet, context.statement), where)
            plan.source = compile_expression(foreach["iterable"], source)
            plan.source_text = expression_text(foreach["iterable"])
            plan.source_waits = source.outer_waits()
            plan.variable = context.variable = str(foreach["variable"])
        nodes = list(inner.get("steps") or ())
        yields = inner.get("yields") or ([inner["yield"]] if inner.get("yield") else [])
        shells = [self._shell(declaration, n, i, where) for i, n in enumerate(nodes)]
        _refuse_doubles(shells, where)
        context.names.update((shell.name, i) for i, shell in enumerate(shells))
        for shell, n in zip(shells, nodes, strict=True):
            self._statement(declaration, shell, n, context, f"{where}.{shell.name}")
        plan.statements = tuple(shells)
        plan.yields = tuple(self._yield(declaration, n, i, context, where) for i, n in enumerate(yields))
        _tie(plan)
        return plan

    def _shell(self, declaration: Declaration, node: Node, index: int, where: str) -> StatementPlan:
        kind = str(node.get("type", "StepStmt"))
        if kind != "StepStmt":
            raise ConstructNotAvailable(_CONSTRUCTS.get(kind, kind), where)
        name = str(node["name"])
        call = node["call"]
        target = str(call["target"])
        callee = self._callee(declaration, target, f"{where}.{name}")
        object_type = ObjectType.VARIABLE_ASSIGNMENT
        if callee is not None and callee.is_schema:
            object_type = ObjectType.SCHEMA_INSTANTIATION
        shell = StatementPlan(index, name, str(node.get("id") or name), object_type, callee.name if callee else target)
        shell.callee = callee
        shell.line = line_of(node)
        return shell

    def _callee(self, declaration: Declaration, target: str, where: str) -> FacetPlan | None:
        """Facets first, then schemas. Unknown: an error, unless the program declares no facet at all."""
        for kinds, what in ((CALLABLE, "facet"), (SCHEMAS, "schema")):
            found = self._program.resolve_in(declaration, target, kinds, what)
            if found is not None:
                return self.facet(found)
        if self._takes_unknown_facets:
            return None
        raise UnknownFacet(name=f"{target} (called in {where})", near=tuple(self._program.names.near(target)))

    def _statement(
        self, declaration: Declaration, plan: StatementPlan, node: Node, context: BlockContext, where: str
    ) -> None:
        _refuse(node, ("catch",), where)
        _refuse(node["call"], ("mixins",), where)
        references = StatementReferences(context, where, own_index=plan.index)
        plan.args = _arguments(node["call"], references)
        plan.waits = references.local_waits()
        plan.outer_waits = references.outer_waits()
        body = blocks_of(node.get("body"))
        if body:
            if plan.callee is not None and plan.callee.is_schema:
                raise ProgramError(f"{where}: {plan.facet_name} is a schema and takes no andThen")
            plan.blocks = self._blocks(declaration, body, context, context.facet, plan, where)
        self._bodies.append(plan)

    def _yield(
        self, declaration: Declaration, node: Node, index: int, context: BlockContext, where: str
    ) -> StatementPlan:
        call = node["call"]
        _refuse(call, ("mixins",), where)
        target = str(call["target"])
        found = self._program.names.resolve(target, declaration.namespace, declaration.uses).found
        # The same id as in a DependencyGraph; the name cannot be that of a step.
        statement_id = str(node.get("id") or f"yield-{index}")
        name = f"_yield_{statement_id}"
        plan = StatementPlan(index, name, statement_id, ObjectType.YIELD_ASSIGNMENT, found or target)
        references = StatementReferences(context, f"{where}.yield")
        plan.args = _arguments(call, references)
        plan.outer_waits = references.outer_waits()
        plan.yield_depth = context.yield_depth(target)
        plan.line = line_of(node)
        return plan


def _arguments(call: Node, references: StatementReferences) -> tuple[tuple[str, Expression], ...]:
    return tuple((str(arg["name"]), compile_expression(arg.get("value"), references)) for arg in call.get("args") or ())


def _defaults(slots: Iterable[Node], references: CalleeReferences) -> tuple[tuple[str, Default], ...]:
    found: list[tuple[str, Default]] = []
    for slot in slots:
        if "default" in slot:
            found.append((str(slot["name"]), compile_default(slot["default"], references)))
    return tuple(found)


def _tie(plan: BlockPlan) -> None:
    """Fill in the reverse edges and the counts."""
    wakes: list[list[int]] = [[] for _ in plan.statements]
    for statement in plan.statements:
        for index in statement.waits:
            wakes[index].append(statement.index)
    for statement, woken in zip(plan.statements, wakes, strict=True):
        statement.wakes = tuple(woken)
    plan.wait_counts = tuple(len(s.waits) + len(s.outer_waits) for s in plan.statements)
    plan.first = tuple(s.index for s in plan.statements if not s.waits)
    plan.has_outer_waits = any(s.outer_waits for s in plan.statements)
    plan.yield_waits = tuple(dict.fromkeys((w.depth, w.index) for y in plan.yields for w in y.outer_waits))


def _refuse_doubles(statements: Iterable[StatementPlan], where: str) -> None:
    seen: set[str] = set()
    ids: set[str] = set()
    for statement in statements:
        if statement.name in seen or statement.id in ids:
            raise ProgramError(f"{where}: two statements of a block are called {statement.name} (id {statement.id})")
        seen.add(statement.name)
        ids.add(statement.id)


def _refuse(node: Node, keys: Iterable[str], where: str) -> None:
    for key in keys:
        value: Any = node.get(key)
        if value:
            raise ConstructNotAvailable(_CONSTRUCTS.get(key, key), where)
