"""What a client follows of a request: events once, and the end when all of them were read."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest

from afl_stream.pubsub.errors import NodeFailed
from afl_stream.pubsub.event_stores.store import RequestStatus
from afl_stream.pubsub.hosting.failures import RequestFailed, RequestNotAnswered
from afl_stream.pubsub.hosting.following import Invocation
from afl_stream.pubsub.hosting.records import RequestReport
from afl_stream.pubsub.model.events import OutputTopicEvent
from afl_stream.transport import TopicPartition

PLACES = {"out": TopicPartition("afl.pubsub.w.out", 2)}


def event(event_id: str, topic: str = "out") -> OutputTopicEvent:
    return OutputTopicEvent(event_id, "r1", topic, 0, event_id)


def report(
    status: RequestStatus = RequestStatus.FINISHED,
    heard: frozenset[str] = frozenset({"input"}),
    outputs: Mapping[str, tuple[int, int | None]] | None = None,
    node: str = "",
) -> RequestReport:
    return RequestReport("r1", status, heard, outputs or {}, node, "out of paper")


class Followed:
    """An invocation, and whether its client was told of its end."""

    def __init__(self, timeout_s: float | None = 5.0, *, is_whole: bool = False) -> None:
        self.ended = 0
        self.invocation = Invocation("w", "r1", self._begin, self._taken, timeout_s)
        self.invocation.is_whole = is_whole

    async def _begin(self, invocation: Invocation) -> None:
        invocation.asked = {"input"}

    def _taken(self, invocation: Invocation) -> None:
        self.ended += invocation.is_over

    async def begun(self) -> asyncio.Task[list[object]]:
        """Begin to read, and return when it waits for news."""

        async def read() -> list[object]:
            return [each.data async for each in self.invocation]

        task = asyncio.create_task(read())
        for _ in range(3):
            await asyncio.sleep(0)
        return task

    def told(self, what: RequestReport, position: int) -> bool:
        """Tell how the request stands; return whether that was about this invocation and has ended it."""
        return self.invocation.take_report(what, PLACES) and self.invocation.has_ended({PLACES["out"]: position})


def test_an_event_that_comes_twice_is_one() -> None:
    async def scenario() -> list[object]:
        followed = Followed()
        reading = await followed.begun()
        for event_id in ("a", "b", "a"):
            followed.invocation.take(event(event_id))
        assert followed.told(report(outputs={"out": (2, 9)}), 9)
        return await reading

    assert asyncio.run(scenario()) == ["a", "b"]


def test_the_end_waits_for_output_that_is_not_read_yet() -> None:
    async def scenario() -> None:
        followed = Followed()
        reading = await followed.begun()
        assert not followed.told(report(outputs={"out": (1, 9)}), 8)
        followed.invocation.take(event("late"))
        assert followed.invocation.has_ended({PLACES["out"]: 9})
        assert await reading == ["late"]
        assert followed.invocation.status is RequestStatus.FINISHED
        assert followed.ended == 1

    asyncio.run(scenario())


def test_a_report_that_does_not_know_the_input_is_about_something_else() -> None:
    async def scenario() -> None:
        followed = Followed()
        reading = await followed.begun()
        assert not followed.told(report(heard=frozenset({"earlier"})), 9)
        assert followed.told(report(RequestStatus.WAITING, heard=frozenset({"earlier", "input"})), 9)
        assert await reading == []
        assert followed.invocation.status is RequestStatus.WAITING

    asyncio.run(scenario())


def test_a_request_that_waits_for_others_is_followed_on() -> None:
    async def scenario() -> None:
        followed = Followed()
        followed.invocation.passes_waits = True
        reading = await followed.begun()
        assert not followed.told(report(RequestStatus.WAITING), 9)
        followed.invocation.take(event("a"))
        assert followed.told(report(), 9)
        assert await reading == ["a"]

    asyncio.run(scenario())


def test_a_report_with_more_output_than_was_read_was_for_another_caller() -> None:
    async def scenario() -> None:
        followed = Followed(is_whole=True)
        reading = await followed.begun()
        followed.told(report(outputs={"out": (1, None)}), 9)
        await asyncio.sleep(0)
        assert not reading.done()
        followed.invocation.take(event("again"))
        followed.told(report(outputs={"out": (1, 10)}), 10)
        assert await reading == ["again"]

    asyncio.run(scenario())


def test_output_that_comes_while_a_question_is_still_being_asked_is_not_lost_at_the_end() -> None:
    class AnsweredAtOnce(Followed):
        async def _begin(self, invocation: Invocation) -> None:
            if not invocation.asked:
                invocation.asked = {"input"}
                return
            invocation.asked = {"question"}
            self.invocation.take(event("before"))
            self.told(report(heard=frozenset({"input", "question"}), outputs={"out": (2, 11)}), 11)

    async def scenario() -> list[object]:
        followed = AnsweredAtOnce(is_whole=True)
        followed.invocation.may_be_next = True
        reading = await followed.begun()
        followed.invocation.take(event("after"))
        followed.told(report(outputs={"out": (2, 9)}), 9)
        return await reading

    assert asyncio.run(scenario()) == ["after", "before"]


@pytest.mark.parametrize(("node", "error"), [("print", NodeFailed), ("", RequestFailed)])
def test_a_failed_request_raises_why(node: str, error: type[Exception]) -> None:
    async def scenario() -> None:
        followed = Followed()
        reading = await followed.begun()
        followed.told(report(RequestStatus.FAILED, node=node), 9)
        with pytest.raises(error, match=r"request r1: .*out of paper"):
            await reading
        assert followed.ended == 1

    asyncio.run(scenario())


def test_the_time_is_up_once_for_all_events() -> None:
    async def scenario() -> None:
        followed = Followed(timeout_s=0.01)
        with pytest.raises(RequestNotAnswered, match=r"not answered in 0\.01 s"):
            await (await followed.begun())
        assert followed.ended == 1
        assert [each async for each in followed.invocation] == []

    asyncio.run(scenario())


def test_a_caller_that_leaves_is_followed_no_longer() -> None:
    async def scenario() -> None:
        followed = Followed()
        reading = await followed.begun()
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        assert followed.ended == 1
        followed.invocation.take(event("a"))
        assert followed.invocation.buffered == 0

    asyncio.run(scenario())


def test_the_error_of_the_client_ends_it() -> None:
    async def scenario() -> None:
        followed = Followed()
        reading = await followed.begun()
        followed.invocation.fail(OSError("gone"))
        with pytest.raises(OSError, match="gone"):
            await reading

    asyncio.run(scenario())
