"""The meaning of `$.x` and `s.x` at a place in a program, compiled to reads of a running frame.

Which steps a reference sees, and what `$` is at every depth, are static (language reference, 4.5 and 6.3): the scope is
walked here once, and the run only reads a dictionary.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple, TypeVar

from afl.compiled.program import ProgramError
from afl.engine.errors import ReferenceError
from afl.engine.expressions.expression import walk_members
from afl.engine.model.plan import Default, Expression, FacetPlan, OuterWait, StatementPlan
from afl.engine.model.records import Frame, StepRecord, sibling_frame
from afl.engine.model.step_rows import BoundStep, LateStep, StillUnread
from afl.engine.model.step_values import lookup_of, reference_to, walk_through_steps
from afl.engine.types import Value

_F = TypeVar("_F")

#: Attributes of a failure that a catch may read: of `$` in a declaration's, of the step itself in a statement's.
_FAILURE = ("error", "error_type")


class YieldTarget(NamedTuple):
    """The receiver of a yield's values: the step that many blocks out, or one of its mixins, by its alias if any."""

    depth: int
    alias: str | None = None
    is_mixin: bool = False


class BlockContext:
    """A block that is being planned: the scope of its expressions."""

    def __init__(self, parent: BlockContext | None, facet: FacetPlan, statement: StatementPlan | None) -> None:
        #: The block around `statement`, when this is a statement's own body.
        self.parent = parent
        #: The declaration that is being executed.
        self.facet = facet
        self.statement = statement
        self.variable: str | None = None
        self.names: dict[str, StatementPlan] = {}
        #: Whether this is a catch of the statement or declaration, or a case of one.
        self.is_catch = False
        #: For a `when` of a declaration and its cases: the earlier plain blocks, each by index with its names.
        self.earlier: tuple[tuple[int, Mapping[str, StatementPlan]], ...] = ()

    def case(self) -> BlockContext:
        """Return the scope of a case, when this is the scope of its `when`."""
        context = BlockContext(self.parent, self.facet, self.statement)
        context.is_catch, context.earlier = self.is_catch, self.earlier
        return context

    def yield_target(self, target: str) -> YieldTarget | None:
        """Return the innermost step that a yield addresses by its own name or by a mixin of its signature, if any."""
        depth = 0
        context = self
        while True:
            callee = context.facet if context.statement is None else context.statement.callee
            if callee is not None and target in (callee.name, callee.short_name):
                return YieldTarget(depth)
            if callee is not None and target in callee.yield_targets:
                return YieldTarget(depth, callee.yield_targets[target], is_mixin=True)
            if context.statement is None or context.parent is None:
                return None
            context, depth = context.parent, depth + 1


