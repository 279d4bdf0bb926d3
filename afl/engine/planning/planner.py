"""The planning of a compiled program: resolve every name and compile every expression that a workflow can reach."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache, partial

from afl.compiled.program import (
    CALLABLE,
    SCHEMAS,
    CompiledProgram,
    Declaration,
    Kind,
    Node,
    ProgramError,
    blocks_of,
    column_of,
    line_of,
    source_of,
)
from afl.core.text.exception_text import exception_line
from afl.engine.errors import EvaluationError, ReferenceError, UnknownFacet
from afl.engine.expressions.exact_doubles import exact_arguments
from afl.engine.expressions.expression import compile_expression, expression_text
from afl.engine.model.plan import (
    BlockPlan,
    Expression,
    FacetPlan,
    ParameterDefault,
    ScriptPlan,
    StatementPlan,
    WorkflowPlan,
)
from afl.engine.planning.binding import binder_of
from afl.engine.planning.branch_planner import plan_catch, plan_when, split_yields
from afl.engine.planning.mixin_planner import call_arguments, plan_configured, plan_mixins, yield_targets
from afl.engine.planning.parameter_defaults import (
    compile_constants,
    compile_defaults,
    defaults_in_order,
    exact_defaults,
)
from afl.engine.planning.references import BlockContext, StatementReferences
from afl.engine.planning.required_returns import require_returns, required_returns
from afl.engine.planning.runtime_mixins import RuntimeMixins, library_facet, time_limit_ms
from afl.engine.planning.system_planner import SYSTEM_TYPES, plan_system, system_shell
from afl.engine.types import SYSTEM_STATEMENTS, ObjectType
from afl.engine.values.declared import DeclaredTypes

#: The program declares no facet at all: it may call facets that only the agents know.
_FACETS = frozenset({Kind.FACET, Kind.EVENT_FACET})


class ConstructNotAvailable(ProgramError):
    """The program uses a part of the language that this version of the engine does not run."""

    def __init__(self, construct: str, where: str) -> None:
        super().__init__(f"{where}: `{construct}` is not available in this version of the engine")
        self.construct = construct


def plan_workflow(program: CompiledProgram, name: str) -> WorkflowPlan:
    """Plan a workflow and everything that it can call.

    Raises UnknownName or AmbiguousName for the workflow, UnknownFacet, ProgramError and ReferenceError for faults
    inside it.
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
        # A hand-written tree may lack anything, or nest too deep for this walk.
        raise ProgramError(f"{name}: the program is malformed: {exception_line(error)}") from error
    facet_names = frozenset(program.names.all(CALLABLE))
    return WorkflowPlan(facet, facets, schemas, program, planner.scripted(), facet_names)


