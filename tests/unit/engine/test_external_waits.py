"""Steps that wait for external events: whenever the event comes, one wait takes one event, the oldest of its name."""

from collections.abc import Collection, Mapping

import pytest

from afl.engine.execution.external_events import EventLimits, Raised, RaisedEvent, raise_event
from afl.engine.execution.task_dispatch import TaskDispatch
from afl.engine.model.history import HistoryKind, HistoryRow
from afl.engine.operations.operations import Kind
from afl.engine.states import EventState
from afl.engine.workflow_cache import WorkflowCache
from afl.stores.memory.store import MemoryStore
from tests.unit.engine.running import compiled
from tests.unit.engine.waiting_runs import START_MS, MakeRun, WaitingRun, make_run

__all__ = ["make_run"]

ONE = """
    workflow W(limit: Long = 0) => (r: Json, late: Boolean) andThen {
        a = afl.WaitForEvent(name = "approval", timeout_ms = $.limit)
        yield W(r = a.data, late = a.timed_out)
    }
"""
TWO = """
    workflow W() => (r: [Json]) andThen {
        a = afl.WaitForEvent(name = "go")
        b = afl.WaitForEvent(name = "go")
        yield W(r = [a.data, b.data])
    }
"""
AFTER_SLEEP = """
    workflow W(name: String = "go") => (r: Json) andThen {
        s = afl.Sleep(seconds = 1)
        a = afl.WaitForEvent(name = $.name, timeout_ms = s.woke_at - s.woke_at)
        yield W(r = a.data)
    }
"""


def test_a_step_waits_until_its_event_is_raised(make_run: MakeRun) -> None:
    run = make_run(ONE).start()
    assert (run.status, run.waiting(), run.due()) == ("PAUSED", ["a"], [])
    assert run.document("a").event_state == EventState.WAITING

    assert run.raise_event("approval", {"by": "me"}) is Raised.TAKEN

    assert run.outputs == {"r": {"by": "me"}, "late": False}


def test_only_a_release_with_external_events_reads_a_workflow_that_has_pending_ones(make_run: MakeRun) -> None:
    run = make_run(AFTER_SLEEP).start()
    schemas = [run.row().step_schema_version]

    run.raise_event("go", "early")
    schemas.append(run.row().step_schema_version)
    run.advance(1_000)
    schemas.append(run.row().step_schema_version)

    assert schemas == ["1.0", "1.1", "1.0"]


def test_an_event_that_was_raised_before_the_wait_is_taken_when_it_begins(make_run: MakeRun) -> None:
    run = make_run(AFTER_SLEEP).start()

    assert run.raise_event("go", "early") is Raised.QUEUED
    assert run.row().pending_events == 1
    run.advance(1_000)

    assert run.outputs == {"r": "early"}
    assert run.row().pending_events == 0


@pytest.mark.parametrize("data", [None, "", 0, {}, [], "x" * 100_000, {"deep": [{"er": True}]}])
def test_any_data_arrive_whole(make_run: MakeRun, data: object) -> None:
    run = make_run(ONE).start()

    run.raise_event("approval", data)  # type: ignore[arg-type]  # values

    assert run.outputs["r"] == data


def test_events_of_one_name_are_taken_first_in_first_out(make_run: MakeRun) -> None:
    run = make_run("""
        workflow W() => (r: [Json]) andThen {
            s = afl.Sleep(ms = 5)
            a = afl.WaitForEvent(name = "go", timeout_ms = s.woke_at - s.woke_at)
            b = afl.WaitForEvent(name = "go", timeout_ms = 0 * a.data)
            c = afl.WaitForEvent(name = "go", timeout_ms = 0 * b.data)
            yield W(r = [a.data, b.data, c.data])
        }
    """).start()
    for number in (1, 2, 3):
        assert run.raise_event("go", number) is Raised.QUEUED

    run.advance(5)

    assert run.outputs == {"r": [1, 2, 3]}


def test_the_older_of_two_waits_takes_the_first_event(make_run: MakeRun) -> None:
    run = make_run(TWO).start()

    run.raise_event("go", "first")
    assert run.waiting() == ["b"]
    run.raise_event("go", "second")

    assert run.outputs == {"r": ["first", "second"]}


