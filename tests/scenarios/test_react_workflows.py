"""A model that calls functions until it has the answer, against a server that speaks Anthropic's Messages API."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from afl_stream.pubsub import (
    EventDrivenWorkflow,
    InputTopic,
    InvokeContext,
    InWorkflowInputTopic,
    InWorkflowOutputTopic,
    NodeBuilder,
    OutputTopic,
    Topic,
)
from afl_stream.pubsub.errors import NodeFailed
from afl_stream.pubsub.event_stores.memory import MemoryEventStore
from afl_stream.pubsub.event_stores.sqlite import SQLiteEventStore
from afl_stream.pubsub.event_stores.store import EventStore, RequestKey, RequestStatus
from afl_stream.pubsub.llm import (
    AnthropicModel,
    Conversation,
    FunctionCallTool,
    LLMCommand,
    ModelRefused,
    calls_functions,
    create_react_workflow,
    is_answer,
)
from afl_stream.pubsub.model.events import ConsumeFromTopicEvent, StoredEvent
from tests.unit.pubsub.llm.scripted_model import ScriptedModel, call
from tests.worlds.messages_api import HttpError, MessagesApi, messages_api, says, text, use

CONTEXT = InvokeContext(assistant_request_id="r1")
#: Two rounds of calls, then the answer.
LOOP = (
    says(text("First the stock."), use("stock", "t1", item="bolt"), use("stock", "t2", item="nut")),
    says(use("price", "t3", item="bolt", pieces=40)),
    says(text("40 bolts cost 8.00.")),
)


class Shop:
    """The functions of a shop, which count their calls."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def stock(self, item: str) -> int:
        """Tell how many pieces are in stock."""
        self.calls.append(f"stock {item}")
        return {"bolt": 40, "nut": 7}[item]

    async def price(self, item: str, pieces: int) -> dict[str, float]:
        """Tell what so many pieces cost.

        :param pieces: how many
        """
        self.calls.append(f"price {item}")
        return {"price": pieces * 0.2}

    def cancel_order(self, number: int) -> str:
        """Cancel an order for good."""
        self.calls.append(f"cancel {number}")
        return f"order {number} is cancelled"


class Crash(BaseException):
    """The end of a process."""


class CrashingStore(MemoryEventStore):
    """A store in memory whose process ends at an append, before or after it is done."""

    def __init__(self) -> None:
        super().__init__()
        self.appends_left = -1

    def append_now(
        self, key: RequestKey, context: InvokeContext, first: int, events: Sequence[StoredEvent], status: RequestStatus
    ) -> None:
        if self.appends_left == 0:
            raise Crash
        self.appends_left -= 1
        super().append_now(key, context, first, events, status)


@asynccontextmanager
async def shop_workflow(api: MessagesApi, shop: Shop, store: EventStore) -> AsyncIterator[EventDrivenWorkflow]:
    async with api.async_client() as client:
        model = AnthropicModel("claude-test-1", client=client)
        yield create_react_workflow(model, [shop.stock, shop.price], system="Be brief.", event_store=store)


async def outputs(workflow: EventDrivenWorkflow, given: object = None, context: InvokeContext = CONTEXT) -> list[Any]:
    return [event.data async for event in workflow.invoke(context, given)]


def ask(api: MessagesApi, shop: Shop, store: EventStore, given: object = None) -> list[Any]:
    """Invoke the request in a workflow object of its own, as another process would."""

    async def run() -> list[Any]:
        async with shop_workflow(api, shop, store) as workflow:
            return await outputs(workflow, given)

    return asyncio.run(run())


def is_given(store: MemoryEventStore) -> bool:
    """Return whether the caller has committed the answer."""
    stored = asyncio.run(store.request(RequestKey("ReAct", "r1")))
    events = stored.events if stored is not None else ()
    return any(isinstance(event, ConsumeFromTopicEvent) and event.name == "answers" for event in events)


def is_stored(store: MemoryEventStore) -> bool:
    return asyncio.run(store.request(RequestKey("ReAct", "r1"))) is not None


def replies_in(store: MemoryEventStore) -> int:
    """Return how many replies of the model are stored."""
    stored = asyncio.run(store.request(RequestKey("ReAct", "r1")))
    return len(
        [
            event
            for event in (stored.events if stored is not None else ())
            if not isinstance(event, ConsumeFromTopicEvent) and event.publisher_name == "model"
        ]
    )


