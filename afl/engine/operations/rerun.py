"""Re-run: a step, and everything that depends on it, as a new generation.

Complete steps are not changed. A step that starts from nothing becomes a row of the new generation in state Created,
and the engine makes the step when its turn comes; blocks begin at once, because no other code would make them again.
Enclosing steps continue: a complete one as a row of the new generation with the remaining steps inside it, any other in
its own row. Steps that do not depend on any of this keep their rows, whether they are complete or wait for answers.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress

from afl.core.ids import continued, id_of_place, made_again
from afl.engine.errors import EvaluationError, ReferenceError
from afl.engine.execution.captures import is_kept
from afl.engine.model.plan import FacetPlan
from afl.engine.model.records import Frame, StepRecord, awaited_frame
from afl.engine.model.step_rows import ErrorRecord, StepDocument
from afl.engine.operations.retry import open_those_that_waited
from afl.engine.operations.run_rows import RunRows, asking_again, is_catch, start_of, waits_for
from afl.engine.planning.binding import bind_arguments, bind_inputs, bind_mixin
from afl.engine.states import EventState, StepState
from afl.engine.types import ObjectType, Value

#: The error type of a step that was run again before it had ended.
SUPERSEDED = "Superseded"

#: The states in which a step waits for the steps inside it, the earliest first: it goes back to the first one that any
#: of them needs. A step whose blocks run again runs its catch again only when they fail again.
_STAGES = (
    StepState.MIXIN_BLOCKS_CONTINUE,
    StepState.STATEMENT_BLOCKS_CONTINUE,
    StepState.CATCH_CONTINUE,
    StepState.BLOCK_EXECUTION_CONTINUE,
)


def rerun(rows: RunRows, step_id: str) -> list[str]:
    """Run a step again, and all that depends on it; return the ids of the rows that start from nothing."""
    work = _Rerun(rows)
    step = rows.documents[step_id]
    while step.object_type == ObjectType.FACET:
        # A mixin belongs to its step: that step is run again.
        step = _around(rows, step)
    if step.object_type == ObjectType.WORKFLOW:
        return reset(rows)
    if step.object_type == ObjectType.YIELD_ASSIGNMENT and _has_script(rows, _around(rows, step)):
        step = _around(rows, step)
    if ObjectType.is_block(step.object_type):
        work.redo_block(step)
    else:
        work.redo_statement(step)
    work.spread()
    made = work.write()
    # Steps that failed because they waited for a step that now runs again.
    open_those_that_waited(rows, set(rows.gone))
    return made


def reset(rows: RunRows) -> list[str]:
    """Run the workflow again from its start; return the id of its new root."""
    root, plan = rows.root, rows.execution.plan
    fresh = root._replace(
        id=made_again(root.id, rows.row.execution + 1),
        state=start_of(root.object_type),
        params=bind_inputs(plan.facet, rows.row.inputs),
        returns={},
        error=None,
    )
    _close(rows, root, fresh.id)
    for document in rows.all_inside(root.id):
        _close(rows, document, fresh.id)
    rows.gone.update(rows.documents)
    rows.change(fresh)
    return [fresh.id]


def _close(rows: RunRows, document: StepDocument, by: str) -> None:
    """Return the end of an unfinished step that is run again: it cannot be answered any more."""
    if document.state in (StepState.STATEMENT_COMPLETE, StepState.STATEMENT_ERROR, StepState.CREATED):
        return
    event_state = document.event_state
    if document.state == StepState.EVENT_TRANSMIT and event_state:
        if event_state != EventState.CANCELED:
            rows.withdrawn.append((document.id, document.attempt))
        event_state = EventState.CANCELED
    error = ErrorRecord(SUPERSEDED, f"run again as part of {by}", document.id, rows.step_path(document))
    ended = document._replace(state=StepState.STATEMENT_ERROR, event_state=event_state, error=error)
    rows.change(ended._replace(deadline_ms=None, retry=None))


def _around(rows: RunRows, document: StepDocument) -> StepDocument:
    outer = rows.around(document)
    assert outer is not None, "only the root has no enclosing step"
    return outer


def _has_script(rows: RunRows, block: StepDocument) -> bool:
    plan = rows.record_of(block).plan
    return plan is not None and plan.script is not None


class _Rerun:
    """A search for the effects of a re-run, and the rows that record them."""

    def __init__(self, rows: RunRows) -> None:
        self._rows = rows
        #: Steps that start from nothing: statements and yields when their turn comes, blocks at once.
        self._again: dict[str, StepDocument] = {}
        #: Steps that continue, by id, with the state that they go back to.
        self._around: dict[str, str] = {}
        #: Steps whose attributes may change.
        self._new_steps: list[StepDocument] = []
        self._readers = _readers_of(rows)

    # --- what is affected ------------------------------------------------------------------------------------------

    def redo_statement(self, step: StepDocument) -> None:
        if step.id not in self._again:
            self._again[step.id] = step
            if step.object_type != ObjectType.YIELD_ASSIGNMENT:
                self._new_steps.append(step)
            self._continue_around(step)

    def redo_block(self, block: StepDocument) -> None:
        if block.id not in self._again:
            self._again[block.id] = block
            self._continue_around(block)

    def spread(self) -> None:
        """Find all readers of the changed steps, repeatedly."""
        while self._new_steps:
            step = self._new_steps.pop()
            for reader in self._readers.get(step.id, ()):
                if ObjectType.is_block(reader.object_type):
                    self.redo_block(reader)
                else:
                    self.redo_statement(reader)

    def _continue_around(self, step: StepDocument) -> None:
        """Make the enclosing step wait again: its yields are created again, and its result may change."""
        rows = self._rows
        part, outer = step, rows.around(step)
        while outer is not None:
            state = waits_for(outer, part)
            before = self._around.get(outer.id)
            if before is not None and _STAGES.index(before) <= _STAGES.index(state):
                return
            self._around[outer.id] = state
            if ObjectType.is_block(outer.object_type):
                for each in rows.inside(outer.id):
                    if each.object_type == ObjectType.YIELD_ASSIGNMENT:
                        self._again.setdefault(each.id, each)
            elif outer.object_type != ObjectType.FACET and outer.container_id is not None:
                self._new_steps.append(outer)
            part, outer = outer, rows.around(outer)

    # --- writing it down --------------------------------------------------------------------------------------------

    def write(self) -> list[str]:
        rows, generation = self._rows, self._rows.row.execution + 1
        made: list[str] = []
        gone = {inner.id for again in self._again for inner in rows.all_inside(again)}
        rows.gone |= gone | self._again.keys()
        for step_id, step in self._again.items():
            if step_id in gone:
                continue
            new_id = made_again(step_id, generation)
            made.append(new_id)
            self._end(step, new_id)
            if ObjectType.is_block(step.object_type):
                rows.change(_restarted(step, new_id, start_of(step.object_type)))
            else:
                rows.change(_restarted(step, new_id, StepState.CREATED))
        for step_id, state in self._around.items():
            if step_id not in gone and step_id not in self._again:
                self._continue(rows.documents[step_id], state, generation)
        return made

    def _end(self, step: StepDocument, new_id: str) -> None:
        _close(self._rows, step, new_id)
        for document in self._rows.all_inside(step.id):
            _close(self._rows, document, new_id)

    def _continue(self, step: StepDocument, state: str, generation: int) -> None:
        rows = self._rows
        if step.state == StepState.BLOCK_EXECUTION_BEGIN:
            return  # A foreach that is still making its elements.
        changed = step._replace(state=state, error=rows.caught_for(step) if state == StepState.CATCH_CONTINUE else None)
        if not ObjectType.is_block(step.object_type):
            if state == StepState.MIXIN_BLOCKS_CONTINUE or step.state == StepState.STATEMENT_COMPLETE:
                changed = self._before(changed, state)
            for part in rows.inside(step.id):
                if ObjectType.is_block(part.object_type) and _comes_after(part, state) and part.id not in self._again:
                    new_id = made_again(part.id, generation)
                    self._end(part, new_id)
                    rows.gone |= {part.id, *(inner.id for inner in rows.all_inside(part.id))}
                    rows.change(_restarted(part, new_id, StepState.CREATED))
        if step.state == StepState.STATEMENT_COMPLETE:
            changed = changed._replace(id=continued(step.id, generation))
        rows.change(changed)

    def _before(self, step: StepDocument, state: str) -> StepDocument:
        """Return a call as it was when it waited there: its captures are repeated."""
        rows = self._rows
        facet = rows.facet_of(step)
        if state != StepState.MIXIN_BLOCKS_CONTINUE:
            step = self._without_captures(step)
            return step._replace(returns=_without_defaults(facet, step.params, step.returns))
        params = dict(step.params)
        given = self._given(step)
        for mixin in facet.mixins if facet is not None else ():
            params.pop(mixin.alias, None)
            if mixin.alias in given:
                params[mixin.alias] = given[mixin.alias]
        again = step._replace(params=params, returns=rows.returns_before_event(step))
        if facet is None or not facet.is_event:
            return again
        if step.event_state and not EventState.is_terminal(step.event_state):
            rows.withdrawn.append((step.id, step.attempt))
        return asking_again(again)

    def _without_captures(self, step: StepDocument) -> StepDocument:
        """Return a call without the values that yields have given to it and to its mixins."""
        rows, returns = self._rows, dict(step.returns)
        scripted = rows.returns_before_event(step)
        to_mixins: dict[str, list[str]] = defaultdict(list)
        for inner in rows.all_inside(step.id):
            if inner.object_type != ObjectType.YIELD_ASSIGNMENT or _target_of(rows, inner) != id_of_place(step.id):
                continue
            yielded = rows.record_of(inner)
            if not is_kept(yielded):
                continue
            alias = yielded.statement.yield_alias if yielded.statement is not None else None
            if alias is not None:
                to_mixins[alias] += inner.params
                continue
            for name in inner.params:
                returns.pop(name, None)
                if name in scripted:
                    returns[name] = scripted[name]
        params = {**step.params, **{alias: self._before_yields(step, alias, to_mixins[alias]) for alias in to_mixins}}
        return step._replace(params=params, returns=returns)

    def _before_yields(self, step: StepDocument, alias: str, names: list[str]) -> Value:
        """Return the value of a mixin's alias before values of these names were yielded to it."""
        before, now = self._mixin_attribute(step, alias), step.params.get(alias)
        kept = {name: value for name, value in now.items() if name not in names} if isinstance(now, dict) else {}
        return {**kept, **{name: before[name] for name in names if name in before}}

    def _mixin_attribute(self, step: StepDocument, alias: str) -> dict[str, Value]:
        """Return the value of a mixin's alias when its step had ended."""
        mixin = next(
            (m for m in self._rows.inside(step.id) if m.object_type == ObjectType.FACET and _alias_of(m) == alias), None
        )
        given = self._given(step).get(alias)
        own: dict[str, Value] = {} if mixin is None else {**mixin.params, **mixin.returns}
        return {**own, **(given if isinstance(given, dict) else {})}

    def _given(self, step: StepDocument) -> dict[str, Value]:
        """Return the values that the call itself gave: bound again, from unchanged inputs."""
        rows = self._rows
        record = rows.record_of(step)
        if record.statement is not None:
            assert record.block is not None
            assert record.block.frame is not None
            return dict(bind_arguments(record.statement, record.block.frame)[0])
        if record.mixin is not None:
            assert record.container is not None
            return bind_mixin(record.mixin, record.container.params, rows.execution)
        return dict(rows.row.inputs)