def test_events_of_other_names_do_not_interfere(make_run: MakeRun) -> None:
    run = make_run(ONE).start()

    assert run.raise_event("Approval", "wrong") is Raised.QUEUED
    assert run.raise_event("approval2", "wrong") is Raised.QUEUED
    assert run.raise_event("approval", "right") is Raised.TAKEN

    assert run.outputs["r"] == "right"
    assert run.row().pending_events == 2


def test_waits_of_a_foreach_are_joined(make_run: MakeRun) -> None:
    run = make_run("""
        workflow W(names: [String]) => (r: [Json]) andThen foreach name in $.names {
            a = afl.WaitForEvent(name = name)
            yield W(r = [a.data])
        }
    """).start({"names": ["x", "y", "x", "z"]})

    assert [run.raise_event(name, name * 2) for name in "zxy"] == [Raised.TAKEN] * 3
    assert run.waiting() == ["[2].a"]
    run.raise_event("x", "late x")

    assert run.outputs == {"r": ["xx", "yy", "late x", "zz"]}


def test_nested_blocks_and_mixins_wait_too(make_run: MakeRun) -> None:
    run = make_run("""
        facet Approved(n: Long) => (by: Json) andThen {
            a = afl.WaitForEvent(name = "approval")
            yield Approved(by = a.data)
        }
        facet Guarded(n: Long) => (both: Json) with Approved(n = $.n) as first andThen {
            a = afl.WaitForEvent(name = "approval")
            yield Guarded(both = [$.first.by, a.data])
        }
        workflow W() => (r: Json) andThen {
            a = afl.WaitForEvent(name = "begin") andThen {
                g = Guarded(n = 1)
                b = afl.WaitForEvent(name = "approval")
                yield W(r = [a.data, g.both, b.data])
            }
        }
    """).start()
    run.raise_event("begin", "begun")
    for number in range(3):
        assert run.raise_event("approval", number) is Raised.TAKEN

    # `b` was there first, then that of the mixin, and then that behind it.
    assert run.outputs == {"r": ["begun", [1, 2], 0]}


def test_the_history_has_waits_and_events_in_their_order(make_run: MakeRun) -> None:
    run = make_run(AFTER_SLEEP).start()
    run.raise_event("go", "data", "id-1")
    run.now_ms += 10
    run.raise_event("else", 2, "id-2")
    run.advance(1_000)

    first, other, wait = run.history()
    step = run.step("a").id
    assert (first.kind, first.name, first.value, first.event_id) == (HistoryKind.EXTERNAL_EVENT, "go", "data", "id-1")
    assert (first.execution, first.at_ms, first.is_pending) == (1, START_MS, False)
    assert (first.step_id, first.until_execution) == (step, 1)
    assert (other.name, other.at_ms, other.is_pending, other.step_id) == ("else", START_MS + 10, True, "")
    assert (wait.kind, wait.name, wait.step_id) == (HistoryKind.EXTERNAL_SUBSCRIBED, "go", step)
    assert [row.number for row in run.history()] == [0, 1, 2]


# --- time limits ------------------------------------------------------------------------------------------------------


def test_a_wait_with_a_limit_ends_with_it(make_run: MakeRun) -> None:
    run = make_run(ONE).start({"limit": 500})
    assert run.due() == [("wait", 500)]

    assert run.advance(499).status == "PAUSED"
    run.advance(1)

    assert run.outputs == {"r": None, "late": True}
    assert run.timers() == []


def test_an_event_before_the_limit_leaves_no_timer(make_run: MakeRun) -> None:
    run = make_run(ONE).start({"limit": 500})
    (timer,) = run.timers()
    run.advance(400)

    run.raise_event("approval", "yes")

    assert run.outputs == {"r": "yes", "late": False}
    assert run.timers() == []
    assert not run.fire(timer)


def test_an_event_after_the_limit_stays_pending(make_run: MakeRun) -> None:
    run = make_run("""
        workflow W() => (r: [Json]) andThen {
            a = afl.WaitForEvent(name = "go", timeout_ms = 10)
            s = afl.Sleep(ms = 20)
            b = afl.WaitForEvent(name = "go", timeout_ms = s.woke_at - s.woke_at)
            yield W(r = [a.data, b.data])
        }
    """).start()
    run.advance(15)

    assert run.raise_event("go", "for b") is Raised.QUEUED
    run.advance(5)

    assert run.outputs == {"r": [None, "for b"]}


