"""What keeps a run from another version of its program, by name: the run's steps and values beside the new version.

What the run has done stays as it is. So the new version must have all of it, take the values that were set, and want
nothing more where it is too late.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Final, NamedTuple

from afl.core.types import type_name
from afl.core.values import Refused
from afl.engine.model.plan import BlockPlan, FacetPlan, MixinPlan, StatementPlan, WorkflowPlan
from afl.engine.model.store import StepDocument, WorkflowRow
from afl.engine.operations.run_rows import is_catch
from afl.engine.operations.version_parts import (
    PROGRESS,
    Part,
    Place,
    calling,
    facet_of,
    places_of,
    shown_name,
    statements_of,
)
from afl.engine.planning.value_checks import misfit
from afl.engine.states import EventState, StepState
from afl.engine.types import Value

_BOUND: Final = PROGRESS[StepState.FACET_INIT_END]
_WITH_MIXINS: Final = PROGRESS[StepState.MIXIN_BLOCKS_CONTINUE]
_WITH_BLOCKS: Final = PROGRESS[StepState.STATEMENT_BLOCKS_CONTINUE]
_ANSWERED: Final = PROGRESS[StepState.STATEMENT_BLOCKS_BEGIN]


class Misfit(NamedTuple):
    """A part of a run that another version of its program does not take: its path, and why."""

    path: str
    reason: str

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


def misfits_of(
    was: WorkflowPlan, now: WorkflowPlan, row: WorkflowRow, documents: Sequence[StepDocument]
) -> list[Misfit]:
    """Return all that keeps the run of these rows from continuing by the plan `now`, in the order of its steps."""
    return list(_Comparison(was, now).of(row, documents))


class _Comparison:
    """Compares the rows of one run with a new version of its program."""

    def __init__(self, was: WorkflowPlan, now: WorkflowPlan) -> None:
        self._was, self._now = was, now
        self._facets = {facet.name: facet for facet in now.facets}

    def of(self, row: WorkflowRow, documents: Sequence[StepDocument]) -> Iterator[Misfit]:
        yield from self._inputs(row)
        gone: set[str] = set()
        for place in places_of(self._was, self._now, row, documents):
            if place.around is not None and place.around.document.id in gone:
                # Of all that is gone with something around it, only that is named.
                gone.add(place.document.id)
            elif place.now is None:
                gone.add(place.document.id)
                yield Misfit(place.path, self._missing(place))
            elif isinstance(place.was, BlockPlan):
                assert isinstance(place.now, BlockPlan)
                kinds = [_kind_of(plan) for plan in (place.was, place.now)]
                if kinds[0] != kinds[1]:
                    gone.add(place.document.id)
                    yield Misfit(place.path, f"{_numbered(place.was)}: it is {kinds[1]} in the new version")
                else:
                    yield from _of_block(place, place.was, place.now)
            else:
                yield from self._of_call(place)

    def _missing(self, place: Place) -> str:
        was = place.was
        if isinstance(was, BlockPlan):
            return f"the new version has no {_numbered(was)} there"
        if isinstance(was, MixinPlan):
            return f"the new version has no mixin {was.alias} there"
        assert isinstance(was, StatementPlan)
        if was.is_yield:
            return "the new version does not have this yield"
        around = place.around
        assert around is not None
        assert isinstance(around.was, BlockPlan)
        assert isinstance(around.now, BlockPlan)
        before = {statement.key for statement in around.was.statements}
        new = [s.name for s in around.now.statements if s.key not in before and s.facet_name == was.facet_name]
        renamed = f"; its new step {new[0]} calls {was.facet_name} too: was it renamed?" if len(new) == 1 else ""
        return f"the new version has no step {was.name} there{renamed}"

    # --- inputs and values --------------------------------------------------------------------------------------

    def _inputs(self, row: WorkflowRow) -> Iterator[Misfit]:
        now = self._now.facet
        for name, value in row.inputs.items():
            path = f"{self._was.name}.{name}"
            if name not in now.param_types:
                yield Misfit(path, "the run has this input, and the new version does not take it")
            elif (refused := misfit(value, now.param_types[name], self._now.schemas)) is not None:
                yield Misfit(path, _unlike(now.param_types[name], refused))
        defaults = {name for name, _ in now.parameter_defaults}
        for name, declared in now.param_types.items():
            if name not in row.inputs and name not in defaults:
                why = f"the new version needs this input ({type_name(declared)}), and the run was started without it"
                yield Misfit(f"{self._was.name}.{name}", why)

    def _values(self, path: str, values: Mapping[str, Value], declared: Mapping[str, object]) -> Iterator[Misfit]:
        """Return which values are not of the types that the new version declares; it cannot read any others."""
        for name, value in values.items():
            if name in declared and (refused := misfit(value, declared[name], self._now.schemas)) is not None:
                yield Misfit(f"{path}.{name}", _unlike(declared[name], refused))

    # --- calls --------------------------------------------------------------------------------------------------

    def _of_call(self, place: Place) -> Iterator[Misfit]:
        document, was, now = place.document, place.was, place.now
        assert now is not None
        if isinstance(now, StatementPlan) and now.object_type != document.object_type:
            kinds = f"it is a {document.object_type}, and the new version has a {now.object_type} of that name"
            yield Misfit(place.path, kinds)
            return
        if document.state == StepState.STATEMENT_ERROR:
            return  # None of its values is read, and nothing inside it runs.
        if isinstance(now, StatementPlan) and now.is_yield:
            assert isinstance(was, StatementPlan)
            yield from self._of_yield(place, was, now)
            return
        before, facet = facet_of(was), facet_of(now)
        if place.progress >= _BOUND and facet is not None:
            if facet.is_schema:
                yield from self._values(place.path, document.returns, facet.param_types)
            else:
                yield from self._values(place.path, document.params, facet.param_types)
                yield from self._values(place.path, document.returns, facet.return_types)
            yield from self._absent(place, before, facet)
        if document.state == StepState.EVENT_TRANSMIT:
            yield from self._in_flight(place, before, facet)
        if _awaits_script(document, before):
            yield Misfit(place.path, "its script is running: try again when it has ended")
        if not StepState.is_catching(document.state):
            yield from _too_late_for_parts(place, now)

    def _of_yield(self, place: Place, was: StatementPlan, now: StatementPlan) -> Iterator[Misfit]:
        if (was.facet_name, was.yield_depth, was.yield_alias) != (now.facet_name, now.yield_depth, now.yield_alias):
            yield Misfit(place.path, f"it has given its values to {was.facet_name}, and yields elsewhere now")
        target = self._facets.get(now.facet_name)
        if target is not None and now.yield_alias is None:
            yield from self._values(place.path, place.document.params, target.return_types)

    def _absent(self, place: Place, before: FacetPlan | None, facet: FacetPlan) -> Iterator[Misfit]:
        """Return what the new version declares of a call whose values are set, and what the call does not have."""
        document = place.document
        known = set() if before is None else {*before.param_types, *before.return_types}
        has_all = document.state == StepState.STATEMENT_COMPLETE
        if not has_all:
            for name in facet.param_types:
                if name not in known and name not in document.params and place.document.container_id is not None:
                    yield Misfit(place.path, f"its arguments are bound, and {name}, a new parameter, has no value")
        is_answered = has_all or (facet.is_event and place.progress >= _ANSWERED)
        if not is_answered or not isinstance(place.was, StatementPlan):
            return
        for name in (*facet.param_types, *facet.return_types) if has_all else facet.return_types:
            is_set = name in document.params or name in document.returns
            if name not in known and not is_set and self._is_read(place.was.name, name):
                yield Misfit(place.path, f"it has ended without {name}, which the new version reads")

    def _in_flight(self, place: Place, before: FacetPlan | None, facet: FacetPlan | None) -> Iterator[Misfit]:
        """Return what the answer to an event, or the end of a wait, would not find as it was when it began."""
        was, now = _shown(before, place.was), _shown(facet, place.now)
        if place.document.event_state == "":
            if _answerer(before) != _answerer(facet):
                yield Misfit(place.path, f"it is about to ask for {was}, and is no such step in the new version: {now}")
            return
        asked = "it waits" if EventState.is_of_runtime(place.document.event_state) else "its event is in flight"
        if was.partition("(")[0] != now.partition("(")[0] or _answerer(before) != _answerer(facet):
            yield Misfit(place.path, f"{asked} for {was}, and the new version calls {now}")
        elif was != now or (before is not None and not self._same_types(before)):
            yield Misfit(place.path, f"{asked}, and the signature of its facet differs: {was} before, {now} now")

    def _same_types(self, before: FacetPlan) -> bool:
        """Return whether the schemas that a facet's signature names have the same fields in both versions."""
        names = [*before.param_types.values(), *before.return_types.values()]
        return all(_spread(each, self._was, set()) == _spread(each, self._now, set()) for each in names)

    @cached_property
    def _reads(self) -> Mapping[str, set[str]]:
        return _reads_of(self._now)

    def _is_read(self, step: str, name: str) -> bool:
        """Return whether any expression of the new version may read this attribute of a step of this name."""
        return name in self._reads.get(step, ()) or self._now.facet.reads_steps