def _alias_of(mixin: StepDocument) -> str:
    return (mixin.statement_id or "").removeprefix("mixin-")


def _comes_after(part: StepDocument, state: str) -> bool:
    """Return whether a block of a step is created only after this state, and so is created again."""
    return state == StepState.MIXIN_BLOCKS_CONTINUE or (state == StepState.STATEMENT_BLOCKS_CONTINUE and is_catch(part))


def _restarted(step: StepDocument, new_id: str, state: str) -> StepDocument:
    nothing: dict[str, Value] = {}
    params = step.params if is_catch(step) else nothing
    return asking_again(step)._replace(id=new_id, state=state, params=params, returns=nothing, error=None)


def _target_of(rows: RunRows, yielded: StepDocument) -> str | None:
    """Return the place of the step that takes the values of a yield."""
    record = rows.record_of(yielded)
    assert record.statement is not None
    assert record.block is not None
    frame = record.block.frame
    if record.statement.yield_depth is None:
        return None
    for _ in range(record.statement.yield_depth):
        assert frame is not None
        frame = frame.parent
    assert frame is not None
    return id_of_place(frame.owner.id)


def _without_defaults(
    facet: FacetPlan | None, params: Mapping[str, Value], returns: Mapping[str, Value]
) -> dict[str, Value]:
    """Return the returns without those equal to return defaults: these are computed again."""
    kept = dict(returns)
    for name, default in facet.return_defaults if facet is not None else ():
        with suppress(EvaluationError, ReferenceError):
            if name in kept and kept[name] == default(params):
                del kept[name]
    return kept