def test_a_wait_in_the_middle_of_the_queue_may_end_first(make_run: MakeRun) -> None:
    run = make_run("""
        workflow W(limits: [Long] = [0, 10, 0]) => (r: [Json]) andThen foreach ms in $.limits {
            a = afl.WaitForEvent(name = "go", timeout_ms = ms)
            yield W(r = [a.data])
        }
    """).start()
    run.advance(10)

    run.raise_event("go", 1)
    run.raise_event("go", 2)

    assert run.outputs == {"r": [1, None, 2]}


# --- by hand, and ends ------------------------------------------------------------------------------------------------


def test_a_person_may_answer_a_wait(make_run: MakeRun) -> None:
    run = make_run(ONE).start({"limit": 500})

    run.answer("a", data="by hand")

    assert run.outputs == {"r": "by hand", "late": False}
    assert run.timers() == []
    assert run.raise_event("approval", "too late") is Raised.ENDED


def test_a_partial_answer_does_not_end_a_wait(make_run: MakeRun) -> None:
    run = make_run(ONE).start({"limit": 500})

    run.update("a", data="part")
    assert run.document("a").event_state == EventState.WAITING
    run.raise_event("approval", "whole")

    assert run.outputs == {"r": "whole", "late": False}


def test_a_person_may_fail_a_wait_and_a_catch_sees_it(make_run: MakeRun) -> None:
    run = make_run("""
        workflow W() => (r: Json) andThen {
            a = afl.WaitForEvent(name = "go", timeout_ms = 500)
            yield W(r = a.data)
        } catch { yield W(r = $.error_type) }
    """).start()

    run.fail("a", "Refused")

    assert run.outputs == {"r": "Refused"}
    assert run.timers() == []


def test_a_cancelled_run_waits_for_nothing(make_run: MakeRun) -> None:
    run = make_run(ONE).start({"limit": 500})

    run.cancel()

    assert run.status == "CANCELLED"
    assert run.timers() == []
    assert run.document("a").event_state == EventState.CANCELED
    assert run.raise_event("approval") is Raised.ENDED


def test_an_event_after_the_end_is_in_the_history_and_never_taken(make_run: MakeRun) -> None:
    run = make_run(ONE).start()
    run.raise_event("approval", 1)
    revision = run.row().revision

    assert run.raise_event("approval", "late") is Raised.ENDED

    late = run.history(HistoryKind.EXTERNAL_EVENT)[-1]
    assert (late.value, late.is_pending, late.step_id, late.until_execution) == ("late", False, "", 1)
    assert (run.row().status, run.row().pending_events, run.row().revision) == ("COMPLETED", 0, revision + 1)


def test_a_run_that_only_waits_is_not_stuck(make_run: MakeRun) -> None:
    assert make_run(TWO).start().status == "PAUSED"


def test_a_run_waits_on_while_another_part_of_it_has_failed(make_run: MakeRun) -> None:
    run = make_run("""
        event facet E() => (r: Json)
        workflow W() => (r: Json) andThen {
            a = afl.WaitForEvent(name = "go")
            e = E()
            yield W(r = [a.data, e.r])
        }
    """).start()
    run.fail("e")
    assert run.status == "PAUSED"

    run.raise_event("go")

    assert run.error()[0] == "Broken"


# --- in one commit ----------------------------------------------------------------------------------------------------


def test_an_event_that_is_raised_and_taken_in_one_commit_is_one_row(make_run: MakeRun) -> None:
    run = make_run(AFTER_SLEEP).start()
    (timer,) = run.timers()

    with run.together():
        run.raise_event("go", 1)
        run.fire(timer)

    assert run.outputs == {"r": 1}
    (event,) = run.history(HistoryKind.EXTERNAL_EVENT)
    assert (event.is_pending, event.step_id, run.timers()) == (False, run.step("a").id, [])


def test_a_wait_that_begins_and_ends_in_one_commit_leaves_no_timer(make_run: MakeRun) -> None:
    run = make_run(ONE)

    with run.together():
        run.start({"limit": 500})
        run.raise_event("approval", 1)

    assert (run.outputs, run.timers()) == ({"r": 1, "late": False}, [])


def test_several_events_of_one_commit_are_taken_in_their_order(make_run: MakeRun) -> None:
    run = make_run(TWO).start()

    with run.together():
        raised = [run.raise_event("go", number) for number in range(4)]

    assert raised == [Raised.TAKEN, Raised.TAKEN, Raised.ENDED, Raised.ENDED]
    assert run.outputs == {"r": [0, 1]}


# --- before the start -------------------------------------------------------------------------------------------------