# --- blocks -----------------------------------------------------------------------------------------------------------


def _of_block(place: Place, was: BlockPlan, now: BlockPlan) -> Iterator[Misfit]:
    document = place.document
    if document.state in (StepState.CREATED, StepState.STATEMENT_ERROR):
        return
    is_whole = document.block_id is None and was.splits
    if is_whole:
        if document.state == StepState.BLOCK_EXECUTION_BEGIN and not place.inside:
            return
        if was.cases:
            texts = [[case.condition_text for case in plan.cases] for plan in (was, now)]
            if texts[0] != texts[1]:
                why = "its cases were chosen already, and their conditions differ in the new version"
                yield Misfit(place.path, f"{_numbered(was)}: {why}")
        elif was.source_text != now.source_text:
            why = f"its list was taken from {was.source_text} already, and the new version takes {now.source_text}"
            yield Misfit(place.path, f"{_numbered(was)}: {why}")
        return
    if was.script is not None and document.state == StepState.BLOCK_EXECUTION_BEGIN:
        yield Misfit(place.path, f"{_numbered(was)} is running: try again when it has ended")
        return
    if document.state == StepState.BLOCK_EXECUTION_BEGIN:
        return
    made = {part.was.key for part in place.inside if isinstance(part.was, StatementPlan)}
    has_yielded = any(isinstance(part.was, StatementPlan) and part.was.is_yield for part in place.inside)
    if not (has_yielded or document.state == StepState.STATEMENT_COMPLETE):
        return
    for statement in statements_of(now):
        if statement.key not in made:
            path = f"{place.path}.{shown_name(statement)}"
            yield Misfit(path, "it is new, and the block that it is in has come to its end already")