class StatementReferences:
    """References of one statement, yield or foreach source; notes the steps they wait for."""

    def __init__(self, context: BlockContext, where: str, own_index: int | None = None) -> None:
        self._context = context
        self._where = where
        self._own_index = own_index
        self._local: dict[int, None] = {}
        self._outer: dict[tuple[int, int, int | None], None] = {}

    def local_waits(self) -> tuple[int, ...]:
        return tuple(self._local)

    def outer_waits(self) -> tuple[OuterWait, ...]:
        return tuple(OuterWait(depth, index, sibling) for depth, index, sibling in self._outer)

    def input_reference(self, path: tuple[str, ...]) -> Expression:
        if not path:
            raise ProgramError(f"{self._where}: empty input reference")
        return self._with_members(_input_reader(self._context, path[0]), path, f"$.{'.'.join(path)}")

    def _with_members(self, read: Expression, path: Sequence[str], text: str) -> Expression:
        parts = tuple(path[1:])
        if not (parts and self._context.facet.reads_steps):
            return _with_members(read, path, text)
        return lambda frame: walk_through_steps(read(frame), parts, text, frame.lookup)

    def step_reference(self, path: tuple[str, ...]) -> Expression:
        if not path:
            raise ProgramError(f"{self._where}: empty step reference")
        text = ".".join(path)
        found = self._find_step(path[0])
        if found is None:
            variable = _variable_reader(self._context, path[0])
            if variable is None:
                raise ProgramError(f"{self._where}: {text}: no step {path[0]} is visible here")
            return self._with_members(variable, path, text)
        if len(path) < 2:
            return _step_value(found)
        return self._with_members(found.attribute(path[1], text), path[1:], text)

    def _find_step(self, name: str) -> _Found | None:
        """Return the step called `name`, of this block, around it, or further out."""
        context, depth = self._context, 0
        inner: StatementPlan | None = None
        catches = False
        while True:
            statement = context.names.get(name)
            if statement is not None:
                index = statement.index
                if depth == 0:
                    if index == self._own_index:
                        raise ProgramError(f"{self._where}: step {name} cannot refer to itself")
                    self._local[index] = None
                    return _Found(statement, partial(_step_at, 0, index), partial(_local_attribute, index))
                if inner is not None and inner.index == index:
                    # The step whose body this is: its event's result is in, and it need not be complete.
                    read = _failed_attribute if catches else _owner_attribute
                    return _Found(statement, partial(_owner_at, depth - 1), partial(read, depth - 1))
                self._outer[(depth, index, None)] = None
                return _Found(statement, partial(_step_at, depth, index), partial(_outer_attribute, depth, index))
            if context.statement is None or context.parent is None:
                return self._find_in_siblings(context, depth, name)
            inner, catches = context.statement, context.is_catch
            context, depth = context.parent, depth + 1

    def _find_in_siblings(self, context: BlockContext, depth: int, name: str) -> _Found | None:
        """Find the step among those of earlier blocks: the closest one wins where several have the name."""
        for sibling, names in reversed(context.earlier):
            statement = names.get(name)
            if statement is not None:
                self._outer[(depth, statement.index, sibling)] = None
                at = (depth, sibling, statement.index)
                return _Found(statement, partial(_sibling_at, *at), partial(_sibling_attribute, *at))
        return None


class _Found(NamedTuple):
    """A step that a reference names: makes readers of the whole step, and readers of its attributes."""

    statement: StatementPlan
    step: Callable[[], Callable[[Frame], StepRecord | BoundStep | LateStep]]
    attribute: Callable[[str, str], Expression]


class CalleeReferences:
    """References of a declaration's defaults: parameters of the same declaration, in the callee's own scope."""

    def __init__(self, facet: str, *, reads_steps: bool = False) -> None:
        self._facet = facet
        self._reads_steps = reads_steps

    def input_reference(self, path: tuple[str, ...]) -> Default:
        if not path:
            raise ProgramError(f"{self._facet}: empty input reference")
        read, text, parts = _bound(path[0]), f"$.{'.'.join(path)}", path[1:]
        if not (parts and self._reads_steps):
            return _with_members(read, path, text)
        return lambda params: walk_through_steps(read(params), parts, text, lookup_of(params))

    def step_reference(self, path: tuple[str, ...]) -> Default:
        raise ProgramError(f"{self._facet}: a default cannot use the step {path[0]}")


def _bound(name: str) -> Default:
    def read(params: Mapping[str, Value]) -> Value:
        try:
            return params[name]
        except KeyError:
            raise _missing_input(name) from None

    return read


def _with_members(read: Callable[[_F], Value], path: Sequence[str], text: str) -> Callable[[_F], Value]:
    parts = tuple(path[1:])
    if not parts:
        return read
    return lambda frame: walk_members(read(frame), parts, text)


def _input_reader(context: BlockContext, name: str) -> Expression:
    """Return the readers of `$`, inside out: loop variables, attributes of enclosing steps, parameters."""
    depth = 0
    around: list[int] = []
    while True:
        if context.variable == name:
            return _after_attributes(around, name, _loop_value(depth))
        if context.statement is None or context.parent is None:
            fails = context.is_catch and name in _FAILURE
            return _after_attributes(around, name, _failure(depth, name) if fails else _parameter(depth, name))
        around.append(depth)
        context, depth = context.parent, depth + 1


def _variable_reader(context: BlockContext, name: str) -> Expression | None:
    depth = 0
    while True:
        if context.variable == name:
            return _loop_value(depth)
        if context.statement is None or context.parent is None:
            return None
        context, depth = context.parent, depth + 1


def _frame_at(frame: Frame, depth: int) -> Frame:
    while depth:
        assert frame.parent is not None
        frame, depth = frame.parent, depth - 1
    return frame


def _loop_value(depth: int) -> Expression:
    if depth == 0:
        return lambda frame: frame.value
    return lambda frame: _frame_at(frame, depth).value