def test_events_that_were_raised_before_the_start_are_taken_in_their_order(make_run: MakeRun) -> None:
    run = make_run(TWO)
    for number in range(3):
        run.raise_early("go", number)

    run.start()

    assert run.outputs == {"r": [0, 1]}
    events = run.history(HistoryKind.EXTERNAL_EVENT)
    assert [(row.number, row.is_pending, row.expires_at_ms) for row in events] == [
        (0, False, 0),
        (1, False, 0),
        (2, True, 0),
    ]


def test_an_event_that_a_start_has_missed_is_adopted_later(make_run: MakeRun) -> None:
    run = make_run(AFTER_SLEEP).start()
    run.raise_early("go", "first")
    run.restart()
    run.raise_event("go", "second")
    assert run.row().pending_events == 1

    run.adopt_late()
    run.advance(1_000)

    assert run.outputs == {"r": "first"}
    assert run.early_events() == []


def test_an_adopted_event_ends_a_wait_or_comes_too_late(make_run: MakeRun) -> None:
    run = make_run(ONE).start()
    for data in (1, 2):
        run.raise_early("approval", data)
        run.restart()
        run.adopt_late()

    assert run.outputs["r"] == 1
    late = run.history(HistoryKind.EXTERNAL_EVENT)[-1]
    assert (late.value, late.is_pending, late.step_id, late.until_execution) == (2, False, "", 1)


# --- limits -----------------------------------------------------------------------------------------------------------


def test_an_event_over_the_limit_is_not_written(make_run: MakeRun) -> None:
    run = make_run(ONE, limits=EventLimits(max_pending=2)).start()
    raised = [run.raise_event("other", n) for n in range(3)]
    revision = run.row().revision

    assert raised == [Raised.QUEUED, Raised.QUEUED, Raised.LIMIT]
    assert [row.value for row in run.history(HistoryKind.EXTERNAL_EVENT)] == [0, 1]
    assert run.row().revision == revision


def test_an_event_that_is_waited_for_counts_for_no_limit(make_run: MakeRun) -> None:
    run = make_run(ONE, limits=EventLimits(max_pending=1)).start()
    run.raise_event("other")

    assert run.raise_event("approval", 1) is Raised.TAKEN


def test_events_that_were_taken_make_room(make_run: MakeRun) -> None:
    text = """
        workflow W() andThen {
            s = afl.Sleep(seconds = 1)
            a = afl.WaitForEvent(name = "go", timeout_ms = s.woke_at - s.woke_at)
            b = afl.WaitForEvent(name = "end")
        }
    """
    run = make_run(text, limits=EventLimits(max_pending=2)).start()
    assert [run.raise_event("go", n) for n in range(3)] == [Raised.QUEUED, Raised.QUEUED, Raised.LIMIT]

    run.advance(1_000)

    assert run.row().pending_events == 1
    assert [run.raise_event("go", n) for n in range(2)] == [Raised.QUEUED, Raised.LIMIT]


def test_bytes_of_pending_events_are_limited(make_run: MakeRun) -> None:
    run = make_run(ONE, limits=EventLimits(max_pending_bytes=1_000)).start()

    assert run.raise_event("other", "x" * 600) is Raised.QUEUED
    assert run.raise_event("other", "x" * 600) is Raised.LIMIT
    assert run.raise_event("other", "x" * 300) is Raised.QUEUED


def test_data_over_the_limit_of_a_value_fail_the_step_that_takes_them(make_run: MakeRun) -> None:
    run = make_run(ONE).start()

    run.raise_event("approval", "x" * (17 * 1024 * 1024))

    assert run.error()[0] == "ValueTooLarge"
    assert run.history(HistoryKind.EXTERNAL_EVENT)[0].step_id == run.step("a").id


@pytest.mark.parametrize(
    ("name", "limit", "message"),
    [
        ("", 0, 'afl.WaitForEvent: name is "", expected the name of an event, a text that is not empty'),
        ("go", -5, "afl.WaitForEvent: timeout_ms is -5, expected 0 (no limit) or more"),
        ("go", 10**13, "afl.WaitForEvent: timeout_ms is 10000000000000, expected a hundred years at most"),
    ],
)
def test_arguments_that_give_no_wait_fail_the_step(make_run: MakeRun, name: str, limit: int, message: str) -> None:
    run = make_run("""
        workflow W(name: String, limit: Long) andThen {
            a = afl.WaitForEvent(name = $.name, timeout_ms = $.limit)
        }
    """).start({"name": name, "limit": limit})

    assert run.error() == ("InvalidWait", message)


