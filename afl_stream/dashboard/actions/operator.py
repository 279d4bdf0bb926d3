"""Carries out actions: it sends commands and answers as a client, and waits where an evaluator can answer."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final, TypeVar

from afl.compiled.program import CompiledProgram
from afl.compiler import compile_text
from afl.core.handlers.retry import RetryPolicy
from afl.core.strictness import Strictness
from afl.core.values import plain_values
from afl.engine.model.entities import HandlerRegistration
from afl.engine.model.store import ENDED_STATUSES, WorkflowRow
from afl.engine.planning.planner import plan_workflow
from afl.engine.planning.programs import stored_program
from afl.engine.planning.value_checks import check_inputs, check_result
from afl.engine.states import EventState, StepState
from afl.engine.types import Value
from afl_stream.client.client import Client, NotAnswered, drawn_id
from afl_stream.client.external_events import EventReceipt
from afl_stream.dashboard.deployment import Deployment
from afl_stream.dashboard.views.letters import LetterChoice
from afl_stream.dead_letters import DeadLetters
from afl_stream.errors import AlreadyEnded, StreamError
from afl_stream.programs.versions import meant_version
from afl_stream.registry.deployment_codec import DeploymentCodec
from afl_stream.topics.declared import Topology
from afl_stream.transport import Transport
from afl_stream.wire.command_answers import KEPT, REPEATED
from afl_stream.wire.headers import IfExists
from afl_stream.wire.messages import Lifecycle, check_workflow_id, workflow_of

T = TypeVar("T")

_FACET: Final = re.compile(r"[A-Za-z_][\w.]{0,500}")
_ENTRYPOINT: Final = re.compile(r"[A-Za-z_]\w{0,200}")
_SECONDS: Final = re.compile(r"[0-9]{1,7}(\.[0-9]{1,3})?")

#: How long the answer of an evaluator is waited for.
ANSWER_TIMEOUT_S: Final = 5.0


class ActionRefused(StreamError):
    """An action cannot be carried out as it was asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of an action: in words, whether an evaluator has answered, and facts for programs."""

    text: str
    is_answered: bool = True
    facts: Mapping[str, object] = field(default_factory=dict)

    def to_dict(self) -> dict[str, object]:
        """Return it as JSON has it."""
        return {"done": self.text, "answered": self.is_answered, **self.facts}


class Operator:
    """Does what operators ask for. Any thread may use it: each action has a client of its own."""

    def __init__(self, deployment: Deployment) -> None:
        self._deployment = deployment

    # --- runs -----------------------------------------------------------------------------------------------------

    def start(
        self,
        by: str,
        workflow: str,
        inputs: Mapping[str, object],
        workflow_id: str = "",
        if_exists: IfExists | None = None,
    ) -> Outcome:
        """Start a run, once its inputs were checked. Raises what a client raises, and InputError."""
        if workflow_id:
            check_workflow_id(workflow_id)
        with self._client() as (client, _):
            program, name = client.definitions.find(workflow)
            plan = plan_workflow(program, name)
            given = plain_values(dict(inputs), "inputs")
            check_inputs(plan.facet, plan.schemas, given)
            started = workflow_id or drawn_id()

            def give(timeout_s: float | None) -> str:
                return client.start(
                    name,
                    given,
                    workflow_id=started,
                    program=program.fingerprint,
                    requested_by=by,
                    command_id=drawn_id(),
                    answer_timeout_s=timeout_s,
                    if_exists=if_exists,
                )

            answer = self._ask(give)
        text = f"{name} {'is started' if answer is not None else 'is asked for'} as {started}"
        return Outcome(
            text=text, is_answered=answer is not None, facts={"workflow_id": started, "program": program.fingerprint}
        )

    def cancel(self, by: str, run: str, reason: str) -> Outcome:
        """Cancel a run. Raises AlreadyEnded."""
        row = self._require(run)
        if row is not None and row.status in ENDED_STATUSES:
            raise AlreadyEnded(run, row.status)
        return self._command(
            run, lambda client, t: client.cancel(run, _said(reason, by), answer_timeout_s=t), "cancelled", "cancel"
        )

    def retry(self, by: str, run: str, reason: str, step: str | None = None) -> Outcome:
        """Retry what has failed in a run, or one step."""
        return self._command(
            run,
            lambda client, t: client.retry(run, step, reason=_said(reason, by), answer_timeout_s=t),
            "retried",
            "retry",
            step,
        )

    def rerun(self, by: str, step: str, reason: str) -> Outcome:
        """Run a step again, with all that depends on it."""
        return self._command(
            workflow_of(step),
            lambda client, t: client.rerun(step, reason=_said(reason, by), answer_timeout_s=t),
            "run again",
            "run again",
            step,
        )

    def reset(self, by: str, run: str, reason: str) -> Outcome:
        """Start a run over."""
        return self._command(
            run, lambda client, t: client.reset(run, reason=_said(reason, by), answer_timeout_s=t), "reset", "reset"
        )

    def migrate(self, by: str, run: str, to: str, reason: str) -> Outcome:
        """Move a run to another version of its program. Raises what `meant_version` raises."""
        check_workflow_id(run)
        row = self._require(run)
        stored = self._deployment.plain_store.program_fingerprints() if self._deployment.has_store() else ()
        with self._client() as (client, _):
            program = meant_version(client.definitions, to, None if row is None else row.name, stored)
            answer = self._ask(
                lambda timeout_s: client.migrate(run, program, reason=_said(reason, by), answer_timeout_s=timeout_s)
            )
        done = f"{run} is moved to" if answer is not None else f"asked to move {run} to"
        return Outcome(
            text=f"{done} version {program[:12]}",
            is_answered=answer is not None,
            facts={"workflow_id": run, "program": program},
        )

    def raise_event(self, run: str, name: str, data: object, event_id: str = "") -> Outcome:
        """Raise an external event for a run."""

        def give(client: Client, timeout_s: float | None) -> EventReceipt:
            waits = timeout_s is not None
            return client.raise_event(
                run, name, data, id=event_id or None, wait=waits, timeout_s=timeout_s or ANSWER_TIMEOUT_S
            )

        with self._client() as (client, _):
            receipt = self._ask(lambda timeout_s: give(client, timeout_s))
        outcome = None if receipt is None or receipt.outcome is None else receipt.outcome.value
        return Outcome(
            text=f"event {name} of {run} is {outcome or 'sent'}",
            is_answered=outcome is not None,
            facts={"workflow_id": run, "name": name, "outcome": outcome},
        )

    # --- steps ----------------------------------------------------------------------------------------------------

    def continue_step(self, step: str, result: Mapping[str, object]) -> Outcome:
        """Answer a step by hand, once the result was checked where the store is at hand."""
        checked = plain_values(dict(result), "result")
        attempt = self._waiting_attempt(step, checked)
        with self._client() as (client, _):
            reply = self._ask(
                lambda timeout_s: client.continue_step(step, checked, attempt=attempt, answer_timeout_s=timeout_s)
            )
        return _of_answer(f"answered step {step}", step, reply)

    def fail_step(self, by: str, step: str, message: str, error_type: str) -> Outcome:
        """Fail a step by hand."""
        attempt = self._waiting_attempt(step, None)
        said = message or f"failed by {by}"
        with self._client() as (client, _):
            reply = self._ask(
                lambda timeout_s: client.fail_step(
                    step, said, error_type or "Failed", attempt=attempt, answer_timeout_s=timeout_s
                )
            )
        return _of_answer(f"failed step {step}", step, reply)

    def _waiting_attempt(self, step: str, result: Mapping[str, Value] | None) -> int | None:
        """Return the attempt that a step waits in. Raises ActionRefused for one that waits for no answer.

        A step that this machine's store does not have may be one of a store elsewhere: the evaluator will say.
        """
        run = workflow_of(step)
        if not self._deployment.has_store():
            return None
        store = self._deployment.plain_store
        row = self._require(run)
        if row is None:
            return None
        found = next((one for one in store.load_steps(run) if one.id == step), None)
        if found is None:
            raise ActionRefused(f"run {run} has no step {step}")
        if found.state != StepState.EVENT_TRANSMIT or EventState.is_terminal(found.event_state):
            raise ActionRefused(f"step {step} ({found.facet_name or 'a block'}) waits for no answer now")
        program = None if result is None else stored_program(store, row.program)
        if program is not None and result is not None:
            plan = plan_workflow(program, row.name)
            facet = next((one for one in plan.facets if one.name == found.facet_name), None)
            if facet is not None:
                problem = check_result(facet, plan.schemas, result, facet.always_required, reported=found.returns)
                if problem is not None:
                    raise ActionRefused(f"the result does not fit: {problem}")
        return found.attempt

    # --- pauses ---------------------------------------------------------------------------------------------------

    def pause(self, by: str, *, run: str | None = None, facet: str | None = None, reason: str = "") -> Outcome:
        """Pause a run, a facet, or with neither everything."""
        what = f"run {run}" if run else f"facet {facet}" if facet else "everything"
        with self._client() as (client, _):
            is_new = client.pause(
                workflow_id=run, facet=facet, everything=not run and not facet, reason=_said(reason, by)
            )
        return Outcome(text=f"{what} is paused" if is_new else f"{what} was paused already", facts={"changed": is_new})

    def resume(self, *, run: str | None = None, facet: str | None = None) -> Outcome:
        """End a pause."""
        what = f"run {run}" if run else f"facet {facet}" if facet else "everything"
        with self._client() as (client, _):
            changed = client.resume(workflow_id=run, facet=facet, everything=not run and not facet)
        return Outcome(text=f"{what} is resumed" if changed else f"{what} was not paused", facts={"changed": changed})

    # --- programs, schedules, dead letters ------------------------------------------------------------------------

    def deploy(self, text: str) -> Outcome:
        """Compile a text of AFL, create the topics it lacks, and deploy it. Raises CompileError."""
        program = CompiledProgram(compile_text(text, strictness=Strictness.PROGRAM).program_json)
        with self._client(needs_topics=False) as (client, _):
            client.apply_topics([program])
            client.deploy(program)
        names = [workflow.qualified_name for workflow in program.workflows()]
        return Outcome(
            text=f"deployed {program.fingerprint[:12]}: {', '.join(names) or 'no workflow'}",
            facts={"program": program.fingerprint, "workflows": names},
        )

    def change_schedule(self, schedule: str, change: str) -> Outcome:
        """Pause, resume, trigger or delete a schedule."""
        with self._client() as (client, _):
            does: Mapping[str, Callable[..., Lifecycle | None]] = {
                "pause": client.pause_schedule,
                "resume": client.resume_schedule,
                "trigger": client.trigger_schedule,
                "delete": client.delete_schedule,
            }
            answer = self._ask(lambda timeout_s: does[change](schedule, answer_timeout_s=timeout_s))
        done = {"pause": "paused", "resume": "resumed", "trigger": "triggered", "delete": "deleted"}[change]
        is_repeated = isinstance(answer, Lifecycle) and answer.kind == REPEATED
        text = f"schedule {schedule} is {done}{' already' if is_repeated else ''}"
        return Outcome(text=text, is_answered=answer is not None, facts={"schedule_id": schedule})

    def replay(self, places: Sequence[str], *, again: bool = False) -> Outcome:
        """Send the records of dead letters to their topics again."""
        with self._letters() as letters:
            done = letters.replay(places, again=again)
        sent = sum(each.was_sent for each in done)
        text = f"{sent:,} sent again" if sent == len(done) else f"{sent:,} of {len(done):,}: the others had been before"
        return Outcome(text=text, facts={"sent": sent})

    def replay_chosen(self, choice: LetterChoice) -> Outcome:
        """Send the records of all open dead letters that fit to their topics again. Raises BadParameter."""
        wanted = choice.filter(self._deployment.clock.now_ms())
        with self._letters() as letters:
            done = letters.replay([letter.place for letter in letters.find(wanted)])
        sent = sum(each.was_sent for each in done)
        return Outcome(text=f"{sent:,} dead letter{'s' * (sent != 1)} sent again", facts={"sent": sent})

    def drop(self, by: str, places: Sequence[str], because: str) -> Outcome:
        """Mark dead letters as needing nothing more."""
        with self._letters() as letters:
            done = letters.drop(places, _said(because, by))
        count = sum(each.was_noted for each in done)
        return Outcome(text=f"{count:,} dropped", facts={"dropped": count})

    def register_handler(self, facet: str, module: str, entrypoint: str, limit_s: str, retry: str) -> Outcome:
        """Register a handler of a facet, or change the registration. The module is on the machines of agents.

        The checksum is new each time, so that agents load the module again. Raises ActionRefused, BadRetryPolicy.
        """
        if not _FACET.fullmatch(facet) or not _ENTRYPOINT.fullmatch(entrypoint):
            raise ActionRefused(f"facet {facet[:100]!r}, function {entrypoint[:100]!r}: expected names")
        if not _SECONDS.fullmatch(limit_s):
            raise ActionRefused(f"time limit {limit_s[:100]!r}: expected seconds, 0 for none")
        store, now_ms = self._deployment.plain_store, self._deployment.clock.now_ms()
        known = store.get_handler_registration(facet)
        changed = HandlerRegistration(
            facet_name=facet,
            module_uri=module,
            entrypoint=entrypoint,
            checksum=drawn_id(),
            timeout_ms=round(float(limit_s) * 1_000),
            created=now_ms if known is None else known.created,
            updated=now_ms,
            retry=str(RetryPolicy.parse(retry)) if retry else "",
        )
        if known is not None:
            changed.version, changed.requirements = known.version, known.requirements
            changed.metadata = known.metadata
        store.save_handler_registration(changed)
        return Outcome(
            text=f"the handler of {facet} is {'registered' if known is None else 'changed'}", facts={"facet": facet}
        )

    def remove_handler(self, facet: str) -> Outcome:
        """Remove the registration of a facet's handler."""
        if not self._deployment.plain_store.delete_handler_registration(facet):
            raise ActionRefused(f"no handler is registered for {facet}")
        return Outcome(text=f"the handler of {facet} is removed", facts={"facet": facet})

    # --- how ------------------------------------------------------------------------------------------------------

    @contextmanager
    def _client(self, *, needs_topics: bool = True) -> Iterator[tuple[Client, Transport]]:
        config = self._deployment.config
        with self._deployment.transport() as transport, Client(config, transport) as client:
            if needs_topics:
                client.require_topics()
            yield client, transport

    @contextmanager
    def _letters(self) -> Iterator[DeadLetters]:
        config, topology = self._deployment.config, Topology(self._deployment.config)
        with self._deployment.transport() as transport:
            schemas = DeploymentCodec(config, transport, topology)
            try:
                with DeadLetters(config, transport, topology=topology, codec=schemas.codec) as letters:
                    yield letters
            finally:
                schemas.close()

    def _ask(self, give: Callable[[float | None], T]) -> T | None:
        """Send something, and return what `give` returns once an evaluator has answered; None while none has.

        Raises RefusedByEvaluator.
        """
        if not self._deployment.can_be_answered:
            give(None)
            return None
        try:
            return give(ANSWER_TIMEOUT_S)
        except NotAnswered:
            return None

    def _require(self, run: str) -> WorkflowRow | None:
        """Return a run of the store. Raises ActionRefused where the store at hand does not have it.

        On Kafka the store may be another one, and the evaluator decides.
        """
        if not self._deployment.has_store():
            return None
        row = self._deployment.plain_store.load_workflow(run)
        if row is None and not self._deployment.config.is_kafka:
            raise ActionRefused(f"there is no run {run}")
        return row

    def _command(
        self, run: str, give: Callable[[Client, float | None], object], done: str, verb: str, step: str | None = None
    ) -> Outcome:
        check_workflow_id(run)
        self._require(run)
        with self._client() as (client, _):
            answer = self._ask(lambda timeout_s: give(client, timeout_s))
        what = step or run
        text = f"{what} is {done}" if answer is not None else f"asked to {verb} {what}"
        return Outcome(
            text=text, is_answered=answer is not None, facts={"workflow_id": run, **({"step_id": step} if step else {})}
        )


def _of_answer(text: str, step: str, reply: object) -> Outcome:
    if isinstance(reply, Lifecycle) and reply.kind == KEPT:
        text += "; it does not wait yet: the evaluator keeps the answer until it asks"
    return Outcome(text=text, is_answered=reply is not None, facts={"step_id": step})


def _said(reason: str, by: str) -> str:
    """Return a reason with who gave it, as it is kept with the run."""
    return f"{reason} (by {by})" if reason else f"by {by}"
