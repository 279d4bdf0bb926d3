"""A model that calls functions, hosted: one worker goes on for another, and the caller's trace is above."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from afl_stream.pubsub.llm import LanguageModel, create_react_workflow
from afl_stream.pubsub.running.workflow import EventDrivenWorkflow
from tests.unit.pubsub.llm.scripted_model import ScriptedModel, call
from tests.worlds.hosted import HostedWorld, request
from tests.worlds.traces import Traces


class Halves:
    """A function whose first call may hang as long as its worker lives."""

    def __init__(self, *, hangs: bool = False) -> None:
        self.hangs = hangs
        self.begun = asyncio.Event()

    async def half(self, number: int) -> float:
        """Return half of a number."""
        self.begun.set()
        if self.hangs:
            await asyncio.Event().wait()
        return number / 2


def halves_workflow(model: LanguageModel, halves: Halves, traces: Traces) -> EventDrivenWorkflow:
    return create_react_workflow(model, [halves.half], name="halves", spans=traces.tracing)


@contextmanager
def hosted(workflow: EventDrivenWorkflow, grace_s: float = 5) -> Iterator[HostedWorld]:
    world = HostedWorld(workflow, grace_s=grace_s)
    try:
        yield world
    finally:
        world.close()


def test_a_hosted_loop_is_below_the_span_of_its_caller() -> None:
    traces = Traces()
    model = ScriptedModel([call("half", "c1", number=4)], "two")

    async def ask(world: HostedWorld) -> list[object]:
        async with world.worker(), world.client() as client:
            with traces.provider.get_tracer("a server").start_as_current_span("POST /ask"):
                return await world.outputs(client, request("r1"), "Half of 4?")

    with hosted(halves_workflow(model, Halves(), traces)) as world:
        (answer,) = asyncio.run(ask(world))

    assert isinstance(answer, dict)
    assert answer["text"] == "two"
    paths = set(traces.tree())
    assert {
        "POST /ask/halves",
        "POST /ask/halves/model/scripted-1",
        "POST /ask/halves/functions/half",
    } <= paths
    assert {path.split("/ask")[0] for path in paths} == {"POST "}
    assert traces.tree()["POST /ask/halves/model/scripted-1"] == 2


def test_another_worker_goes_on_behind_the_last_stored_reply() -> None:
    traces, halves = Traces(), Halves(hangs=True)
    model = ScriptedModel([call("half", "c1", number=4)], "two")

    async def ask(world: HostedWorld) -> list[object]:
        async with world.client() as client:
            async with world.worker("first"):
                asked = asyncio.create_task(world.outputs(client, request("r1"), "Half of 4?"))
                await halves.begun.wait()
                assert len(model.asked) == 1
            halves.hangs = False
            async with world.worker("second"):
                return await asked

    with hosted(halves_workflow(model, halves, traces), grace_s=0) as world:
        (answer,) = asyncio.run(ask(world))

    assert isinstance(answer, dict)
    assert answer["text"] == "two"
    assert answer["usage"]["requests"] == 2
    assert len(model.asked) == 2
