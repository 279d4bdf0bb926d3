"""Handlers run so many at once, each within its time, and a slot is free again whatever a handler does."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import suppress
from queue import SimpleQueue
from threading import Event

import pytest

from afl.core.handlers.calling import Handler, is_async, takes_context
from afl.core.handlers.outcomes import Call, HandlerBatch, NotRun, Outcome, Raised, Returned, RunTimeEstimate, TimedOut
from afl.core.handlers.pool import SECLUSION_S, HandlerPool
from afl.core.handlers.stuck_handlers import HandlersStuck
from afl.core.process.crashes import Crash
from tests.eventually import eventually


class Bench:
    """A pool whose clock is set by hand, and the outcomes of its calls."""

    def __init__(self, slots: int, max_stuck: int = 64) -> None:
        self.now_s = 0.0
        self.fatal: list[BaseException] = []
        self.stuck: list[HandlersStuck] = []
        self.pool = HandlerPool(
            slots,
            on_fatal=self.fatal.append,
            on_stuck=self.stuck.append,
            max_stuck=max_stuck,
            clock_s=lambda: self.now_s,
        )
        self.outcomes: SimpleQueue[Outcome] = SimpleQueue()
        self.release = Event()

    def start(self, handler: Handler, timeout_s: float | None = None, facet: str = "") -> Call:
        return self.start_lot(handler, timeout_s=timeout_s, facet=facet)[0]

    def start_lot(self, *handlers: Handler, timeout_s: float | None = None, facet: str = "") -> list[Call]:
        assert self.pool.reserve()
        calls = [
            Call(
                handler,
                ({},),
                is_async=is_async(handler),
                timeout_s=timeout_s,
                on_outcome=self.outcomes.put,
                facet=facet,
            )
            for handler in handlers
        ]
        self.pool.run(HandlerBatch(*calls))
        return calls

    def holding(self, began: Event) -> Handler:
        """Return a handler that says when it has begun, and waits to be let through."""

        def hold(payload: object) -> bool:
            began.set()
            return self.release.wait()

        return hold

    def outcome(self) -> Outcome:
        return self.outcomes.get(timeout=10)


@pytest.fixture
def bench() -> Iterator[Bench]:
    bench = Bench(slots=2)
    yield bench
    bench.release.set()
    bench.pool.close()


def test_what_a_handler_returns_is_its_outcome(bench: Bench) -> None:
    bench.start(lambda payload: {"count": 3})

    assert bench.outcome() == Returned({"count": 3})


async def _answer(payload: dict[str, object]) -> dict[str, object]:
    await asyncio.sleep(0)
    return {"count": 3}


def test_what_a_coroutine_returns_is_its_outcome(bench: Bench) -> None:
    bench.start(_answer)

    assert bench.outcome() == Returned({"count": 3})


def test_what_a_plain_function_returns_is_awaited_when_it_can_be(bench: Bench) -> None:
    bench.start(lambda payload: _answer(payload))

    assert bench.outcome() == Returned({"count": 3})


def test_what_a_handler_raises_is_its_outcome(bench: Bench) -> None:
    error = KeyError("amount")

    def handle(payload: object) -> None:
        raise error

    bench.start(handle)
    assert bench.outcome() == Raised(error)


def _exit(payload: object) -> None:
    raise SystemExit(3)


async def _exit_async(payload: object) -> None:
    raise SystemExit(3)


@pytest.mark.parametrize("handler", [_exit, _exit_async])
def test_a_handler_that_exits_ends_itself_and_nobody_else(bench: Bench, handler: Handler) -> None:
    bench.start(handler)

    outcome = bench.outcome()
    assert isinstance(outcome, Raised)
    assert isinstance(outcome.error, SystemExit)
    bench.start(_answer)
    assert bench.outcome() == Returned({"count": 3})
    assert not bench.fatal


def test_what_must_not_be_caught_ends_the_agent(bench: Bench) -> None:
    def handle(payload: object) -> None:
        raise Crash("handler")

    bench.start(handle)
    eventually(lambda: bench.fatal)


def test_no_more_handlers_run_than_there_are_slots(bench: Bench) -> None:
    bench.start(lambda payload: bench.release.wait())
    bench.start(lambda payload: bench.release.wait())
    assert not bench.pool.reserve()

    bench.release.set()
    bench.outcome()
    eventually(lambda: bench.pool.reserve())


def test_a_handler_whose_time_is_up_gives_its_slot_back_and_says_nothing_more(bench: Bench) -> None:
    late = bench.start(lambda payload: {"too": bench.release.wait()}, timeout_s=5)
    bench.now_s = 4.9
    bench.pool.expire()
    assert bench.pool.in_use == 1

    bench.now_s = 5
    bench.pool.expire()

    assert bench.outcome() == TimedOut(5)
    assert bench.pool.in_use == 0
    assert late.is_over
    bench.release.set()
    bench.start(lambda payload: {"next": True})
    assert bench.outcome() == Returned({"next": True})
    assert bench.outcomes.empty()


def test_a_coroutine_whose_time_is_up_is_cancelled(bench: Bench) -> None:
    cancelled = Event()

    async def handle(payload: object) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    bench.start(handle, timeout_s=1)
    bench.start(_answer)
    assert bench.outcome() == Returned({"count": 3})

    bench.now_s = 1
    bench.pool.expire()

    assert bench.outcome() == TimedOut(1)
    assert cancelled.wait(10)


def test_stuck_handlers_do_not_use_up_the_pool(bench: Bench) -> None:
    for round_ in range(5):
        bench.start(lambda payload: bench.release.wait(), timeout_s=1)
        bench.now_s += 1
        bench.pool.expire()
        assert bench.outcome() == TimedOut(1), round_

    bench.start(lambda payload: {"still": "here"})
    assert bench.outcome() == Returned({"still": "here"})


def _numbered(number: int) -> Handler:
    return lambda payload: {"number": number}


def test_the_calls_of_a_lot_run_in_order_in_one_slot(bench: Bench) -> None:
    bench.start_lot(lambda payload: bench.release.wait(), _numbered(1), _numbered(2))
    assert bench.pool.in_use == 1

    bench.release.set()

    assert [bench.outcome() for _ in range(3)] == [
        Returned(True),
        Returned({"number": 1}),
        Returned({"number": 2}),
    ]
    eventually(lambda: bench.pool.in_use == 0)


def test_calls_behind_a_slow_one_continue_where_there_is_room(bench: Bench) -> None:
    began = Event()
    bench.start_lot(bench.holding(began), _numbered(1), _numbered(2))
    assert began.wait(10)

    bench.now_s = 1.0
    for number in (1, 2):
        eventually(bench.pool.reserve)
        bench.pool.release()
        bench.pool.expire()
        assert bench.outcome() == Returned({"number": number})

    bench.release.set()
    assert bench.outcome() == Returned(True)
    eventually(lambda: bench.pool.in_use == 0)


def test_calls_behind_one_whose_time_is_up_have_their_own_time(bench: Bench) -> None:
    began = Event()
    bench.start_lot(bench.holding(began), _numbered(1), timeout_s=5)
    assert began.wait(10)

    bench.now_s = 5
    bench.pool.expire()

    assert bench.outcome() == TimedOut(5)
    assert bench.outcome() == Returned({"number": 1})
    eventually(lambda: bench.pool.in_use == 0)
    bench.release.set()
    bench.start(_numbered(2))
    assert bench.outcome() == Returned({"number": 2})


def test_calls_that_have_not_begun_can_be_taken_back(bench: Bench) -> None:
    began = Event()
    bench.start_lot(bench.holding(began), _numbered(1), _numbered(2))
    assert began.wait(10)

    bench.pool.recall()

    assert [bench.outcome(), bench.outcome()] == [NotRun(), NotRun()]
    bench.release.set()
    assert bench.outcome() == Returned(True)
    eventually(lambda: bench.pool.in_use == 0)


def test_the_pace_of_a_handler_is_known_after_its_first_run_and_follows_the_latest() -> None:
    run_time = RunTimeEstimate()
    assert run_time.mean_s == float("inf")

    run_time.note(0.008)
    assert run_time.mean_s == 0.008
    run_time.note(0.016)
    assert run_time.mean_s == pytest.approx(0.009)


@pytest.mark.parametrize("handler", [lambda payload: None, _answer], ids=["function", "coroutine"])
def test_nothing_starts_between_the_end_of_one_that_ran_secluded_and_the_word_that_it_may(
    bench: Bench, handler: Handler
) -> None:
    assert bench.pool.reserve_secluded("one")
    call = Call(handler, ({},), is_async=is_async(handler), timeout_s=None, on_outcome=bench.outcomes.put)
    bench.pool.run(HandlerBatch(call, secluded=True))
    bench.outcome()
    eventually(lambda: bench.pool.in_use == 0, 10)

    assert not bench.pool.reserve()
    assert not bench.pool.reserve_secluded("one")
    assert not bench.pool.reserve_secluded("other")

    bench.pool.end_seclusion("one")
    assert bench.pool.reserve()


def test_one_that_runs_secluded_waits_until_nothing_runs_and_keeps_others_from_starting(bench: Bench) -> None:
    assert bench.pool.reserve()
    assert not bench.pool.reserve_secluded("one")
    assert not bench.pool.reserve()
    assert not bench.pool.reserve_secluded("other")

    bench.pool.release()
    assert bench.pool.reserve_secluded("one")
    assert not bench.pool.reserve()


def test_one_that_no_longer_wants_to_run_secluded_lets_others_start(bench: Bench) -> None:
    assert bench.pool.reserve()
    assert not bench.pool.reserve_secluded("one")

    bench.pool.end_seclusion("one")
    assert bench.pool.reserve()


def test_others_start_beside_one_that_has_run_secluded_for_long() -> None:
    bench = Bench(slots=3)
    assert bench.pool.reserve()
    assert not bench.pool.reserve_secluded("one")
    bench.now_s += SECLUSION_S
    assert bench.pool.reserve_secluded("one"), "what runs has run for long enough"

    assert not bench.pool.reserve()
    bench.now_s += SECLUSION_S
    assert bench.pool.reserve()


def test_a_free_slot_is_told() -> None:
    bench, reported = Bench(slots=1), Event()
    bench.pool.on_free(reported.set)

    bench.start(lambda payload: None)

    assert reported.wait(10)
    bench.pool.close()


class _WithCall:
    async def __call__(self, payload: object) -> None: ...


def test_whether_a_handler_wants_the_context_is_seen_from_its_parameters() -> None:
    def required(payload: object, about: object) -> None: ...
    def named(payload: object, context: object = None) -> None: ...
    def plain(payload: object) -> None: ...
    def tuned(payload: object, verbose: bool = False) -> None: ...
    def keyword(payload: object, *, context: object = None) -> None: ...

    assert [takes_context(f) for f in (required, named, plain, tuned, keyword)] == [True, True, False, False, False]
    assert not takes_context(dict)


def test_whether_a_handler_is_async_is_seen_from_what_it_is() -> None:
    assert is_async(_answer)
    assert is_async(_WithCall())
    assert not is_async(lambda payload: {})


def test_handlers_that_run_on_after_their_time_are_counted_until_they_end() -> None:
    bench = Bench(slots=4)
    for _ in range(3):
        began = Event()
        bench.start(bench.holding(began), timeout_s=1)
        assert began.wait(10)
    bench.now_s = 1
    bench.pool.expire()
    assert bench.pool.stuck == 3

    bench.release.set()

    eventually(lambda: bench.pool.stuck == 0)
    assert not bench.stuck
    bench.pool.close()


@pytest.mark.parametrize("is_plain", [True, False])
def test_a_coroutine_that_lets_itself_be_cancelled_is_not_stuck(bench: Bench, is_plain: bool) -> None:
    began = Event()

    async def begins(payload: object) -> None:
        began.set()
        await asyncio.Event().wait()

    bench.start((lambda payload: begins(payload)) if is_plain else begins, timeout_s=1)
    assert began.wait(10)
    bench.now_s = 1
    bench.pool.expire()

    eventually(lambda: bench.pool.stuck == 0)


def test_a_coroutine_that_blocks_the_loop_is_stuck_and_so_are_those_that_it_keeps_from_beginning(bench: Bench) -> None:
    began = Event()

    async def blocks(payload: object) -> None:
        began.set()
        bench.release.wait()

    bench.start(blocks, timeout_s=1)
    assert began.wait(10)
    bench.start(_answer, timeout_s=1)
    bench.now_s = 1
    bench.pool.expire()
    assert bench.pool.stuck == 2

    bench.release.set()

    eventually(lambda: bench.pool.stuck == 0)


def test_one_more_stuck_handler_than_may_be_is_told_by_facet() -> None:
    bench = Bench(slots=2, max_stuck=2)
    for number, facet in enumerate(("shop.Pay", "shop.Ship", "shop.Pay")):
        began = Event()
        bench.start(bench.holding(began), timeout_s=1, facet=facet)
        assert began.wait(10)
        bench.now_s += 1
        bench.pool.expire()
        assert len(bench.stuck) == max(number - 1, 0)

    (error,) = bench.stuck
    assert str(error).startswith(
        "3 handlers still run after their time was up, and max_stuck_handlers is 2: shop.Pay (2), shop.Ship (1)"
    )
    bench.release.set()
    bench.pool.close()


def test_a_coroutine_of_a_plain_function_is_stuck_until_it_ends_where_it_is_not_to_be_cancelled(bench: Bench) -> None:
    began = Event()

    async def stays(payload: object) -> None:
        began.set()
        while not bench.release.is_set():
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(0.01)

    bench.start(lambda payload: stays(payload), timeout_s=1)
    assert began.wait(10)
    bench.now_s = 1
    bench.pool.expire()
    assert bench.outcome() == TimedOut(1)
    # The loop has run meanwhile, and with it the cancelling.
    bench.start(_answer)
    assert bench.outcome() == Returned({"count": 3})
    assert bench.pool.stuck == 1

    bench.release.set()

    eventually(lambda: bench.pool.stuck == 0)


def _threads_of(name: str) -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith(f"{name}-")]


def _pool(name: str) -> HandlerPool:
    return HandlerPool(2, max_stuck=2, on_fatal=lambda error: None, name=name)


def test_a_call_whose_time_was_up_before_it_began_is_not_made() -> None:
    pool, made, reported = _pool("early"), Event(), SimpleQueue[Outcome]()
    call = Call(lambda payload: made.set(), ({},), is_async=False, timeout_s=1, on_outcome=reported.put)
    assert call.claim()
    assert pool.reserve()

    pool.run(HandlerBatch(call))

    eventually(lambda: not _threads_of("early"))
    assert not made.is_set()
    assert reported.empty()


@pytest.mark.parametrize("handler", [_answer, lambda payload: _answer(payload)])
def test_a_closed_pool_starts_no_other_loop(bench: Bench, handler: Handler) -> None:
    pool = _pool("closed")
    pool.close()

    outcome = pool.call(handler, ({},), is_async=is_async(handler), timeout_s=5, facet="shop.Pay")

    assert isinstance(outcome, Raised)
    assert isinstance(outcome.error, asyncio.CancelledError)
    eventually(lambda: not _threads_of("closed"))


def test_the_threads_of_a_closed_pool_end_although_a_coroutine_does_not_let_itself_be_cancelled() -> None:
    pool, end = _pool("stubborn"), Event()

    async def stays(payload: object) -> None:
        while not end.is_set():
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(0.01)

    assert pool.call(stays, ({},), is_async=True, timeout_s=0.05, facet="shop.Pay") == TimedOut(0.05)

    pool.close()

    eventually(lambda: not _threads_of("stubborn"))
    end.set()


def test_one_that_waits_for_a_handler_hears_that_its_time_is_up_and_what_is_left_behind_is_counted() -> None:
    pool, release = _pool("waited"), Event()

    outcome = pool.call(lambda payload: release.wait(), ({},), is_async=False, timeout_s=0.05, facet="shop.Pay")

    assert outcome == TimedOut(0.05)
    assert pool.stuck == 1
    another = pool.call(lambda payload: payload, ({"a": 1},), is_async=False, timeout_s=30, facet="shop.Pay")
    assert another == Returned({"a": 1})
    release.set()
    eventually(lambda: pool.stuck == 0)
    pool.close()


def test_what_is_submitted_runs_beside_the_handlers_and_its_error_is_told() -> None:
    reported = SimpleQueue[BaseException]()
    pool, error = HandlerPool(1, max_stuck=2, on_fatal=reported.put), ConnectionError("the store is away")

    def fail() -> None:
        raise error

    assert pool.reserve()
    pool.submit(fail)

    assert reported.get(timeout=10) is error
    pool.close()


def test_the_time_out_is_one_error_for_retry_policies_and_failures() -> None:
    error = TimedOut(1.5).error

    assert isinstance(error, TimeoutError)
    assert str(error) == "the handler did not end within 1.5 s"
