"""A request from its input to its last output."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextvars import ContextVar
from pathlib import Path

import pytest

from afl_stream.pubsub.errors import RequestConflict
from afl_stream.pubsub.event_stores.memory import MemoryEventStore
from afl_stream.pubsub.event_stores.sqlite import SQLiteEventStore
from afl_stream.pubsub.event_stores.store import RequestKey, RequestStatus
from afl_stream.pubsub.model.context import InvokeContext
from afl_stream.pubsub.model.events import ConsumeFromTopicEvent, PublishToTopicEvent
from afl_stream.pubsub.model.span_kinds import OpenInferenceSpanKindValues
from afl_stream.pubsub.model.topics import InputTopic, OutputTopic, Topic
from afl_stream.pubsub.running.errors import InputMissing, InputRefused, NotRun
from afl_stream.pubsub.running.workflow import EventDrivenWorkflow
from tests.unit.pubsub.running.small_workflows import (
    INPUT,
    OUTPUT,
    committed,
    listed,
    node,
    outputs,
    passed_on,
    request,
    run,
    status,
    stored,
    turns,
    workflow,
)

Events = Sequence[ConsumeFromTopicEvent]


async def counted(_: InvokeContext, events: Events) -> AsyncIterator[int]:
    """Yield as many numbers as each event says."""
    for event in events:
        for number in range(event.data):
            yield number


def test_the_output_comes_in_the_order_in_which_it_was_published() -> None:
    numbers = Topic("numbers")
    built = workflow(node("count", counted, INPUT, numbers), node("pass", passed_on, numbers, OUTPUT))

    assert run(outputs(built, 5)) == [0, 1, 2, 3, 4]


def test_an_output_event_names_its_topic_its_offset_and_its_consumer() -> None:
    built = workflow(node("count", counted, INPUT, OUTPUT))

    async def check() -> None:
        events = [event async for event in built.invoke(request("r7"), 2)]
        assert [(event.assistant_request_id, event.name, event.offset) for event in events] == [
            ("r7", "output", 0),
            ("r7", "output", 1),
        ]
        assert {(event.consumer_name, event.consumer_type) for event in events} == {("test", "EventDrivenWorkflow")}

    run(check())


def test_output_is_committed_in_the_store_before_it_is_yielded() -> None:
    built = workflow(node("count", counted, INPUT, OUTPUT))

    async def check() -> None:
        async for event in built.invoke(request(), 3):
            mine = [offset for name, _, offset in committed((await stored(built)).events) if name == "test"]
            assert mine[-1] == event.offset

    run(check())


def test_several_output_topics_are_one_stream() -> None:
    first, second = OutputTopic("first"), OutputTopic("second")
    built = workflow(node("count", counted, INPUT, first, second))

    async def check() -> None:
        events = [(event.name, event.data) async for event in built.invoke(request(), 2)]
        assert events == [("first", 0), ("second", 0), ("first", 1), ("second", 1)]

    run(check())


def test_input_goes_to_every_input_topic() -> None:
    other = InputTopic("other")
    built = workflow(node("join", listed, "input & other", OUTPUT), topics=[INPUT, other])

    assert run(outputs(built, "x")) == [["x", "x"]]


def test_an_input_topic_may_refuse_an_input_that_another_one_takes() -> None:
    small, large = InputTopic("small", lambda data: data < 10), InputTopic("large", lambda data: data >= 10)
    built = workflow(node("small-node", listed, small, OUTPUT), node("large-node", passed_on, large, OUTPUT))

    assert run(outputs(built, 5)) == [[5]]
    assert run(outputs(built, 50, "r2")) == [50]


def test_an_input_that_no_topic_takes_is_an_error_and_stores_nothing() -> None:
    built = workflow(node("a", passed_on, InputTopic("small", lambda data: data < 10), OUTPUT))

    with pytest.raises(InputRefused, match=r"workflow test, request r1: the condition of small does not hold"):
        run(outputs(built, 50))
    assert run(built.event_store.requests("test")) == []


def test_a_request_without_input_that_is_not_stored_is_an_error_and_stores_nothing() -> None:
    built = workflow(node("a", passed_on, INPUT, OUTPUT))

    with pytest.raises(InputMissing, match="request r1: nothing is stored of it"):
        run(outputs(built))
    assert run(built.event_store.requests("test")) == []


def test_a_node_whose_topics_hold_several_events_takes_them_together() -> None:
    numbers = Topic("numbers")
    built = workflow(node("count", counted, INPUT, numbers), node("list", listed, numbers, OUTPUT))

    assert run(outputs(built, 4)) == [[0, 1, 2, 3]]


def test_max_events_bounds_what_a_node_takes_of_each_topic() -> None:
    numbers = Topic("numbers")
    built = workflow(node("count", counted, INPUT, numbers), node("list", listed, numbers, OUTPUT, max_events=3))

    assert run(outputs(built, 7)) == [[0, 1, 2], [3, 4, 5], [6]]


def test_a_node_runs_in_one_task_at_a_time() -> None:
    numbers = Topic("numbers")
    at_work = most = 0

    async def watch(_: InvokeContext, events: Events) -> AsyncIterator[object]:
        nonlocal at_work, most
        at_work += 1
        most = max(most, at_work)
        await turns(3)
        at_work -= 1
        for event in events:
            yield event.data

    built = workflow(node("count", counted, INPUT, numbers), node("watch", watch, numbers, OUTPUT, max_events=1))

    assert run(outputs(built, 10)) == list(range(10))
    assert most == 1


def test_nodes_run_at_the_same_time() -> None:
    numbers = Topic("numbers")
    together = asyncio.Event()
    waiting = 0

    async def meet(_: InvokeContext, events: Events) -> int:
        nonlocal waiting
        waiting += 1
        if waiting == 2:
            together.set()
        await together.wait()
        return len(events)

    built = workflow(
        node("count", counted, INPUT, numbers),
        node("one", meet, numbers, OUTPUT),
        node("two", meet, numbers, OUTPUT),
    )

    assert run(outputs(built, 1)) == [1, 1]


def test_many_requests_run_at_once_and_stay_apart() -> None:
    numbers = Topic("numbers")
    built = workflow(node("count", counted, INPUT, numbers), node("pass", passed_on, numbers, OUTPUT))

    async def check() -> None:
        got = await asyncio.gather(*(outputs(built, count, f"r{count}") for count in range(50)))
        assert got == [list(range(count)) for count in range(50)]

    run(check())


def test_a_request_that_is_run_cannot_be_invoked_again_meanwhile() -> None:
    built = workflow(node("count", counted, INPUT, OUTPUT))

    async def check() -> None:
        first = built.invoke(request(), 3)
        got = [(await anext(first)).data]
        with pytest.raises(RequestConflict, match="request r1: this process runs it already"):
            await outputs(built, 3)
        got += [event.data async for event in first]
        assert got == [0, 1, 2]

    run(check())


def test_a_request_that_another_process_runs_is_a_conflict_and_nothing_is_doubled() -> None:
    store = MemoryEventStore()
    gate = asyncio.Event()

    async def gated(_: InvokeContext, events: Events) -> object:
        await gate.wait()
        return events[0].data

    def process() -> EventDrivenWorkflow:
        return workflow(node("gated", gated, INPUT, OUTPUT), store=store)

    async def check() -> None:
        one = asyncio.create_task(outputs(process(), "x"))
        await turns()
        other = asyncio.create_task(outputs(process()))
        await turns()
        gate.set()
        results = await asyncio.gather(one, other, return_exceptions=True)
        assert [result for result in results if isinstance(result, list)] == [["x"]]
        assert [type(result) for result in results if not isinstance(result, list)] == [RequestConflict]
        published = [event.name for event in (await stored(process())).events if isinstance(event, tuple)]
        assert published.count("output") == 2  # the event, and the commit of the one caller that got it

    run(check())


def test_a_request_without_any_output_ends() -> None:
    built = workflow(node("count", counted, INPUT, OUTPUT))

    async def check() -> None:
        assert await outputs(built, 0) == []
        assert await status(built) == RequestStatus.FINISHED

    run(check())


def test_a_request_whose_events_wait_for_others_ends_as_waiting() -> None:
    a, b = Topic("a", lambda data: data != "b"), Topic("b", lambda data: data == "b")
    built = workflow(node("split", passed_on, INPUT, a, b), node("join", listed, "a & b", OUTPUT), topics=[a, b])

    async def check() -> None:
        assert await outputs(built, "a") == []
        assert await status(built) == RequestStatus.WAITING

    run(check())


# --- the spec's methods ---------------------------------------------------------------------------------------------


def test_init_workflow_publishes_the_input_and_queues_the_nodes_that_can_run() -> None:
    built = workflow(node("pass", passed_on, INPUT, OUTPUT))

    async def check() -> None:
        await built.init_workflow(request(), "x")
        assert [queued.name for queued in built._invoke_queue] == ["pass"]
        assert built._tracker.is_idle()
        assert [event.name for event in (await stored(built)).events] == ["input"]
        assert await outputs(built, "x") == ["x"]

    run(check())


def test_init_workflow_restores_a_request_that_is_stored() -> None:
    store = MemoryEventStore()

    async def check() -> None:
        begun = workflow(node("pass", passed_on, INPUT, OUTPUT), store=store)
        await (await begun.init_workflow(request(), "x")).close()
        restored = workflow(node("pass", passed_on, INPUT, OUTPUT), store=store)
        opened = await restored.init_workflow(request())
        assert [queued.name for queued in restored._invoke_queue] == ["pass"]
        await opened.close()

    run(check())


def test_get_node_input_takes_what_all_subscribed_topics_hold() -> None:
    other = InputTopic("other")
    built = workflow(node("join", listed, "input & other", OUTPUT), topics=[INPUT, other])

    async def check() -> None:
        opened = await built.init_workflow(request(), "x")
        taken = built.get_node_input(built.nodes["join"])
        assert [(event.name, event.offset, event.data, event.consumer_name) for event in taken] == [
            ("input", 0, "x", "join"),
            ("other", 0, "x", "join"),
        ]
        assert built.get_node_input("join") == []
        await opened.close()

    run(check())


def test_get_node_input_of_a_node_that_takes_events_alone_is_one_event_or_none() -> None:
    built = workflow(node("alone", listed, INPUT, OUTPUT, max_events=1))

    async def check() -> None:
        opened = await built.init_workflow(request(), "x")
        assert [event.data for event in built.get_node_input("alone", "r1")] == ["x"]
        assert built.get_node_input("alone") == []
        await opened.close()

    run(check())


def test_a_node_whose_events_were_taken_from_outside_does_not_run_without_any() -> None:
    built = workflow(node("list", listed, INPUT, OUTPUT))

    async def check() -> None:
        await built.init_workflow(request(), "x")
        built.get_node_input("list")
        assert await outputs(built, "x") == []

    run(check())


def test_on_event_queues_the_subscribers_that_can_run_each_once() -> None:
    built = workflow(node("pass", passed_on, INPUT, OUTPUT), node("list", listed, INPUT, OUTPUT))

    async def check() -> None:
        opened = await built.init_workflow(request(), "x")
        event = next(each for each in (await stored(built)).events if isinstance(each, PublishToTopicEvent))
        built.on_event(event)
        assert [queued.name for queued in built._invoke_queue] == ["pass", "list"]
        await opened.close()

    run(check())


def test_what_is_asked_of_a_request_that_is_not_run_is_an_error() -> None:
    built = workflow(node("pass", passed_on, INPUT, OUTPUT))

    with pytest.raises(NotRun, match="request r9: this object does not run it"):
        built.get_node_input("pass", "r9")
    with pytest.raises(NotRun):
        built.get_node_input("pass")


def test_the_tracker_counts_what_began_and_is_idle_at_the_end() -> None:
    numbers = Topic("numbers")
    built = workflow(node("count", counted, INPUT, numbers), node("list", listed, numbers, OUTPUT, max_events=1))

    run(outputs(built, 3))

    assert built._tracker.is_idle()
    assert built._tracker.get_activity_count() == 4


def test_the_tracker_says_who_is_at_work() -> None:
    gate = asyncio.Event()

    async def gated(_: InvokeContext, events: Events) -> object:
        await gate.wait()
        return None

    built = workflow(node("gated", gated, INPUT, OUTPUT))

    async def check() -> None:
        reading = asyncio.create_task(outputs(built, "x"))
        await turns()
        assert not built._tracker.is_idle()
        assert repr(built._tracker) == "<AsyncNodeTracker: at work: gated; 1 begun>"
        assert repr(built) == "<EventDrivenWorkflow test: nodes gated; 1 requests run>"
        gate.set()
        await reading
        assert repr(built) == "<EventDrivenWorkflow test: nodes gated; 0 requests run>"

    run(check())


def test_a_workflow_has_the_fields_of_its_declaration() -> None:
    numbers = Topic("numbers")
    built = (
        EventDrivenWorkflow.builder()
        .node(node("count", counted, INPUT, numbers))
        .node(node("pass", passed_on, numbers, OUTPUT))
        .build()
    )

    assert (built.name, built.type, built.oi_span_type) == (
        "EventDrivenWorkflow",
        "EventDrivenWorkflow",
        OpenInferenceSpanKindValues.AGENT,
    )
    assert list(built.nodes) == ["count", "pass"]
    assert dict(built._topics) == {"input": INPUT, "numbers": numbers, "output": OUTPUT}
    assert dict(built._topic_nodes) == {"input": ("count",), "numbers": ("pass",), "output": ()}
    assert built.to_dict()["workflow_id"] == built.workflow_id


def test_the_type_of_a_subclass_is_its_name() -> None:
    class Assistant(EventDrivenWorkflow):
        pass

    built = Assistant.builder().node(node("pass", passed_on, INPUT, OUTPUT)).build()

    assert type(built) is Assistant
    assert built.type == "Assistant"


def test_two_workflows_have_different_ids() -> None:
    assert (
        workflow(node("a", passed_on, INPUT, OUTPUT)).workflow_id
        != workflow(node("a", passed_on, INPUT, OUTPUT)).workflow_id
    )


def test_a_workflow_without_a_store_keeps_a_thousand_finished_requests() -> None:
    built = EventDrivenWorkflow.builder().node(node("pass", passed_on, INPUT, OUTPUT)).build()

    async def check() -> None:
        for number in range(1_003):
            await outputs(built, "x", f"r{number}")
        kept = await built.event_store.requests(built.name)
        assert kept == [RequestKey(built.name, f"r{number}") for number in range(3, 1_003)]

    asyncio.run(check())


@pytest.mark.parametrize("kind", ["memory", "file"])
def test_a_node_has_the_context_variables_of_the_caller_and_none_of_another_node(kind: str, tmp_path: Path) -> None:
    who: ContextVar[str] = ContextVar("who", default="nobody")
    seen: list[tuple[str, str]] = []

    def notes(name: str) -> Callable[[InvokeContext, Events], AsyncIterator[object]]:
        async def command(_context: InvokeContext, events: Events) -> AsyncIterator[object]:
            seen.append((name, who.get()))
            who.set(name)
            yield events[0].data
            await asyncio.sleep(0)

        return command

    async def scenario() -> None:
        store = MemoryEventStore() if kind == "memory" else SQLiteEventStore(tmp_path / "events.db")
        middle = Topic("middle")
        flow = workflow(node("a", notes("a"), INPUT, middle), node("b", notes("b"), middle, OUTPUT), store=store)
        who.set("the caller")
        assert await outputs(flow, 1) == [1]
        assert who.get() == "the caller"
        await store.close()

    run(scenario())

    assert seen == [("a", "the caller"), ("b", "the caller")]
