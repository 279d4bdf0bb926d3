"""What is done about each firing: by the overlap policy, after outages, and in any order of both."""

import json
import random
from dataclasses import replace

import pytest

from afl_stream.schedules.documents import Schedule, ScheduleUnreadable, from_document, to_document
from afl_stream.schedules.firings import (
    MAX_PASSED,
    MAX_STARTS,
    Decision,
    ScheduleState,
    decide,
    next_look_ms,
    pass_over,
    trigger,
)
from afl_stream.schedules.spec import Overlap, ScheduleSpec

MINUTE = 60_000
#: Midnight of some day.
T0 = 1_767_225_600_000
EVERY_MINUTE = ScheduleSpec(workflow="shop.Checkout", interval_ms=MINUTE, catch_up_ms=10 * MINUTE)


def started(decision: Decision) -> list[int]:
    """Return the minutes of the firings that start a run."""
    return [(firing.at_ms - T0) // MINUTE for firing in decision.starts]


def ended(state: ScheduleState) -> ScheduleState:
    return replace(state, runs=())


def test_a_firing_starts_a_run_whose_id_is_derived_from_its_time() -> None:
    decision = decide("m", EVERY_MINUTE, ScheduleState(decided_ms=T0), T0 + MINUTE)

    assert [firing.workflow_id for firing in decision.starts] == ["m-20260101T000100Z"]
    assert (decision.state.fired, decision.state.last_run) == (1, "m-20260101T000100Z")
    assert next_look_ms(EVERY_MINUTE, decision.state) == T0 + 2 * MINUTE


def test_a_firing_is_decided_once() -> None:
    first = decide("m", EVERY_MINUTE, ScheduleState(decided_ms=T0), T0 + MINUTE)

    assert decide("m", EVERY_MINUTE, ended(first.state), T0 + MINUTE).starts == []
    assert decide("m", EVERY_MINUTE, ended(first.state), T0 + 2 * MINUTE - 1).starts == []


def test_skip_starts_nothing_while_a_run_goes_on() -> None:
    first = decide("m", EVERY_MINUTE, ScheduleState(decided_ms=T0), T0 + MINUTE)
    second = decide("m", EVERY_MINUTE, first.state, T0 + 3 * MINUTE)

    assert (started(second), second.skipped, second.state.skipped) == ([], 2, 2)
    assert started(decide("m", EVERY_MINUTE, ended(second.state), T0 + 4 * MINUTE)) == [4]


def test_queue_keeps_one_firing_and_skips_the_others() -> None:
    spec = replace(EVERY_MINUTE, overlap=Overlap.QUEUE)
    first = decide("m", spec, ScheduleState(decided_ms=T0), T0 + MINUTE)
    later = decide("m", spec, first.state, T0 + 4 * MINUTE)

    assert (started(later), later.skipped, later.state.queued_ms) == ([], 2, T0 + 2 * MINUTE)
    assert next_look_ms(spec, later.state) == T0 + 2 * MINUTE
    after = decide("m", spec, ended(later.state), T0 + 4 * MINUTE + 5_000)
    assert (started(after), after.state.queued_ms) == ([2], None)


def test_allow_starts_every_run() -> None:
    spec = replace(EVERY_MINUTE, overlap=Overlap.ALLOW)
    decision = decide("m", spec, ScheduleState(decided_ms=T0), T0 + 3 * MINUTE)

    assert started(decision) == [1, 2, 3]


def test_after_an_outage_what_is_in_the_window_fires_in_order_and_the_rest_is_missed() -> None:
    spec = replace(EVERY_MINUTE, overlap=Overlap.ALLOW)
    decision = decide("m", spec, ScheduleState(decided_ms=T0), T0 + 30 * MINUTE)

    assert started(decision) == [*range(20, 31)]
    assert (decision.missed, decision.first_missed_ms) == (19, T0 + MINUTE)
    assert decision.last_missed_ms == T0 + 19 * MINUTE


def test_after_an_outage_skip_starts_one_run_of_those_in_the_window() -> None:
    decision = decide("m", EVERY_MINUTE, ScheduleState(decided_ms=T0), T0 + 30 * MINUTE)

    assert (started(decision), decision.skipped, decision.missed) == ([20], 10, 19)


def test_very_many_firings_are_decided_in_turns() -> None:
    spec = replace(EVERY_MINUTE, interval_ms=1_000, overlap=Overlap.ALLOW)
    state, starts, missed, now_ms = ScheduleState(decided_ms=T0), 0, 0, T0 + 86_400_000
    while True:
        decision = decide("m", spec, state, now_ms)
        assert len(decision.starts) <= MAX_STARTS
        assert decision.missed <= MAX_PASSED
        starts, missed, state = starts + len(decision.starts), missed + decision.missed, decision.state
        if (next_look_ms(spec, state) or 0) > now_ms:
            break

    # The window's first second is inside.
    assert (starts, missed) == (601, 86_400 - 601)
    assert (state.fired, state.missed) == (starts, missed)


def test_nothing_fires_while_it_is_paused_and_nothing_of_the_pause_is_made_up() -> None:
    paused = ScheduleState(decided_ms=T0, paused=True)
    assert decide("m", EVERY_MINUTE, paused, T0 + 5 * MINUTE).starts == []
    assert next_look_ms(EVERY_MINUTE, paused) is None

    resumed = replace(pass_over(EVERY_MINUTE, paused, T0 + 5 * MINUTE), paused=False)
    assert started(decide("m", EVERY_MINUTE, resumed, T0 + 6 * MINUTE)) == [6]
    assert resumed.missed == 0


def test_what_was_due_before_a_pause_and_not_looked_at_is_missed() -> None:
    assert pass_over(EVERY_MINUTE, ScheduleState(decided_ms=T0), T0 + 5 * MINUTE).missed == 5


def test_a_schedule_past_its_end_is_looked_at_never_again() -> None:
    spec = replace(EVERY_MINUTE, end_at=T0 + MINUTE)
    decision = decide("m", spec, ScheduleState(decided_ms=T0), T0 + MINUTE)

    assert started(decision) == [1]
    assert next_look_ms(spec, decision.state) is None


def test_two_triggers_of_a_second_are_two_runs() -> None:
    first, state = trigger("m", ScheduleState(decided_ms=T0), T0 + 10)
    second, state = trigger("m", state, T0 + 20)

    assert [first.workflow_id, second.workflow_id] == ["m-20260101T000000Z-t", "m-20260101T000001Z-t"]
    assert state.triggered == 2


def test_a_run_that_was_refused_holds_up_nothing() -> None:
    first = decide("m", EVERY_MINUTE, ScheduleState(decided_ms=T0), T0 + MINUTE)
    state = first.state.without("m-20260101T000100Z", "there is no such workflow")

    assert (state.refused, state.last_refusal) == (1, "there is no such workflow")
    assert started(decide("m", EVERY_MINUTE, state, T0 + 2 * MINUTE)) == [2]


def test_a_document_holds_all_of_a_schedule() -> None:
    spec = replace(EVERY_MINUTE, inputs={"order": 17, "parts": [1.5, None]}, overlap=Overlap.QUEUE)
    state = decide("m", spec, ScheduleState(decided_ms=T0), T0 + 3 * MINUTE).state.after("c-1")
    schedule = Schedule("m", spec, state.without("other", "why"))

    assert from_document("m", json.loads(json.dumps(to_document(schedule)))) == schedule


@pytest.mark.parametrize(
    "document", [{}, {"spec": 1, "state": {}}, {"spec": {}, "state": {}}, {"spec": {"overlap": "x"}}]
)
def test_a_document_of_another_kind_is_unreadable(document: dict[str, object]) -> None:
    with pytest.raises(ScheduleUnreadable, match="schedule m cannot be read"):
        from_document("m", document)


def test_entries_of_a_later_release_are_passed_over() -> None:
    schedule = Schedule("m", EVERY_MINUTE, ScheduleState(decided_ms=T0))
    document = json.loads(json.dumps(to_document(schedule)))
    document["spec"]["jitter_ms"] = 5

    assert from_document("m", document) == schedule


# --- any outages, judged by a model that only counts ------------------------------------------------------------------


def looks_of(seed: int) -> tuple[ScheduleSpec, list[int], random.Random]:
    """Return a schedule, and the moments at which an evaluator looks at it: now and then after an outage."""
    drawn = random.Random(seed)
    interval_ms = drawn.choice((1_000, 7_000, MINUTE, 90_500))
    spec = ScheduleSpec(
        workflow="a.B",
        interval_ms=interval_ms,
        start_at=T0 + drawn.randrange(0, 5 * interval_ms),
        overlap=drawn.choice([*Overlap]),
        catch_up_ms=drawn.choice((10_000, MINUTE, 20 * MINUTE)),
    )
    now_ms, looks = T0, []
    for _ in range(drawn.randrange(2, 25)):
        now_ms += drawn.randrange(30 * interval_ms) if drawn.random() < 0.2 else drawn.randrange(2 * interval_ms)
        looks.append(now_ms)
    return spec, looks, drawn


def expected_firings(spec: ScheduleSpec, until_ms: int) -> list[int]:
    """Every firing after T0, by counting up."""
    at, found = spec.start_at or 0, []
    while at <= until_ms:
        if at > T0:
            found.append(at)
        at += spec.interval_ms or 0
    return found


@pytest.mark.parametrize("first_seed", range(0, 4_000, 500))
def test_of_any_outages_no_firing_inside_the_window_is_lost_and_none_comes_twice(first_seed: int) -> None:
    for seed in range(first_seed, first_seed + 500):
        spec, looks, drawn = looks_of(seed)
        state, seen, in_window = ScheduleState(decided_ms=T0), 0, 0
        starts: list[int] = []
        for now_ms in looks:
            for _ in range(50):
                if drawn.random() < 0.6:
                    state = ended(state)
                decision = decide("m", spec, state, now_ms)
                # Another evaluator that decides from the same row asks for the same runs.
                assert decide("m", spec, state, now_ms).starts == decision.starts
                state = decision.state
                starts += [firing.at_ms for firing in decision.starts]
                if spec.overlap is not Overlap.ALLOW:
                    assert len(decision.starts) <= 1
                if not decision.has_effect:
                    break
            due = expected_firings(spec, now_ms)[seen:]
            seen += len(due)
            in_window += sum(now_ms - at <= spec.catch_up_ms for at in due)
            waiting = state.queued_ms is not None
            assert state.fired + state.skipped + waiting == in_window, seed
            assert state.missed == seen - in_window, seed
        assert starts == sorted(set(starts)), seed
        assert set(starts) <= set(expected_firings(spec, looks[-1])), seed
        if spec.overlap is Overlap.ALLOW:
            assert len(starts) == in_window, seed
