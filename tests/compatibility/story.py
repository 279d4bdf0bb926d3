"""The story of the deployment whose rows, records and programs are kept: runs in every state.

The runs, by id, and how each is left:

| run | left |
|---|---|
| settle-waiting | waits for the second of two agents in a foreach, which has told how far it is |
| settle-finished | has ended, with outputs |
| report-failed | has failed, by the answer of an agent |
| report-failing | one of its questions has failed, and the other one waits |
| report-cancelled | was cancelled |
| report-retried | has failed, was retried, waits for the second attempt |
| report-rerun | was run again from its first question, waits in its second generation |
| report-reset | was reset, waits in its second execution |
| report-parked | waits; an answer to an attempt that does not exist yet is parked |
| report-to-come | does not exist yet; an answer to its first question is parked |
| report-later | runs the program that was deployed later under the same names |
| careful-caught | its question has failed, and waits for the answer to the one in its catch block |
| contract-pending, contract-claimed | wait for tasks: one is to be claimed, one is under way |
| report-purged | has ended and was purged: a tombstone |
| call-finished | has run a script |
| survey | was put off in the middle, by an evaluator that died before it had published |
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from afl.compiled.program import CompiledProgram
from afl.engine.model.entities import (
    HandlerRegistration,
    LockMetaData,
    LogDefinition,
    Parameter,
    RunnerState,
    ServerDefinition,
    ServerState,
    TaskState,
    UserDefinition,
    WorkflowMetaData,
)
from afl.engine.model.store import ENDED_STATUSES
from afl.engine.states import EventState, StepState
from afl.engine.types import FacetAttributes, ObjectType, StepId, WorkflowId
from afl.runtime import Evaluator, MemoryStore, RunnerDefinition, TaskDefinition, WorkflowDefinition
from afl.stores.maintenance.purge import Purge
from afl.stores.public.persistence import EventDefinition
from afl.stores.public.step import StepDefinition
from afl_stream.topics.creation import create_missing
from afl_stream.wire.headers import headers_for
from afl_stream.wire.messages import (
    CancelWorkflow,
    DescribeWorkflow,
    FailureReason,
    RerunStep,
    ResetWorkflow,
    RetryStep,
    StartWorkflow,
    StepContinue,
    StepFailed,
    StepUpdate,
)
from tests.compatibility.dumps import header_line
from tests.compatibility.json_records import JSON_CONTENT, encode_json
from tests.compatibility.world import Killed, World, program_of

PEOPLE: Final = ["Ann", "Bob", "Carl", "Dora", "Eve", "Finn"]
CLAIM: Final = {
    "id": "c-1",
    "lines": [{"text": "a kettle", "cents": 700}, {"text": "a cup", "cents": 500}],
    "extra": {"since": 2019, "scores": [1, 2.5, None, True, "ß"]},
}
SMALL_CLAIM: Final = {
    "id": "c-2",
    "lines": [{"text": "a pen", "cents": 10}, {"text": "a nib", "cents": 20}],
    "extra": None,
}
#: When what is written through the public face was written.
REGISTERED_AT_MS: Final = 1_763_000_000_000


def tell(world: World, programs: Path) -> None:
    """Let all of it happen. In the end the evaluator is dead, and what it committed last is not published."""
    sources = {path.stem: path.read_text(encoding="utf-8") for path in sorted(programs.glob("*.afl"))}
    for name in ("claims", "desk", "scripted"):
        program = program_of(sources[name])
        plans = world.client.plan_topics([program])
        # The releases that wrote the fixtures had no topic for presence.
        create_missing(world.transport.admin(), [plan for plan in plans if plan.spec.name != world.topology.presence()])
        world.client.deploy(program)
    world.open_evaluator()
    _claims(world)
    _desk(world, program_of(sources["desk"]))
    _tasks(world)
    _start(world, "call-finished", "scripted.Call", text="hello")
    world.client.deploy(program_of(sources["desk_later"]))
    _start(world, "report-later", "desk.Report", subject="first")
    _bad_records(world)
    _entities(world)
    _purge(world)
    _survey(world)


def result_for(facet: str, params: Mapping[str, Any]) -> dict[str, object]:
    """Return what the agents of all runs answer, from now on."""
    match facet:
        case "desk.Ask":
            return {"answer": f"re: {params['question']}", "length": len(params["question"])}
        case "desk.Sign":
            return {"signature": params["paper"].upper()}
        case "claims.work.Assess":
            return {"cents": params["line"]["cents"], "sure": True}
        case "claims.work.Approve":
            return {"by": "ann"}
        case "claims.work.Ask":
            return {"answer": f"because: {params['question']}"}
    raise AssertionError(f"who answers {facet}?")


def answers_to_come(world: World) -> str:
    """Answers to all that waits in the end, as records: a line each, in Avro and in JSON by turns."""
    lines: list[str] = []
    for row in sorted(world.store.list_workflows(), key=lambda row: row.id):
        if row.status in ENDED_STATUSES:
            continue
        for step in sorted(world.waiting(row.id), key=lambda step: step.number):
            said = StepContinue(
                step_id=step.id,
                result=result_for(step.facet_name, step.params),
                attempt=step.attempt,
                agent="fixture/2",
            )
            form = ("avro", "json")[len(lines) % 2]
            written = world.codec.header_form
            headers = headers_for(said, source="/tests", at_ms=world.clock.now_ms(), form=written)
            if form == "json":
                headers = headers_for(
                    said, source="/tests", at_ms=world.clock.now_ms(), content=JSON_CONTENT, form=written
                )
            value = world.codec.encode(said).hex() if form == "avro" else encode_json(said).decode()
            line = {"key": row.id, "form": form, "headers": header_line(headers), "value": value}
            lines.append(json.dumps(line, ensure_ascii=False))
    return "\n".join(lines) + "\n"


def answer(world: World, workflow_id: str, text: str, length: int = 4, **params: object) -> StepContinue:
    """Return the answer to the only question of a run with these parameters."""
    step = world.asked(workflow_id, **params)
    return StepContinue(
        step_id=step.id,
        result={"answer": text, "length": length},
        workflow_id=workflow_id,
        event_id=f"{step.id}#{step.attempt}",
        attempt=step.attempt,
        agent="fixture/1",
        group="afl.agent.desk.Ask",
    )


def _start(world: World, workflow_id: str, workflow: str, **inputs: object) -> None:
    command = StartWorkflow(
        workflow_id=workflow_id,
        workflow=workflow,
        inputs=inputs,
        requested_by="ann",
        created_at=world.clock.now_ms(),
        command_id=f"start-{workflow_id}",
    )
    world.send(command)


def _claims(world: World) -> None:
    _start(world, "settle-waiting", "claims.work.Settle", claim=CLAIM)
    kettle = world.asked("settle-waiting", line=CLAIM["lines"][0])  # type: ignore[index]  # a list of lines
    world.send(StepContinue(step_id=kettle.id, result={"cents": 700, "sure": True}))
    cup = world.asked("settle-waiting", line=CLAIM["lines"][1])  # type: ignore[index]  # a list of lines
    world.send(StepUpdate(step_id=cup.id, partial={"sure": False}, attempt=1, agent="fixture/1"))

    _start(world, "settle-finished", "claims.work.Settle", claim=SMALL_CLAIM)
    for line, cents in zip(SMALL_CLAIM["lines"], (10, 20), strict=True):  # type: ignore[arg-type]  # a list of lines
        step = world.asked("settle-finished", line=line)
        world.send(StepContinue(step_id=step.id, result={"cents": cents, "sure": True}))
    approve = world.asked("settle-finished", total=30)
    # As a person does it, with kcat: and the evaluator says what became of it.
    said = encode_json(StepContinue(step_id=approve.id, result={"by": "bob"}))
    world.clock.advance(1_000)
    world.put(
        world.topology.control(), said, key=b"settle-finished", headers=(("afl_command_id", b"answer-settle-finished"),)
    )
    # Too late: the run has ended. And once more, which is a duplicate.
    world.send(StepContinue(step_id=approve.id, result={"by": "carl"}, attempt=2))
    world.send(StepContinue(step_id=approve.id, result={"by": "bob"}, attempt=1))


def _first_question(desk: CompiledProgram, workflow_id: str) -> str:
    """Return the id of the step that asks first in a report that does not exist yet: ids follow from the workflow's."""
    result = Evaluator(MemoryStore()).execute("desk.Report", {"subject": "first"}, desk, workflow_id=workflow_id)
    return next(event.step_id for event in result.pending_events if event.payload["question"] == "first")