# --- operators --------------------------------------------------------------------------------------------------------


def test_a_step_that_is_run_again_waits_for_another_event(make_run: MakeRun) -> None:
    run = make_run(ONE).start({"limit": 500})
    run.raise_event("approval", 1)

    run.operate(Kind.RERUN, "a")
    assert run.due() == [("wait", 500)]
    run.raise_event("approval", 2)

    assert run.outputs == {"r": 2, "late": False}


def test_a_step_that_waits_again_has_its_old_place_among_the_waits(make_run: MakeRun) -> None:
    run = make_run(TWO).start()
    run.fail("a")

    run.operate(Kind.RETRY, "a")
    run.raise_event("go", 1)
    assert run.waiting() == ["b"]
    run.raise_event("go", 2)

    assert run.outputs == {"r": [1, 2]}


def test_a_run_that_is_reset_while_it_waits_has_one_timer(make_run: MakeRun) -> None:
    run = make_run(ONE).start({"limit": 500})
    run.advance(100)

    run.operate(Kind.RESET)

    assert run.due() == [("wait", 600)]
    run.raise_event("approval", "yes")
    assert run.outputs["r"] == "yes"


def test_a_cancelled_run_that_is_retried_waits_again(make_run: MakeRun) -> None:
    run = make_run(ONE).start({"limit": 500})
    run.raise_event("other", "kept")
    run.cancel()

    run.operate(Kind.RETRY)

    assert (run.status, run.due(), run.row().pending_events) == ("PAUSED", [("wait", 500)], 1)
    run.raise_event("approval", "yes")
    assert run.outputs == {"r": "yes", "late": False}


def test_an_ordinary_workflow_takes_events_without_a_look_at_its_history() -> None:
    run = WaitingRun("""
        event facet E() => (r: Json)
        workflow W() => (r: Json) andThen { e = E()  yield W(r = e.r) }
    """).start()
    run.restart()
    assert run.execution.inbox.next_number is None

    assert run.raise_event("x", 1) is Raised.QUEUED
    run.restart()
    assert [event.value for event in run.execution.inbox] == [1]
    run.answer("e", r=5)

    assert run.outputs == {"r": 5}


# --- memory -----------------------------------------------------------------------------------------------------------


class AskedStore(MemoryStore):
    """Counts the questions about histories."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []

    def pending_events(self, workflow_ids: Collection[str]) -> dict[str, list[HistoryRow]]:
        self.asked.append("pending")
        return super().pending_events(workflow_ids)

    def history_sizes(self, workflow_ids: Collection[str]) -> Mapping[str, int]:
        self.asked.append("size")
        return super().history_sizes(workflow_ids)


ORDINARY = """
    event facet E() => (r: Json)
    workflow W() => (r: Json) andThen { e = E() with Retry()  s = afl.Sleep(ms = 5)  yield W(r = e.r) }
"""


@pytest.mark.parametrize(
    ("text", "events", "asked"),
    [(ORDINARY, 0, []), (ORDINARY, 2, ["pending", "size"]), (ONE, 0, ["size"]), (ONE, 1, ["pending", "size"])],
)
def test_a_workflow_is_read_with_as_few_questions_as_possible(text: str, events: int, asked: list[str]) -> None:
    store = AskedStore()
    run = WaitingRun(text, store=store).start()
    for _ in range(events):
        run.raise_event("other")
    store.asked.clear()

    execution = run.cache.read("run")

    assert store.asked == asked
    assert execution is not None
    assert execution.inbox.next_number == (None if not asked else len(store.history("run")))


def test_pending_events_count_as_memory_of_a_workflow() -> None:
    """There is room for a hundred steps; each of two workflows has few steps, and events of as many bytes as 60."""
    cache = WorkflowCache(MemoryStore(), TaskDispatch(), hot_steps=100)
    plan = cache.plan(compiled(ONE), "W")
    for workflow_id in ("small", "large", "larger"):
        execution = cache.start(plan, workflow_id, {}, START_MS)
        if workflow_id != "small":
            raise_event(execution, RaisedEvent("id", "other", "x" * 42_000, START_MS), EventLimits())
        cache.keep(execution)

    assert [cache.hot_revision(workflow_id) for workflow_id in ("small", "large", "larger")] == [None, 0, 0]