def _parameter(depth: int, name: str) -> Expression:
    def here(frame: Frame) -> Value:
        try:
            return frame.owner.params[name]
        except KeyError:
            raise _missing_input(name) from None

    def outside(frame: Frame) -> Value:
        return here(_frame_at(frame, depth))

    return outside if depth else here


def _after_attributes(around: list[int], name: str, outermost: Expression) -> Expression:
    """Read attributes of the steps whose bodies surround this place, innermost first, returns over params."""
    if not around:
        return outermost
    depths = tuple(around)

    def read(frame: Frame) -> Value:
        for depth in depths:
            owner = _frame_at(frame, depth).owner
            if name in owner.returns:
                return owner.returns[name]
            if name in owner.params:
                return owner.params[name]
        return outermost(frame)

    return read


def _attribute(step: StepRecord | BoundStep | LateStep, attribute: str, text: str) -> Value:
    if attribute in step.returns:
        return step.returns[attribute]
    try:
        return step.params[attribute]
    except KeyError:
        known = ", ".join(dict.fromkeys([*step.returns, *step.params])) or "nothing"
        raise ReferenceError(reference=text, message=f"attribute {attribute} not found, the step has {known}") from None


def _local_attribute(index: int, attribute: str, text: str) -> Expression:
    def read(frame: Frame) -> Value:
        step: StepRecord | BoundStep | LateStep = frame.env[index]  # type: ignore[assignment]  # complete, or not asked for
        try:
            returns = step.returns
        except StillUnread:
            step = frame.at(index)  # type: ignore[assignment]  # as above
            returns = step.returns
        if attribute in returns:
            return returns[attribute]
        params = step.params
        if attribute in params:
            return params[attribute]
        return _attribute(step, attribute, text)

    return read


def _step_value(found: _Found) -> Expression:
    """Return the step itself as a value: its stand-in, or the object that a schema step has made."""
    statement, step = found.statement, found.step()
    if statement.callee is not None and statement.callee.is_schema:
        return lambda frame: step(frame).returns  # type: ignore[return-value]  # attributes are made as dicts
    statement.is_value = True
    return lambda frame: reference_to(step(frame), statement.facet_name)


def _step_at(depth: int, index: int) -> Callable[[Frame], StepRecord | BoundStep | LateStep]:
    def find(frame: Frame) -> StepRecord | BoundStep | LateStep:
        step = _frame_at(frame, depth).at(index)
        assert step is not None
        return step

    return find


def _owner_at(depth: int) -> Callable[[Frame], StepRecord]:
    return lambda frame: _frame_at(frame, depth).owner


def _sibling_at(depth: int, sibling: int, index: int) -> Callable[[Frame], StepRecord | BoundStep | LateStep]:
    def find(frame: Frame) -> StepRecord | BoundStep | LateStep:
        step = sibling_frame(_frame_at(frame, depth), sibling).at(index)
        assert step is not None
        return step

    return find


def _outer_attribute(depth: int, index: int, attribute: str, text: str) -> Expression:
    def read(frame: Frame) -> Value:
        step = _frame_at(frame, depth).at(index)
        assert step is not None
        return _attribute(step, attribute, text)

    return read


def _owner_attribute(depth: int, attribute: str, text: str) -> Expression:
    return lambda frame: _attribute(_frame_at(frame, depth).owner, attribute, text)


def _failed_attribute(depth: int, attribute: str, text: str) -> Expression:
    """Return an attribute of the step that a catch is for: of its failure, or else its own."""
    return _failure(depth, attribute) if attribute in _FAILURE else _owner_attribute(depth, attribute, text)


def _failure(depth: int, attribute: str) -> Expression:
    def read(frame: Frame) -> Value:
        caught = _frame_at(frame, depth).owner.caught
        assert caught is not None  # a catch runs for a failure
        return caught.message if attribute == "error" else caught.type

    return read


def _sibling_attribute(depth: int, sibling: int, index: int, attribute: str, text: str) -> Expression:
    find = _sibling_at(depth, sibling, index)
    return lambda frame: _attribute(find(frame), attribute, text)


def _missing_input(name: str) -> ReferenceError:
    return ReferenceError(reference=f"$.{name}", message=f"input {name} not found")