def _desk(world: World, desk: CompiledProgram) -> None:
    report, subject = "desk.Report", "first"
    _start(world, "report-failed", report, subject=subject)
    failed = FailureReason(type="Busy", message="not today")
    world.send(StepFailed(step_id=world.asked("report-failed", question=subject).id, error=failed, attempt=1))
    world.send(answer(world, "report-failed", "two", question="second"))

    _start(world, "report-failing", report, subject=subject)
    world.send(StepFailed(step_id=world.asked("report-failing", question=subject).id, error=failed, attempt=1))

    _start(world, "report-cancelled", report, subject=subject)
    world.send(CancelWorkflow(workflow_id="report-cancelled", reason="not needed", command_id="cancel-1"))

    _start(world, "report-retried", report, subject=subject)
    step = world.asked("report-retried", question=subject)
    world.send(StepFailed(step_id=step.id, error=failed))
    world.send(
        RetryStep(workflow_id="report-retried", step_id=step.id, reason="the line is back", command_id="retry-1")
    )

    _start(world, "report-rerun", report, subject=subject)
    step = world.asked("report-rerun", question=subject)
    world.send(answer(world, "report-rerun", "third", question=subject))
    world.send(answer(world, "report-rerun", "two", question="second"))
    world.send(RerunStep(workflow_id="report-rerun", step_id=step.id, reason="a better book", command_id="rerun-1"))

    _start(world, "report-reset", report, subject=subject)
    world.send(answer(world, "report-reset", "third", question=subject))
    world.send(ResetWorkflow(workflow_id="report-reset", command_id="reset-1"))

    _start(world, "report-parked", report, subject=subject)
    step = world.asked("report-parked", question=subject)
    world.send(StepContinue(step_id=step.id, result={"answer": "early", "length": 5}, attempt=2))
    to_come = _first_question(desk, "report-to-come")
    world.send(StepContinue(step_id=to_come, result={"answer": "known before", "length": 8}))

    _start(world, "careful-caught", "desk.Careful", subject=subject)
    world.send(StepFailed(step_id=world.asked("careful-caught", question=subject).id, error=failed))

    _start(world, "report-purged", report, subject=subject)
    for question in (subject, "second", "third"):
        world.send(answer(world, "report-purged", "third", question=question))

    world.send(DescribeWorkflow(workflow_id="report-failed", command_id="describe-1"))
    world.send(DescribeWorkflow(workflow_id="report-retried", command_id="describe-2"))