def test_two_nodes_and_their_functions_find_the_answer() -> None:
    shop = Shop()
    with messages_api(*LOOP) as api:
        (answer,) = ask(api, shop, MemoryEventStore(), "What do all our bolts cost?")

    assert answer["text"] == "40 bolts cost 8.00."
    assert answer["stop_reason"] == "end"
    assert answer["usage"] == {
        "requests": 3, "input_tokens": 300, "output_tokens": 30, "cache_read_tokens": 0, "cache_write_tokens": 0,
    }  # fmt: skip
    assert sorted(shop.calls) == ["price bolt", "stock bolt", "stock nut"]
    assert [sorted(tool["name"] for tool in request["tools"]) for request in api.requests] == [["price", "stock"]] * 3
    assert [request["system"] for request in api.requests] == ["Be brief."] * 3
    assert api.last_message(1) == [
        {"type": "tool_result", "tool_use_id": "t1", "content": "40"},
        {"type": "tool_result", "tool_use_id": "t2", "content": "7"},
    ]
    assert api.last_message(2) == [{"type": "tool_result", "tool_use_id": "t3", "content": '{"price":8.0}'}]


def test_the_answer_goes_on_as_a_conversation_with_the_next_request() -> None:
    shop = Shop()
    with messages_api(*LOOP, says(text("7 nuts."))) as api:
        store = MemoryEventStore()
        (answer,) = ask(api, shop, store, "What do all our bolts cost?")

        async def go_on() -> list[Any]:
            async with shop_workflow(api, shop, store) as workflow:
                question = Conversation.from_data(answer).asked("And how many nuts are there?")
                return await outputs(workflow, question.to_data(), InvokeContext(assistant_request_id="r2"))

        assert asyncio.run(go_on())[0]["text"] == "7 nuts."

    assert [len(request["messages"]) for request in api.requests] == [1, 3, 5, 7]


def test_after_a_crash_at_any_append_the_loop_goes_on_and_asks_for_no_stored_reply_again() -> None:
    """One append after the other is the last one, until a run needs no more than there are."""
    crashes, repeated = 0, 0
    while True:
        shop, store = Shop(), CrashingStore()
        store.appends_left = crashes
        with messages_api(*LOOP) as api:
            try:
                answers = ask(api, shop, store, "What do all our bolts cost?")
                break
            except Crash:
                store.appends_left = -1
            crashes += 1
            stored_replies, asked, was_given = replies_in(store), len(api.requests), is_given(store)
            api.script[:] = LOOP[stored_replies:]
            answers = ask(api, shop, store, None if is_stored(store) else "What do all our bolts cost?")

        if was_given:
            # The answer was committed before the crash, and so counts as the caller's.
            assert (answers, len(api.requests)) == ([], asked)
            continue
        assert [data["text"] for data in answers] == ["40 bolts cost 8.00."]
        assert answers[0]["usage"]["requests"] == 3
        assert len(api.requests) - asked == 3 - stored_replies
        repeated += len(api.requests) - 3

    assert answers[0]["text"] == "40 bolts cost 8.00."
    assert crashes >= 6
    assert repeated == 3, "each reply was lost in exactly one of the crashes"


def test_another_process_goes_on_where_one_was_stopped_in_the_middle_of_a_call(tmp_path: Path) -> None:
    shop = Shop()

    async def stop_at_the_price(api: MessagesApi) -> None:
        begun = asyncio.Event()

        async def price(item: str, pieces: int) -> None:
            begun.set()
            await asyncio.Event().wait()

        store = SQLiteEventStore(tmp_path / "events.db")
        async with api.async_client() as client:
            model = AnthropicModel("claude-test-1", client=client)
            workflow = create_react_workflow(model, [shop.stock, price], event_store=store)
            task = asyncio.create_task(outputs(workflow, "What do all our bolts cost?"))
            await begun.wait()
            task.cancel()
            await asyncio.wait([task])
        await store.close()

    async def go_on(api: MessagesApi) -> list[Any]:
        store = SQLiteEventStore(tmp_path / "events.db")
        async with shop_workflow(api, shop, store) as workflow:
            answers = await outputs(workflow)
        await store.close()
        return answers

    with messages_api(*LOOP) as api:
        asyncio.run(stop_at_the_price(api))
        asked = len(api.requests)
        (answer,) = asyncio.run(go_on(api))

    assert asked == 2
    assert len(api.requests) == 3
    assert answer["text"] == "40 bolts cost 8.00."
    assert sorted(shop.calls) == ["price bolt", "stock bolt", "stock nut"]


