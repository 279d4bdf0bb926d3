"""What a client does with a deployment whose steps nobody else answers: as a program of threads, and of asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Final

import pytest

from afl_stream.client import (
    AsyncClient,
    Client,
    EventOutcome,
    NotEnded,
    RefusedByEvaluator,
    ScheduleSpec,
    StartRequest,
)
from afl_stream.settings.config import StreamConfig
from afl_stream.topics.declared import PlanAction
from afl_stream.transport import Transport
from afl_stream.wire.messages import Lifecycle
from tests.worlds.deployment import program_of

TALK: Final = """
namespace desk {
  event facet Ask(question: String) => (answer: String)
  workflow Talk(subject: String) => (answer: String, by: Json) andThen {
    asked = Ask(question = $.subject)
    paid = afl.WaitForEvent(name = "paid")
    yield Talk(answer = asked.answer, by = paid.data)
  }
}
"""
WORKFLOW: Final = "desk.Talk"
_WAIT_S: Final = 60.0
_RUNS: Final = 20


def asking_step(described: Lifecycle) -> str:
    """Return the step of a described run that asks."""
    waiting: Any = (described.outputs or {})["waiting"]
    (found,) = [step["step_id"] for step in waiting if step["facet"] == "desk.Ask"]
    assert isinstance(found, str)
    return found


def talk_in_turn(config: StreamConfig, transport: Transport) -> None:
    """Start, ask, answer, raise, and wait, one after another."""
    with Client(config, transport) as client:
        run = client.start(WORKFLOW, {"subject": "tea"}, workflow_id="in-turn", answer_timeout_s=_WAIT_S)
        with pytest.raises(NotEnded, match=r"the end of in-turn has not come in 0\.5 s; the run goes on"):
            client.wait(run, timeout_s=0.5)
        client.raise_event(run, "paid", "ann")
        described = client.describe(run, answer_timeout_s=_WAIT_S)
        client.continue_step(asking_step(described), {"answer": "green"}, answer_timeout_s=_WAIT_S)
        end = client.wait(run, timeout_s=_WAIT_S)
        assert (end.kind, end.outputs) == ("workflow.completed", {"answer": "green", "by": "ann"})
        assert client.wait(run, timeout_s=_WAIT_S) == end
        with pytest.raises(RefusedByEvaluator):
            client.wait("nowhere", timeout_s=_WAIT_S)


async def talk_at_once(config: StreamConfig, transport: Transport) -> None:
    """Do all that a client can do, with many waits at the same time."""
    async with AsyncClient(config, transport) as client:
        program = program_of(TALK)
        assert PlanAction.CREATE not in {plan.action for plan in await client.plan_topics([program])}
        await client.deploy(program)
        await client.require_topics()
        names = [f"at-once-{number}" for number in range(_RUNS)]

        def start(name: str, subject: str) -> Coroutine[object, object, str]:
            return client.start(WORKFLOW, {"subject": subject}, workflow_id=name, answer_timeout_s=_WAIT_S)

        assert await asyncio.gather(*(start(name, name) for name in names)) == names
        again = await client.ask_to_start(
            WORKFLOW, {"subject": names[0]}, workflow_id=names[0], answer_timeout_s=_WAIT_S
        )
        assert again is not None
        assert again.kind == "command.repeated"
        with pytest.raises(RefusedByEvaluator, match="AlreadyExists"):
            await start(names[0], "other")

        ends = [asyncio.create_task(client.wait(name, timeout_s=_WAIT_S)) for name in names]
        described = await asyncio.gather(*(client.describe(name, answer_timeout_s=_WAIT_S) for name in names))
        receipts = await asyncio.gather(
            *(client.raise_event(name, "paid", {"by": name}, wait=True, timeout_s=_WAIT_S) for name in names)
        )
        assert {receipt.outcome for receipt in receipts} == {EventOutcome.TAKEN}
        answers = [
            client.continue_step(asking_step(found), {"answer": found.workflow_id}, answer_timeout_s=_WAIT_S)
            for found in described[2:]
        ]
        failed = client.fail_step(asking_step(described[0]), "not today", "Busy", answer_timeout_s=_WAIT_S)
        cancelled = client.cancel(names[1], "no more", answer_timeout_s=_WAIT_S)
        await asyncio.gather(failed, cancelled, *answers)
        ended = await asyncio.gather(*ends)
        assert [end.kind for end in ended[:3]] == ["workflow.error", "workflow.cancelled", "workflow.completed"]
        assert [end.outputs for end in ended[2:]] == [{"answer": name, "by": {"by": name}} for name in names[2:]]
        assert await client.wait(names[2], timeout_s=_WAIT_S) == ended[2]
        await _operate(client, names)


async def _operate(client: AsyncClient, names: list[str]) -> None:
    async with client.milestones(names[2], from_beginning=True) as milestones:
        kinds = [(await anext(milestones)).kind]
        while kinds[-1] != "workflow.completed":
            kinds.append((await anext(milestones)).kind)
    assert kinds[0] == "workflow.started"
    await client.retry(names[0], answer_timeout_s=_WAIT_S)
    await client.reset(names[2], reason="again", answer_timeout_s=_WAIT_S)
    with pytest.raises(NotEnded, match=f"the end of {names[2]} has not come in 0.3 s"):
        await client.wait(names[2], timeout_s=0.3)
    assert await client.pause(facet="desk.Ask", reason="lunch")
    assert [pause.name for pause in await client.pauses()] == ["desk.Ask"]
    assert await client.resume(facet="desk.Ask")
    spec = ScheduleSpec(workflow=WORKFLOW, inputs={"subject": "weekly"}, interval_ms=3_600_000)
    for done in (
        await client.put_schedule("hourly", spec, paused=True, answer_timeout_s=_WAIT_S),
        await client.resume_schedule("hourly", answer_timeout_s=_WAIT_S),
        await client.pause_schedule("hourly", answer_timeout_s=_WAIT_S),
        await client.delete_schedule("hourly", answer_timeout_s=_WAIT_S),
    ):
        assert done is not None
        assert done.kind == "command.applied"
    requests = [
        StartRequest(workflow=WORKFLOW, inputs={"subject": "many"}, workflow_id=f"many-{number}") for number in range(3)
    ]
    assert await client.start_many(requests) == ["many-0", "many-1", "many-2"]
    assert [lot async for lot in client.start_in_lots(iter(requests))] == [["many-0", "many-1", "many-2"]]
