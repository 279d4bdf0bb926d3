"""Why one step waits: where its event is, who should answer it, and what has become of answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from afl.core.text.printable import printable
from afl.engine.model.plan import FacetPlan, WorkflowPlan
from afl.engine.model.store import StepDocument
from afl.engine.operations.unanswered import WaitingStep
from afl.engine.states import EventState
from afl.stores.public.persistence import EngineStore
from afl_stream.dead_letters.letters import DeadLetter
from afl_stream.group_members import GroupMember
from afl_stream.settings.config import StreamConfig
from afl_stream.visibility.waiting.broker_view import BrokerView, EventPlace, Unread, is_answer_of
from afl_stream.visibility.waiting.evaluators import pause_text, time_text
from afl_stream.visibility.waiting.report import Cause, CauseCode, Wait
from afl_stream.visibility.waiting.result_form import result_form
from afl_stream.visibility.waiting.step_places import StepPlaces, text_at

#: Steps whose events are looked for on their topics; others are listed without.
_MOST_LOOKED_UP: Final = 20
#: Rows of the outbox that are looked through.
_MOST_OUTBOX_ROWS: Final = 10_000
_MOST_CHARS: Final = 300


class StepCauses:
    """Finds the causes of the steps of one run. `unread`: what lies on its control partition, if that is known."""

    def __init__(
        self,
        config: StreamConfig,
        view: BrokerView | None,
        store: EngineStore | None,
        places: StepPlaces,
        plan: WorkflowPlan | None,
        unread: Unread | None,
    ) -> None:
        self._config = config
        self._view = view
        self._store = store
        self._places = places
        self._facets: Mapping[str, FacetPlan] = {} if plan is None else {facet.name: facet for facet in plan.facets}
        self._unread = unread
        self._refused: Mapping[str, DeadLetter] | None = None
        self._unpublished: frozenset[str] | None = None
        self._looked_up = 0
        #: What could not be found out, and why.
        self.unknown: list[str] = []

    def wait_of(self, step: WaitingStep) -> Wait:
        """Return why a step waits that has an event, a timer or a retry."""
        wait = self._placed(
            Wait(
                step_id=step.step_id,
                path=self._places.path_of(step.step_id),
                facet=step.facet,
                attempt=step.attempt,
                causes=(),
                since_ms=step.since_ms,
                last_error=None if step.error is None else f"{step.error.type}: {step.error.message}",
            )
        )
        if step.event_name is not None:
            return self._for_event(wait, step)
        if step.event_state == EventState.RETRYING:
            when = time_text(step.until_ms or 0)
            failed = "" if wait.last_error is None else f", after {printable(wait.last_error, _MOST_CHARS)}"
            text = f"attempt {step.attempt + 1} comes at {when}{failed}"
            wait = replace(wait, next_retry_ms=step.until_ms)
            return self._of_facet(wait, (Cause(code=CauseCode.RETRY, text=text),))
        if step.event_state == EventState.WAITING:
            text = f"a timer ends the wait at {time_text(step.until_ms or 0)}"
            return replace(wait, deadline_ms=step.until_ms, causes=(Cause(code=CauseCode.TIMER, text=text),))
        return self._for_answer(replace(wait, deadline_ms=step.until_ms), step)

    def script_wait(self, document: StepDocument) -> Wait:
        """Return the wait of a step whose script runs, or waits for its turn."""
        text = "its script runs, or waits for its turn in an evaluator that allows scripts"
        cause = Cause(code=CauseCode.SCRIPT, text=text, commands=(("evaluator", "--allow-scripts"),))
        return self._placed(
            Wait(
                step_id=document.id,
                path=self._places.path_of(document.id),
                facet=document.facet_name,
                attempt=document.attempt,
                causes=(cause,),
                since_ms=document.created_at_ms,
            )
        )

    def _placed(self, wait: Wait) -> Wait:
        place = self._places.place_of(wait.step_id)
        if place is None:
            return wait
        file = str(place).rsplit(":", 2)[0] if place.source_id else None
        return replace(wait, file=file, line=place.line, source=text_at(place))

    def _for_event(self, wait: Wait, step: WaitingStep) -> Wait:
        name = step.event_name or ""
        until = "" if step.until_ms is None else f", until {time_text(step.until_ms)}"
        text = f"it waits for the external event {printable(name, _MOST_CHARS)}{until}"
        command = ("raise", step.workflow_id, name, "DATA")
        cause = Cause(code=CauseCode.EXTERNAL_EVENT, text=text, commands=(command,))
        return replace(wait, event_name=name, deadline_ms=step.until_ms, causes=(cause,))

    # --- events that agents answer ------------------------------------------------------------------------------

    def _of_facet(self, wait: Wait, more: tuple[Cause, ...]) -> Wait:
        """Return a wait with the pause of its facet, if that is paused, and these causes."""
        pause = None if self._view is None else self._view.definitions.pauses.of_facet(wait.facet)
        if pause is None:
            return replace(wait, causes=more)
        words = ("resume", "--all") if pause.scope == "all" else ("resume", "--facet", wait.facet)
        text = f"{pause_text(pause)}: its events wait, and none is lost"
        return replace(wait, causes=(Cause(code=CauseCode.FACET_PAUSED, text=text, commands=(words,)), *more))

    def _for_answer(self, wait: Wait, step: WaitingStep) -> Wait:
        if not self._config.dispatch.is_topic(step.facet):
            text = f"its event is a task on list {self._config.dispatch.task_list}: a poller or a runner does it"
            return self._of_facet(wait, (Cause(code=CauseCode.TASK, text=text, commands=(("servers",),)),))
        causes = self._of_answers(step.step_id)
        view = self._view
        if view is not None and self._looked_up < _MOST_LOOKED_UP:
            self._looked_up += 1
            group = self._config.agent_group(step.facet)
            wait, found = self._of_event(view, replace(wait, group=group), step)
            if any(cause.code == CauseCode.ANSWER_UNREAD for cause in causes):
                # The answer is known: another one by hand would only be a duplicate.
                found = [cause for cause in found if cause.code != CauseCode.ANSWER_MISSING]
            # A row that is published is deleted with the next batch.
            causes += [*(self._of_outbox(step) if wait.offset is None else ()), *found]
        elif view is not None:
            self.unknown.append(f"where the events of more than {_MOST_LOOKED_UP} waiting steps are")
        if not causes:
            causes = [Cause(code=CauseCode.UNANSWERED, text="no answer has come yet", commands=self._by_hand(step))]
        return self._of_facet(wait, tuple(causes))

    def _of_event(self, view: BrokerView, wait: Wait, step: WaitingStep) -> tuple[Wait, list[Cause]]:
        """Return where a step's event is, and what keeps it from being answered."""
        group, topic = wait.group or "", view.topology.facet(step.facet)
        wait = replace(wait, topic=topic)
        partitions = view.asked(f"whether {topic} exists", lambda: view.partitions_of(topic))
        if partitions == 0:
            text = f"topic {topic} does not exist: its event waits in the store"
            command = ("topics", "apply", "FILE.afl")
            return wait, [Cause(code=CauseCode.TOPIC_MISSING, text=text, commands=(command,))]
        place = view.asked(
            f"where the event of {wait.path} is",
            lambda: view.event_place(step.facet, step.step_id, step.attempt, group),
        )
        if place is None:
            return wait, []
        found = view.group(group)
        members = () if found is None else found.readers_of(topic)
        wait = replace(
            wait,
            partition=place.partition.partition,
            offset=place.offset,
            committed=place.committed,
            lag=place.lag,
            members=None if found is None else tuple(_shown(member) for member in members),
        )
        letters = view.asked("dead letters of the facet", lambda: view.letters(topic, step.step_id)) or []
        causes = [_dead_event(letters[-1])] if letters else []
        if place.offset is None and step.step_id not in self._outbox_keys():
            causes.append(_gone(topic))
        if found is not None and not members:
            causes.append(self._without_agent(view, wait, step))
        elif place.offset is not None and place.offset < place.committed:
            causes.append(self._answer_missing(wait, step))
        elif place.offset is not None and found is not None:
            causes.append(_taken(place, members))
        return self._with_failed_try(view, wait, causes)

    def _with_failed_try(self, view: BrokerView, wait: Wait, causes: list[Cause]) -> tuple[Wait, list[Cause]]:
        """Return a wait with the last failed try of its handler, where an agent announces that it tries again."""
        told = view.asked("which events are tried again", lambda: view.failed_try(wait.step_id, wait.attempt))
        if told is None:
            return wait, causes
        member, failed = told
        who = printable(f"{member.name} on {member.host}" if member.host else member.name, 100)
        text = (
            f"try {failed.tries} of its handler failed at {time_text(failed.failed_at)}: "
            f"{printable(failed.error, _MOST_CHARS)}; the next comes at {time_text(failed.next_at)} ({who})"
        )
        wait = replace(wait, last_error=failed.error, next_retry_ms=failed.next_at)
        return wait, [Cause(code=CauseCode.TRY_FAILED, text=text), *causes]

    def _without_agent(self, view: BrokerView, wait: Wait, step: WaitingStep) -> Cause:
        group, topic = wait.group or "", wait.topic or ""
        others = view.readers_of(topic, but=group)
        if others:
            who = "; ".join(
                f"group {other.name}: {', '.join(_shown(member) for member in other.readers_of(topic))}"
                for other in others
            )
            text = f"group {group} has no members; others read {topic}: {who}"
            return Cause(code=CauseCode.AT_WORK, text=text)
        agent = ("agent", "--handlers", "MODULE", "--facet", step.facet)
        commands = (agent, *self._by_hand(step))
        registered = self._registered()
        name = step.facet
        if registered and not registered & {name, name.rsplit(".", 1)[-1]}:
            text = f"no handler is registered for {name}, and no agent is there: group {group} has no members"
            register = ("handlers", "register", "MODULE", "--facet", name)
            return Cause(code=CauseCode.HANDLER_UNREGISTERED, text=text, commands=(register, *commands))
        text = f"no agent is there: group {group} has no members that read {topic}"
        return Cause(code=CauseCode.NO_AGENT, text=text, commands=commands)

    def _answer_missing(self, wait: Wait, step: WaitingStep) -> Cause:
        text = (
            f"group {wait.group} has finished its event (offset {wait.offset}, next {wait.committed}), and no answer "
            "has been applied: its handler has left the answer to others (Deferred; 202 of a webhook), it was skipped, "
            "or its answer is on its way, refused or lost"
        )
        return Cause(code=CauseCode.ANSWER_MISSING, text=text, commands=self._by_hand(step))

    def _by_hand(self, step: WaitingStep) -> tuple[tuple[str, ...], ...]:
        facet = self._facets.get(step.facet)
        return (("continue", step.step_id, "--result", "{...}" if facet is None else result_form(facet)),)

    def _registered(self) -> frozenset[str]:
        """Return the facets that handlers are registered for in the store."""
        if self._store is None:
            return frozenset()
        return frozenset(registration.facet_name for registration in self._store.list_handler_registrations())

    # --- answers, and the outbox --------------------------------------------------------------------------------

    def _of_answers(self, step_id: str) -> list[Cause]:
        causes = []
        if self._unread is not None:
            for offset, message in self._unread.found:
                if is_answer_of(message, step_id):
                    name, number = self._unread.partition
                    text = f"its answer lies at {name}[{number}] offset {offset}: no evaluator has read it yet"
                    causes.append(Cause(code=CauseCode.ANSWER_UNREAD, text=text, commands=(("evaluator",),)))
        letter = self._refused_answers(step_id).get(step_id)
        if letter is not None:
            why = f"{letter.reason}: {printable(letter.error, _MOST_CHARS)}"
            text = f"an answer was refused at {time_text(letter.at_ms)}: {why} (dead letter {letter.place})"
            causes.append(Cause(code=CauseCode.ANSWER_REFUSED, text=text, commands=(_replay(letter),)))
        return causes

    def _refused_answers(self, step_id: str) -> Mapping[str, DeadLetter]:
        """Return the last dead letter of an answer to each step of the run."""
        view = self._view
        if self._refused is None:
            self._refused = {}
            if view is not None:
                workflow_id = step_id.partition(":")[0]
                control = view.topology.control()
                letters = view.asked("refused answers", lambda: view.letters(control, workflow_id)) or []
                read = [(letter, view.message_of(letter)) for letter in letters]
                self._refused = {
                    str(getattr(message, "step_id", "")): letter for letter, message in read if message is not None
                }
        return self._refused

    def _outbox_keys(self) -> frozenset[str]:
        """Return the keys of the first records that wait in the store to be published."""
        if self._unpublished is None:
            rows = [] if self._store is None else self._store.outbox(limit=_MOST_OUTBOX_ROWS)
            self._unpublished = frozenset((row.record.key or b"").decode("utf-8", "replace") for row in rows)
        return self._unpublished

    def _of_outbox(self, step: WaitingStep) -> list[Cause]:
        if step.step_id not in self._outbox_keys():
            return []
        pause = None if self._view is None else self._view.definitions.pauses.of_facet(step.facet)
        held = "the pause holds it back" if pause is not None else "an evaluator publishes it as soon as one can"
        return [Cause(code=CauseCode.NOT_PUBLISHED, text=f"its event is in the store, not on its topic yet: {held}")]