class Planner:
    """Planner of declarations as they are reached; facets may be recursive, each is planned once."""

    def __init__(self, program: CompiledProgram) -> None:
        self._program = program
        self._declared = DeclaredTypes(cache(self._fields_of))
        self._facets: dict[str, FacetPlan] = {}
        self._unfinished: list[tuple[FacetPlan, Declaration]] = []
        self._bodies: list[StatementPlan] = []
        #: Yields, and the owner of the returns that they give.
        self._yields: list[tuple[StatementPlan, str]] = []
        #: For statements whose callee has an implicit: the values of the implicit.
        self._implicits: dict[StatementPlan, Mapping[str, ParameterDefault]] = {}
        #: Declarations that contain a script, in the order in which they were reached.
        self._scripted: dict[str, None] = {}
        self._takes_unknown_facets = not program.names.has_any(_FACETS)
        #: The resolved calls, by the declaration around them: most callees are called often.
        self._called: dict[tuple[str, str], FacetPlan | None] = {}

    def facet(self, declaration: Declaration) -> FacetPlan:
        """Return the plan of a declaration; `finish` adds the plans of its parts."""
        plan = self._facets.get(declaration.qualified_name)
        if plan is None:
            plan = self._facets[declaration.qualified_name] = FacetPlan(declaration.qualified_name, declaration.kind)
            plan.reads_steps = self._program.has_step_types
            plan.library = library_facet(declaration)
            if declaration.mixins:
                # Planned immediately: yields that address them may be planned before the facet itself.
                names, namespace, uses = self._program.names, declaration.namespace, declaration.uses
                plan.yield_targets = yield_targets(
                    declaration.mixins, lambda target: names.resolve(target, namespace, uses).found
                )
            self._unfinished.append((plan, declaration))
        return plan

    def planned(self) -> tuple[FacetPlan, ...]:
        """Return all plans reached so far."""
        return tuple(self._facets.values())

    def scripted(self) -> tuple[str, ...]:
        """Return those of them that contain a script."""
        return tuple(self._scripted)

    def finish(self) -> None:
        """Plan all declarations reached so far, and those that they reach."""
        while self._unfinished:
            plan, declaration = self._unfinished.pop()
            self._fill(plan, declaration)
        for yielded, name in self._yields:
            if name in self._facets:
                yielded.args = exact_arguments(yielded.args, self._facets[name].return_looks)
        self._yields.clear()
        for statement in self._bodies:
            callee = statement.callee
            if callee is not None:
                statement.args = exact_arguments(statement.args, callee.param_looks)
                if callee.is_event:
                    require_returns(statement, callee)
            if not statement.blocks and callee is not None:
                statement.blocks = callee.blocks
            if statement.catch is None and callee is not None:
                statement.catch = callee.catch
            self._complete_call(statement)
            statement.plain = not (statement.blocks or statement.catch or statement.is_value) and (
                callee is None or not (callee.is_event or callee.mixins or callee.pre_script is not None)
            )
            if statement.plain:
                statement.bind = binder_of(statement)
        self._bodies.clear()
        for plan in self._facets.values():
            for mixin in plan.mixins:
                if mixin.facet is not None:
                    mixin.args = exact_arguments(mixin.args, mixin.facet.param_looks)
                    given = {name for name, _ in mixin.args}
                    mixin.parameter_defaults = defaults_in_order(given, mixin.facet.configured, mixin.facet.defaults)

    def _complete_call(self, statement: StatementPlan) -> None:
        """Decide the sources of parameters that a call leaves out, its agent's time, and its further attempts."""
        callee = statement.callee
        if callee is None or callee.is_schema:
            return
        if callee.library is not None:
            # No agent has a time to keep, nor fails.
            statement.timeout_ms = statement.retry = None
        if statement.timeout_ms is None:
            statement.timeout_ms = callee.timeout_ms
        if statement.retry is None:
            statement.retry = callee.retry
        implicit = self._implicits.get(statement)
        if implicit is not None:
            implicit = exact_defaults(
                {n: default for n, default in implicit.items() if n in callee.param_types}, callee
            )
        elif not callee.parameter_defaults:
            return
        given = {name for name, _ in statement.args}
        statement.parameter_defaults = defaults_in_order(given, callee.configured, implicit or {}, callee.defaults)

    def _fill(self, plan: FacetPlan, declaration: Declaration) -> None:
        where = declaration.qualified_name
        script = declaration.pre_script
        if script is not None:
            plan.pre_script = self._script(declaration, script, where)
        plan.line, plan.source_id = declaration.line, source_of(declaration.node)
        slots = declaration.fields if plan.is_schema else declaration.params
        plan.param_types = self._types(declaration, slots)
        plan.return_types = self._types(declaration, declaration.returns)
        looks = self._declared.looks
        plan.param_looks, plan.return_looks = looks(plan.param_types), looks(plan.return_types)
        plan.param_fits = self._declared.fits(plan.param_types) if plan.is_event else {}
        self._fill_parameters(plan, declaration, where)
        plan.blocks = self._blocks(declaration, declaration.blocks, None, plan, None, where)
        plan.catch = self._catch(declaration, declaration.node, None, plan, None, where)
        if plan.is_event:
            plan.required_returns = required_returns(plan, plan.blocks)
            plan.always_required = plan.required_returns if plan.pre_script is None else ()

    def _fill_parameters(self, plan: FacetPlan, declaration: Declaration, where: str) -> None:
        mixins, steps, known = declaration.mixins, plan.reads_steps, self._runtime_mixins(declaration)
        plan.configured = exact_defaults(plan_configured(mixins, where, known.configures, reads_steps=steps), plan)
        plan.mixins = plan_mixins(mixins, where, lambda name: self._mixin(declaration, name), reads_steps=steps)
        plan.timeout_ms, plan.retry = time_limit_ms(mixins, where), known.retry(mixins, where)
        plan.defaults = exact_defaults(compile_defaults(declaration.params, where, reads_steps=steps), plan)
        plan.parameter_defaults = defaults_in_order((), plan.configured, plan.defaults)
        returns = compile_defaults(declaration.returns, where, reads_steps=steps)
        return_values = ((name, default.value) for name, default in returns.items())
        plan.return_defaults = exact_arguments(return_values, plan.return_looks)

    def _runtime_mixins(self, declaration: Declaration) -> RuntimeMixins:
        names, namespace, uses = self._program.names, declaration.namespace, declaration.uses
        return RuntimeMixins(lambda name: names.resolve(name, namespace, uses), self._program.declarations.__getitem__)

    def _mixin(self, declaration: Declaration, name: str) -> FacetPlan | None:
        """Return the facet that a mixin's name means; None for a short name that only the agents may know."""
        found = self._program.resolve_in(declaration, name, CALLABLE, "facet")
        if found is not None:
            return self.facet(found)
        if "." not in name or self._takes_unknown_facets:
            return None
        near = tuple(self._program.names.near(name))
        raise UnknownFacet(name=f"{name} (mixed into {declaration.qualified_name})", near=near)

    def _fields_of(self, name: str) -> Mapping[str, object] | None:
        declaration = self._program.declarations.get(name)
        if declaration is None or declaration.kind is not Kind.SCHEMA:
            return None
        return self._types(declaration, declaration.fields)

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
        plans: list[BlockPlan] = []
        #: The plain blocks before it, which a `when` of a declaration sees.
        earlier: list[tuple[int, Mapping[str, StatementPlan]]] = []
        for index, node in enumerate(nodes):
            context = BlockContext(parent, facet, statement)
            if node.get("when") is not None and statement is None:
                context.earlier = tuple(earlier)
            plans.append(self._block(declaration, node, index, context, where))
            if not (plans[-1].splits or plans[-1].script):
                earlier.append((index, context.names))
        return tuple(plans)

    def _catch(
        self,
        declaration: Declaration,
        node: Node,
        parent: BlockContext | None,
        facet: FacetPlan,
        statement: StatementPlan | None,
        where: str,
    ) -> BlockPlan | None:
        """Return the catch of a declaration or statement, if it has one."""
        catch = node.get("catch")
        if catch is None:
            return None
        return plan_catch(catch, BlockContext(parent, facet, statement), where, partial(self._block, declaration))

    def _block(self, declaration: Declaration, node: Node, index: int, context: BlockContext, where: str) -> BlockPlan:
        plan = BlockPlan(index, is_statement_body=context.statement is not None)
        plan.line = line_of(node)
        if node.get("when") is not None:
            plan_when(node, plan, context, where, partial(self._block, declaration))
            return plan
        if node.get("script"):
            plan.script = self._script(declaration, node["script"], where)
            plan.yields = (_result_of_script(plan.script, context),)
            return plan
        # The reference's own tree puts steps under `block`; the emitted form has them beside `foreach`.
        inner = node["block"] if isinstance(node.get("block"), Mapping) else node
        foreach = node.get("foreach")
        if foreach:
            source = StatementReferences(BlockContext(context.parent, context.facet, context.statement), where)
            plan.source = compile_expression(foreach["iterable"], source)
            plan.source_text = expression_text(foreach["iterable"])
            plan.source_waits = source.outer_waits()
            plan.variable = context.variable = str(foreach["variable"])
            plan.splits = True
        nodes = list(inner.get("steps") or ())
        yields = split_yields(inner.get("yields") or ([inner["yield"]] if inner.get("yield") else []))
        shells = [self._shell(declaration, n, i, where) for i, n in enumerate(nodes)]
        _refuse_doubles(shells, where)
        context.names.update((shell.name, shell) for shell in shells)
        for shell, n in zip(shells, nodes, strict=True):
            self._statement(declaration, shell, n, context, f"{where}.{shell.name}")
        plan.statements = tuple(shells)
        plan.yields = tuple(self._yield(declaration, n, i, context, where) for i, n in enumerate(yields))
        _tie(plan)
        return plan

    def _script(self, declaration: Declaration, node: Node, where: str) -> ScriptPlan:
        language = node.get("language", "python")
        if language != "python":
            raise ProgramError(f"{where}: scripts are written in python, not in {language}")
        self._scripted[declaration.qualified_name] = None
        return ScriptPlan(str(node["code"]), declaration.qualified_name, line_of(node) or declaration.line)

    def _shell(self, declaration: Declaration, node: Node, index: int, where: str) -> StatementPlan:
        kind = str(node.get("type", "StepStmt"))
        if kind in SYSTEM_STATEMENTS:
            return system_shell(node, kind, index)
        if kind != "StepStmt":
            raise ConstructNotAvailable(kind, where)
        name = str(node["name"])
        call = node["call"]
        target = str(call["target"])
        called = (declaration.qualified_name, target)
        if called not in self._called:
            self._called[called] = self._callee(declaration, target, f"{where}.{name}")
        callee = self._called[called]
        object_type = ObjectType.VARIABLE_ASSIGNMENT
        if callee is not None and callee.is_schema:
            object_type = ObjectType.SCHEMA_INSTANTIATION
        shell = StatementPlan(index, name, str(node.get("id") or name), object_type, callee.name if callee else target)
        shell.callee = callee
        shell.line, shell.column = line_of(node), column_of(node)
        return shell

    def _callee(self, declaration: Declaration, target: str, where: str) -> FacetPlan | None:
        """Return the callee: facets first, then schemas. An unknown one is an error if the program declares facets."""
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
        references = StatementReferences(context, where, own_index=plan.index)
        if plan.object_type in SYSTEM_TYPES:
            plan_system(node, plan, references)
            return
        known = self._runtime_mixins(declaration)
        plan.args = call_arguments(node["call"], references, lambda mixin: known.configures(mixin, plan.callee))
        if node["call"].get("mixins"):
            if plan.callee is not None and plan.callee.is_schema:
                raise ProgramError(f"{where}: {plan.facet_name} is a schema and takes no mixins")
            plan.timeout_ms = time_limit_ms(node["call"]["mixins"], where)
            plan.retry = known.retry(node["call"]["mixins"], where)
        if self._program.implicits:
            self._note_implicit(declaration, plan)
        plan.waits = references.local_waits()
        plan.outer_waits = references.outer_waits()
        body = blocks_of(node.get("body"))
        if body:
            if plan.callee is not None and plan.callee.is_schema:
                raise ProgramError(f"{where}: {plan.facet_name} is a schema and takes no andThen")
            plan.blocks = self._blocks(declaration, body, context, context.facet, plan, where)
        plan.catch = self._catch(declaration, node, context, context.facet, plan, where)
        self._bodies.append(plan)

    def _note_implicit(self, declaration: Declaration, plan: StatementPlan) -> None:
        if plan.callee is None or plan.callee.is_schema:
            return
        implicit = self._program.implicit_for(declaration, self._program.declarations[plan.callee.name])
        if implicit is not None:
            self._implicits[plan] = compile_constants(implicit.args, f"implicit {implicit.name}")

    def _yield(
        self, declaration: Declaration, node: Node, index: int, context: BlockContext, where: str
    ) -> StatementPlan:
        call = node["call"]
        target = str(call["target"])
        found = self._program.names.resolve(target, declaration.namespace, declaration.uses).found
        # The same id as in a DependencyGraph; a step cannot have this name.
        statement_id = str(node.get("id") or f"yield-{index}")
        name = f"_yield_{statement_id}"
        plan = StatementPlan(index, name, statement_id, ObjectType.YIELD_ASSIGNMENT, found or target)
        references = StatementReferences(context, f"{where}.yield")
        plan.args = _arguments(call, references)
        plan.outer_waits = references.outer_waits()
        self._yields.append((plan, found or target))
        addressed = context.yield_target(target)
        if addressed is not None:
            plan.yield_depth, plan.yield_alias = addressed.depth, addressed.alias
            plan.yields_declared = addressed.is_mixin and addressed.alias is None
        plan.line = line_of(node)
        return plan


def _result_of_script(script: ScriptPlan, context: BlockContext) -> StatementPlan:
    """Return the yield at the end of a block written in Python: its values are the script's result, not arguments."""
    calling = context.facet if context.statement is None else context.statement
    name = calling.name if isinstance(calling, FacetPlan) else calling.facet_name
    plan = StatementPlan(0, "_yield_result", "yield-result", ObjectType.YIELD_ASSIGNMENT, name)
    plan.yield_depth = 0
    plan.line = script.line
    return plan


def _arguments(call: Node, references: StatementReferences) -> tuple[tuple[str, Expression], ...]:
    return tuple((str(arg["name"]), compile_expression(arg.get("value"), references)) for arg in call.get("args") or ())


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
    outside = {(wait.depth, wait.index, wait.sibling): wait for given in plan.yields for wait in given.outer_waits}
    plan.yield_waits = tuple(outside.values())


def _refuse_doubles(statements: Iterable[StatementPlan], where: str) -> None:
    seen: set[str] = set()
    ids: set[str] = set()
    for statement in statements:
        if statement.name in seen or statement.id in ids:
            raise ProgramError(f"{where}: two statements of a block are called {statement.name} (id {statement.id})")
        seen.add(statement.name)
        ids.add(statement.id)