def test_what_a_function_raises_and_wrong_arguments_reach_the_model_as_errors() -> None:
    shop = Shop()
    script = (
        says(use("stock", "t1", item="anvil"), use("stock", "t2", piece="bolt"), use("shelf", "t3")),
        says(text("No anvils.")),
    )
    with messages_api(*script) as api:
        (answer,) = ask(api, shop, MemoryEventStore(), "Anvils?")

    assert answer["text"] == "No anvils."
    results = {block["tool_use_id"]: (block["is_error"], block["content"]) for block in api.last_message(1)}
    assert results["t1"] == (True, "KeyError: 'anvil'")
    assert results["t2"][1].startswith("stock was not called: item: Field required")
    assert results["t3"] == (True, "there is no function shelf; there is stock, price")


def test_a_refusal_fails_the_request_and_the_next_try_goes_on_behind_what_is_stored() -> None:
    shop, store = Shop(), MemoryEventStore()
    refusal = says(text("I"), stop_reason="refusal", details={"type": "refusal", "explanation": "not that"})
    with messages_api(LOOP[0], refusal, *LOOP[1:]) as api:
        with pytest.raises(NodeFailed, match=r"node model failed: ModelRefused: .*: it refused: not that") as failed:
            ask(api, shop, store, "What do all our bolts cost?")
        assert isinstance(failed.value.__cause__, ModelRefused)
        (answer,) = ask(api, shop, store)

    assert answer["text"] == "40 bolts cost 8.00."
    assert sorted(shop.calls) == ["price bolt", "stock bolt", "stock nut"]
    assert len(api.requests) == 4


def test_a_model_that_cannot_be_reached_fails_the_request() -> None:
    overloaded = HttpError(529, "overloaded_error", "Overloaded")
    with messages_api(overloaded) as api, pytest.raises(NodeFailed) as failed:
        ask(api, Shop(), MemoryEventStore(), "q")

    assert "node model failed: ModelUnavailable: model claude-test-1: Overloaded" in str(failed.value)


def test_many_requests_share_one_workflow_and_keep_their_conversations() -> None:
    class Echo(ScriptedModel):
        """Calls one function with its question, and answers with the result."""

        async def generate(self, messages: Any, tools: Any = (), *, system: str = "") -> Any:
            last = messages[-1]
            said: Any = last.tool_results[0].text if last.tool_results else [call("shout", "c1", text=last.text)]
            return await ScriptedModel(said).generate(messages, tools)

    def shout(text: str) -> str:
        return text.upper()

    async def run() -> list[list[Any]]:
        workflow = create_react_workflow(Echo(), [shout])
        contexts = [InvokeContext(assistant_request_id=f"r{number}") for number in range(50)]
        return await asyncio.gather(*(outputs(workflow, f"word {n}", context) for n, context in enumerate(contexts)))

    assert [data[0]["text"] for data in asyncio.run(run())] == [f"WORD {number}" for number in range(50)]


def test_functions_of_two_nodes_are_known_to_the_model_and_joined_before_it_goes_on() -> None:
    shop = Shop()
    model = ScriptedModel([call("stock", "c1", item="nut"), call("price", "c2", item="bolt", pieces=5)], "both")
    calls, stocks, prices = Topic("calls"), Topic("stocks"), Topic("prices")
    workflow = (
        EventDrivenWorkflow.builder()
        .name("Shop")
        .node(
            NodeBuilder()
            .name("model")
            .command(LLMCommand(model))
            .subscribe("questions | (stocks & prices)")
            .publish_to(calls, when=calls_functions)
            .publish_to(OutputTopic("answers"), when=is_answer)
        )
        .node(NodeBuilder().name("store").command(FunctionCallTool(shop.stock)).subscribe(calls).publish_to(stocks))
        .node(NodeBuilder().name("till").command(FunctionCallTool(shop.price)).subscribe(calls).publish_to(prices))
        .topic(InputTopic("questions"))
        .build()
    )

    (answer,) = asyncio.run(outputs(workflow, "q"))

    assert answer["text"] == "both"
    assert [spec["name"] for spec in model.tools[0]] == ["stock", "price"]
    assert {found.call_id: found.text for found in model.asked[1][-1].tool_results} == {
        "c1": "7",
        "c2": '{"price":1.0}',
    }