def _shown(member: GroupMember) -> str:
    return f"{printable(member.client_id, 100)}{f' on {printable(member.host, 100)}' if member.host else ''}"


def _replay(letter: DeadLetter) -> tuple[str, ...]:
    return ("dlq", "show", str(letter.place))


def _dead_event(letter: DeadLetter) -> Cause:
    why = f"{letter.reason}: {printable(letter.error, _MOST_CHARS)}"
    text = f"its event was dead-lettered at {time_text(letter.at_ms)}: {why} ({letter.place})"
    return Cause(code=CauseCode.EVENT_DEAD_LETTERED, text=text, commands=(("dlq", "replay", str(letter.place)),))


def _gone(topic: str) -> Cause:
    text = f"its event is not on {topic} any more: the evaluators publish it again before its retention ends"
    return Cause(code=CauseCode.EVENT_GONE, text=text)


def _taken(place: EventPlace, members: tuple[GroupMember, ...]) -> Cause:
    """Return who has an event, or how many offsets of its partition come before it."""
    key = (place.partition.topic, place.partition.partition)
    holders = [_shown(member) for member in members if key in member.partitions]
    who = ", ".join(holders) or "no member: the group has not assigned its partition"
    before = (place.offset or 0) - place.committed
    if before <= 0:
        return Cause(
            code=CauseCode.AT_WORK, text=f"it is the first that is not finished in its partition: {who} has it"
        )
    text = f"{before:,} offset{'s' * (before != 1)} of its partition come before it, unfinished: {who} has them"
    return Cause(code=CauseCode.AGENT_BEHIND, text=text)