def _tasks(world: World) -> None:
    for workflow_id in ("contract-claimed", "contract-pending"):
        _start(world, workflow_id, "desk.Contract", paper=workflow_id)
        if workflow_id == "contract-claimed":
            world.clock.advance(1_000)
            claimed = world.store.claim_task(["desk.Sign"], owner="poller-1", lease_ms=60_000)
            assert claimed is not None


def _bad_records(world: World) -> None:
    world.clock.advance(1_000)
    world.put(world.topology.control(), b"garbage", key=b"report-failed", headers=(("traceparent", b"00-1"),))
    world.put(
        world.topology.commands(), b'{"type":"CancelWorkflow","workflow_id":"no-such-run","command_id":"cancel-2"}'
    )
    world.put(world.topology.commands(), None, key=b"a tombstone")


def _entities(world: World) -> None:
    """Return what pollers, runners and people write through the public face of a store."""
    store, at_ms = world.store, REGISTERED_AT_MS
    store.save_handler_registration(
        HandlerRegistration(
            facet_name="desk.Ask",
            module_uri="desk_handlers",
            entrypoint="ask",
            version="2.1.0",
            checksum="0f",
            timeout_ms=5_000,
            requirements=["books>=1"],
            metadata={"tone": "calm", "tries": 3},
            created=at_ms,
            updated=at_ms + 1,
        )
    )
    store.save_server(
        ServerDefinition(
            uuid="server-1",
            server_group="desk",
            service_name="poller",
            server_name="fixture",
            server_ips=["192.0.2.1"],
            start_time=at_ms,
            ping_time=at_ms + 5,
            topics=["desk.Sign"],
            handlers=["desk.Sign"],
            state=ServerState.RUNNING,
        )
    )
    store.save_runner(
        RunnerDefinition(
            uuid="runner-1",
            workflow_id="report-failed",
            workflow=WorkflowDefinition(
                "u", "Report", "desk", "facet", "flow", "step", "1", metadata=WorkflowMetaData(tags=["desk"])
            ),
            parameters=[Parameter("subject", "first")],
            user=UserDefinition("ann@example.org"),
            start_time=at_ms,
            state=RunnerState.RUNNING,
        )
    )
    store.save_log(LogDefinition("log-1", 1, runner_id="runner-1", message="begun", time=at_ms))
    store.save_task(
        TaskDefinition(
            uuid="task-by-hand",
            name="desk.Sweep",
            runner_id="runner-1",
            workflow_id="report-failed",
            flow_id="flow",
            step_id="",
            state=TaskState.PENDING,
            created=at_ms,
            data={"amount": 3, "double": 2.5},
        )
    )
    assert store.acquire_lock("desk", 60_000, LockMetaData(topic="desk.Sign", handler="sweep"))
    by_hand = StepDefinition(
        id=StepId("by-hand-1"),
        object_type=ObjectType.VARIABLE_ASSIGNMENT,
        workflow_id=WorkflowId("by-hand"),
        state=StepState.STATEMENT_COMPLETE,
        facet_name="desk.Ask",
        attributes=FacetAttributes(),
    )
    by_hand.set_attribute("question", "by hand")
    by_hand.set_attribute("answer", {"lines": [1, 2]}, is_return=True)
    store.save_step(by_hand)
    store.save_event(
        EventDefinition(
            "event-by-hand", "by-hand-1", "by-hand", EventState.CREATED, "desk.Ask", {"question": "by hand"}
        )
    )


def _purge(world: World) -> None:
    world.clock.advance(1_000)
    purge = Purge(world.store, world.clock)
    assert purge.purge(world.workflow("report-purged"), purge.waiting())


def _survey(world: World) -> None:
    world.die_at("control.persisted")
    try:
        _start(world, "survey", "desk.Survey", people=PEOPLE)
    except Killed:
        return
    raise AssertionError("the evaluator lives")