def _needs_consent(data: object) -> bool:
    return calls_functions(data) and any(
        asked.name == "cancel_order" for asked in Conversation.from_data(data).open_calls
    )


def _needs_no_consent(data: object) -> bool:
    return calls_functions(data) and not _needs_consent(data)


def ask_person(context: InvokeContext, events: Sequence[ConsumeFromTopicEvent]) -> object:
    """Ask for each call whether it may be made."""
    return {"may_i": [asked.to_data() for asked in Conversation.from_data(events[0].data).open_calls]}


def decide(context: InvokeContext, events: Sequence[ConsumeFromTopicEvent]) -> object:
    """Hand the calls on to the functions, or tell the model that a person declined."""
    data = {event.name: event.data for event in events}
    conversation = Conversation.from_data(data["pending"])
    if data["decisions"] == "yes":
        return conversation.to_data()
    return conversation.declined(f"a person declined: {data['decisions']}").to_data()


def careful_workflow(model: AnthropicModel, shop: Shop, store: EventStore) -> EventDrivenWorkflow:
    """Return a workflow in which a person confirms what cannot be undone."""
    pending, free, approved = Topic("pending"), Topic("free_calls"), Topic("approved")
    results = Topic("results")
    return (
        EventDrivenWorkflow.builder()
        .name("Careful")
        .event_store(store)
        .node(
            NodeBuilder()
            .name("model")
            .command(LLMCommand(model))
            .subscribe("questions | results")
            .publish_to(free, when=_needs_no_consent)
            .publish_to(pending, when=_needs_consent)
            .publish_to(OutputTopic("answers"), when=is_answer)
        )
        .node(
            NodeBuilder()
            .name("ask")
            .command(ask_person)
            .subscribe(pending)
            .publish_to(InWorkflowOutputTopic("confirmations", reply_to="decisions"))
        )
        .node(
            NodeBuilder()
            .name("decide")
            .command(decide)
            .subscribe("pending & decisions")
            .publish_to(approved, when=calls_functions)
            .publish_to(results, when=lambda data: not calls_functions(data))
        )
        .node(
            NodeBuilder()
            .name("functions")
            .command(FunctionCallTool(shop.stock, shop.cancel_order))
            .subscribe("free_calls | approved")
            .publish_to(results)
        )
        .topic(InputTopic("questions"))
        .topic(InWorkflowInputTopic("decisions"))
        .build()
    )


@pytest.mark.parametrize(
    ("decision", "calls", "told"),
    [
        ("yes", ["stock nut", "cancel 7"], "order 7 is cancelled"),
        ("it is paid", ["stock nut"], "a person declined: it is paid"),
    ],
)
def test_a_person_confirms_a_call_in_another_process(
    tmp_path: Path, decision: str, calls: Sequence[str], told: str
) -> None:
    shop = Shop()

    async def invoke(api: MessagesApi, given: object) -> list[Any]:
        store = SQLiteEventStore(tmp_path / "events.db")
        try:
            async with api.async_client() as client:
                return await outputs(careful_workflow(AnthropicModel("m", client=client), shop, store), given)
        finally:
            await store.close()

    script = (says(use("stock", "t1", item="nut")), says(use("cancel_order", "t2", number=7)), says(text("Done.")))
    with messages_api(*script) as api:
        (question,) = asyncio.run(invoke(api, "Cancel order 7 if nuts are short."))
        asked_before = len(api.requests)
        (answer,) = asyncio.run(invoke(api, {"decisions": decision}))

    assert question == {"may_i": [{"id": "t2", "name": "cancel_order", "arguments": {"number": 7}}]}
    assert asked_before == 2
    assert len(api.requests) == 3
    assert answer["text"] == "Done."
    assert shop.calls == list(calls)
    assert api.last_message(2)[0]["content"] == told