def _readers_of(rows: RunRows) -> dict[str, list[StepDocument]]:
    """Return the steps that wait for each step: statements and yields that read it, and blocks that go by it."""
    readers: dict[str, list[StepDocument]] = defaultdict(list)
    for block in rows.execution.steps.values():
        if block.plan is not None and block.frame is not None:
            _add_readers(rows, block, block.frame, readers)
    return readers


def _add_readers(rows: RunRows, block: StepRecord, frame: Frame, readers: dict[str, list[StepDocument]]) -> None:
    plan, documents = block.plan, rows.documents
    assert plan is not None
    whole = documents[block.id]
    if block.block is None:
        for wait in plan.source_waits:
            outer = awaited_frame(frame, wait).at(wait.index)
            if outer is not None:
                readers[outer.id].append(whole)
        if plan.splits:
            return
    for statement in plan.statements:
        step = frame.at(statement.index)
        if step is None:
            continue
        for index in statement.waits:
            inner = frame.at(index)
            if inner is not None:
                readers[inner.id].append(documents[step.id])
        for wait in statement.outer_waits:
            outer = awaited_frame(frame, wait).at(wait.index)
            if outer is not None:
                readers[outer.id].append(documents[step.id])
    yields = [each for each in rows.inside(block.id) if each.object_type == ObjectType.YIELD_ASSIGNMENT]
    for wait in plan.yield_waits:
        outer = awaited_frame(frame, wait).at(wait.index)
        if outer is not None:
            readers[outer.id] += yields