def _too_late_for_parts(place: Place, now: Part) -> Iterator[Misfit]:
    """Return blocks and mixins of the new version that a call would have begun by now."""
    call = calling(now)
    if call is None or any(is_catch(part.document) for part in place.inside):
        return
    begun = {part.was.name for part in place.inside if isinstance(part.was, BlockPlan | MixinPlan)}
    facet = facet_of(now)
    if place.progress >= _WITH_MIXINS and facet is not None:
        for mixin in facet.mixins:
            if mixin.name not in begun:
                yield Misfit(place.path, f"its mixins have begun, and mixin {mixin.alias} of the new version has not")
    # A call that waits for its blocks is given further ones.
    if place.progress > _WITH_BLOCKS:
        for block in call.blocks:
            if block.name not in begun:
                what = f"{_numbered(block)} of the new version has not run"
                yield Misfit(place.path, f"its andThen blocks have ended, and {what}")


def _kind_of(block: BlockPlan) -> str:
    """Return what kind of block it is, in words."""
    if block.cases:
        return "catch when" if block.is_catch else "andThen when"
    if block.is_catch:
        return "catch"
    if block.label:
        return block.label
    return "andThen foreach" if block.splits else "andThen script" if block.script is not None else "andThen block"


def _numbered(block: BlockPlan) -> str:
    """Return the kind of a block, and its number among the andThen blocks around it."""
    kind = _kind_of(block)
    return f"{kind} {block.index + 1}" if kind.startswith("andThen") else kind


def _awaits_script(document: StepDocument, facet: FacetPlan | None) -> bool:
    has_script = facet is not None and facet.pre_script is not None
    return has_script and document.state == StepState.FACET_SCRIPTS_BEGIN


def _answerer(facet: FacetPlan | None) -> object:
    """Return who answers the steps of a facet: agents (True), the runtime, or nobody."""
    return None if facet is None else facet.library or facet.is_event


def _shown(facet: FacetPlan | None, part: Part | None) -> str:
    """Return a facet's signature as AFL writes it; the name alone of one that the program does not declare."""
    if facet is None:
        return part.facet_name if isinstance(part, StatementPlan | MixinPlan) else "nothing"
    returns = f" => ({_typed(facet.return_types)})" if facet.return_types else ""
    return f"{facet.name}({_typed(facet.param_types)}){returns}"


def _typed(types: Mapping[str, object]) -> str:
    return ", ".join(f"{name}: {type_name(declared)}" for name, declared in types.items())


def _spread(declared: object, plan: WorkflowPlan, seen: set[str]) -> object:
    """Return a type with the fields of all schemas in it."""
    if isinstance(declared, Mapping):
        return [_spread(declared.get("elementType"), plan, seen)]
    if not isinstance(declared, str) or declared in seen or declared not in plan.schemas:
        return declared
    fields = plan.schemas[declared].param_types
    return declared, [(name, _spread(each, plan, {*seen, declared})) for name, each in fields.items()]


def _unlike(declared: object, refused: Refused) -> str:
    """Say that a value is not of a type: where inside it, and never what it is, which may be a secret."""
    inside = refused.path_from("")
    where = f" (at {inside})" if inside else ""
    return f"its value is set, and does not fit {type_name(declared)}, which the new version declares{where}"


def _reads_of(plan: WorkflowPlan) -> Mapping[str, set[str]]:
    """Return the attributes that expressions of a program read, by the name of the step: of any step of that name."""
    reads: dict[str, set[str]] = defaultdict(set)
    pending: list[object] = [json.loads(plan.program.text)]
    while pending:
        node = pending.pop()
        if isinstance(node, list):
            pending += node
        elif isinstance(node, dict):
            path = node.get("path")
            if node.get("type") == "StepRef" and isinstance(path, list) and len(path) > 1:
                reads[str(path[0])].add(str(path[1]))
            pending += node.values()
    return reads
