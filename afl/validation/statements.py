"""Check what runs inside declarations: blocks, when, catch, and their statements."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from afl import ast
from afl.core.types import SCALAR_TYPES
from afl.validation.calls import CallChecker
from afl.validation.expressions import ExpressionChecker
from afl.validation.findings import Findings, name_place
from afl.validation.scopes import Scope, Step, Variable
from afl.validation.scripts import check_script
from afl.validation.signatures import Signature, mixin_extras
from afl.validation.symbols import Symbols
from afl.validation.value_types import STRING
from afl.validation.yields import YieldChecker

#: Called with every block and `when`, and the scope that its statements or conditions see.
ScopeObserver = Callable[[ast.Block | ast.WhenBlock, Scope], None]


class StatementChecker:
    """Checker of the blocks of declarations, and of the steps' blocks inside them."""

    def __init__(
        self,
        symbols: Symbols,
        findings: Findings,
        expressions: ExpressionChecker,
        calls: CallChecker,
        observer: ScopeObserver | None = None,
    ) -> None:
        self._observer = observer
        self._symbols = symbols
        self._findings = findings
        self._report = findings.report
        self._expressions = expressions
        self._calls = calls
        self._yields = YieldChecker(findings, calls)

    def check_declaration(self, signature: Signature, body: ast.Body | None, catch: ast.CatchClause | None) -> None:
        """Check the blocks of a declaration and its catch, which does not see their steps."""
        self._check_clauses(body, signature, None, None)
        if catch is not None:
            scope = Scope(declaration=signature, is_catch=True)
            scope.unseen_names = frozenset(name for clause in ast.clauses(body) for name in _step_names(clause))
            scope.unseen_hint = "the catch of a declaration sees no steps of its blocks; give the step one of its own"
            self._check_catch(catch, scope)

    # -- blocks -------------------------------------------------------------------------------------------------------

    def _check_clauses(
        self, body: ast.Body | None, declaration: Signature, outer: Scope | None, owner: Step | None
    ) -> None:
        clauses = ast.clauses(body)
        if not clauses:
            return
        siblings = hidden = frozenset[str]()
        if len(clauses) > 1:
            siblings = frozenset(name for clause in clauses for name in _step_names(clause))
            hidden = frozenset(name for clause in clauses if not _is_plain(clause) for name in _step_names(clause))
        # A `when` sees the steps of the plain blocks before it only among the blocks of a declaration.
        above = outer
        if owner is None and any(clause.when is not None for clause in clauses):
            above = Scope(declaration=declaration, sibling_names=hidden, unseen_names=siblings - hidden)
            above.unseen_hint = "a when sees the steps of the blocks above it only; move that block up"
        for clause in clauses:
            scope = Scope(declaration=declaration, outer=outer, owner=owner, sibling_names=siblings)
            if clause.script is not None:
                check_script(clause.script, self._findings)
            elif clause.when is not None:
                scope.outer = above
                scope.sibling_names = hidden if owner is None else siblings
                self._check_when(clause.when, scope)
            else:
                if clause.foreach is not None:
                    scope.variable = self._foreach_variable(clause.foreach, scope)
                self._check_block(clause.block, scope)
                if owner is None and above is not None and clause.foreach is None:
                    above.steps.update(scope.steps)

    def _foreach_variable(self, clause: ast.ForeachClause, scope: Scope) -> Variable:
        """Check the source, which does not see the clause's variable and steps, and type the variable."""
        source = self._expressions.check(clause.iterable, scope)
        place = clause.location
        if source is None:
            return Variable(clause.variable, None, place)
        if source.name in SCALAR_TYPES or source.name == "step":
            self._report("FOREACH_NOT_ITERABLE", clause.iterable.location, found=source)
            return Variable(clause.variable, None, place)
        # A foreach over a map, or over a schema's value, goes over its keys.
        return Variable(clause.variable, source.element if source.name == "Array" else STRING, place)

    def _check_when(self, when: ast.WhenBlock, scope: Scope) -> None:
        """Check the cases of a `when` whose conditions are evaluated in the given scope."""
        if self._observer is not None:
            self._observer(when, scope)
        defaults = [number for number, case in enumerate(when.cases) if case.condition is None]
        place = name_place(when.location, "when")
        if not when.cases:
            self._report("WHEN_NO_CASES", place)
        elif not defaults:
            self._report("WHEN_MISSING_DEFAULT", place)
        elif len(defaults) == 1 and defaults[0] != len(when.cases) - 1:
            self._report("WHEN_DEFAULT_NOT_LAST", _case_place(when.cases[defaults[0]]))
        for number in defaults[1:]:
            self._report("WHEN_MULTIPLE_DEFAULTS", _case_place(when.cases[number]))
        names = frozenset(name for case in when.cases for name in _names(case.block))
        for case in when.cases:
            if case.condition is not None:
                self._expressions.check_boolean(case.condition, scope, "WHEN_CONDITION_NOT_BOOLEAN")
            self._check_block(case.block, Scope(declaration=scope.declaration, outer=scope, sibling_names=names))

    def _check_catch(self, catch: ast.CatchClause, scope: Scope) -> None:
        if catch.when is not None:
            self._check_when(catch.when, scope)
        else:
            self._check_block(catch.block, scope)

    def _check_block(self, block: ast.Block, scope: Scope) -> None:
        if self._observer is not None:
            self._observer(block, scope)
        scope.own_steps = [step for step in block.steps if isinstance(step, ast.StepStmt)]
        for step in scope.own_steps:
            if step.name in scope.own_names:
                first = scope.own_names[step.name]
                place = name_place(step.location, step.name)
                self._report("DUPLICATE_STEP_NAME", place, name=step.name, line=first.line if first else 0)
            else:
                scope.own_names[step.name] = step.location
        for statement in block.steps:
            if isinstance(statement, ast.StepStmt):
                self._check_step(statement, scope)
            elif isinstance(statement, ast.SysAssertStmt):
                self._expressions.check_boolean(statement.condition, scope, "SYS_ASSERT_NOT_BOOLEAN")
            else:
                self._check_log(statement, scope)
        self._yields.check(block.yield_stmts, scope)

    # -- statements ---------------------------------------------------------------------------------------------------

    def _check_step(self, node: ast.StepStmt, scope: Scope) -> None:
        callee = self._symbols.callee(scope.declaration.part, node.call)
        self._check_shadowing(node, scope)
        mixins = self._symbols.mixins(scope.declaration.part, node.call.mixins) if node.call.mixins else []
        self._calls.check(node.call, callee, mixins, scope)
        step = Step(node.name, node.call.name, callee, node.location)
        if mixins:
            step = step._replace(extras=dict(mixin_extras(mixins, None if callee is None else callee.params)))
        if node.body is not None:
            if callee is not None and callee.is_schema:
                place = name_place(ast.clauses(node.body)[0].location, "andThen")
                self._report("SCHEMA_INSTANTIATION_NO_BODY", place, name=callee.name)
            self._check_clauses(node.body, scope.declaration, scope, step)
        if node.catch is not None:
            failed = step._replace(is_failed=True)
            self._check_catch(node.catch, Scope(declaration=scope.declaration, outer=scope, owner=failed))
        if node.name in scope.steps:
            # It is unknown which of the two a reference means, so its attributes are not checked.
            step = step._replace(callee=None)
        scope.steps[node.name] = step

    def _check_shadowing(self, node: ast.StepStmt, scope: Scope) -> None:
        if (scope.outer is None and scope.owner is None) or node.name in scope.steps:
            return
        hidden = scope.step(node.name)
        if hidden is not None:
            line = hidden.place.line if hidden.place else 0
            self._report("SHADOWED_STEP_NAME", name_place(node.location, node.name), name=node.name, line=line)

    def _check_log(self, node: ast.SysLogStmt, scope: Scope) -> None:
        given: set[str] = set()
        for arg in node.args:
            if arg.name in given:
                self._report("ARG_DUPLICATE", name_place(arg.location, arg.name), name=arg.name)
            given.add(arg.name)
            self._expressions.check(arg.value, scope)


def _is_plain(clause: ast.AndThenBlock) -> bool:
    return clause.foreach is None and clause.when is None


def _step_names(clause: ast.AndThenBlock) -> Iterator[str]:
    """Return the names of the steps of a clause, those of all its cases included."""
    if clause.when is None:
        yield from _names(clause.block)
    else:
        for case in clause.when.cases:
            yield from _names(case.block)


def _names(block: ast.Block) -> Iterable[str]:
    return (step.name for step in block.steps if isinstance(step, ast.StepStmt))


def _case_place(case: ast.WhenCase) -> ast.SourceLocation | None:
    """Return the place of the words `case _`, or of the first word if a line end is between them."""
    return name_place(case.location, "case")
