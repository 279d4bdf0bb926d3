"""The offset to commit never passes unfinished work, and what is finished above it is known to the next owner."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from afl_stream.reading.offset_tracker import MAX_METADATA_CHARS, MAX_WINDOW, PartitionProgress
from afl_stream.transport import CommittedOffset


def progress_at(offset: int, metadata: str = "", window: int = 100) -> PartitionProgress:
    return PartitionProgress(CommittedOffset(offset=offset, metadata=metadata), window)


def checkpoint_of(progress: PartitionProgress, *, clean: bool = False) -> CommittedOffset:
    committed = progress.checkpoint(clean=clean)
    assert committed is not None
    return committed


def test_nothing_is_committed_before_anything_was_read() -> None:
    assert PartitionProgress(None, 100).checkpoint() is None


def test_a_slow_record_holds_the_position_while_fast_ones_overtake_it() -> None:
    progress = progress_at(10)
    for offset in (10, 11, 12):
        assert progress.take(offset)

    progress.finish(11)
    progress.finish(12)
    assert progress.position == 10

    progress.finish(10)
    assert progress.position == 13


def test_finished_records_above_the_position_are_not_run_again_after_a_restart() -> None:
    before = progress_at(10)
    for offset in range(10, 15):
        before.take(offset)
    before.finish(11)
    before.finish(13)

    after = PartitionProgress(before.checkpoint(), 100)

    assert [offset for offset in range(10, 15) if after.take(offset)] == [10, 12, 14]
    for offset in (10, 12, 14):
        after.finish(offset)
    assert checkpoint_of(after, clean=True) == CommittedOffset(offset=15, metadata="")


def test_marks_of_records_not_yet_read_again_survive_the_next_commit() -> None:
    before = progress_at(0)
    for offset in range(6):
        before.take(offset)
    before.finish(5)
    before.start(3)

    middle = PartitionProgress(before.checkpoint(), 100)
    middle.take(0)
    middle.finish(0)

    after = PartitionProgress(middle.checkpoint(), 100)
    assert after.crashes(3) == 1
    assert [offset for offset in range(1, 6) if after.take(offset)] == [1, 2, 3, 4]


def test_a_record_that_was_running_when_the_process_died_counts_one_crash_more_each_time() -> None:
    committed: CommittedOffset | None = CommittedOffset(offset=7)
    for deaths in range(3):
        progress = PartitionProgress(committed, 100)
        progress.take(7)
        assert progress.crashes(7) == deaths
        progress.start(7)
        committed = progress.checkpoint()
    assert PartitionProgress(committed, 100).crashes(7) == 3


def test_a_record_that_runs_on_while_its_partition_leaves_in_good_order_is_no_crash() -> None:
    progress = progress_at(7)
    progress.take(7)
    progress.start(7)

    assert PartitionProgress(progress.checkpoint(clean=True), 100).crashes(7) == 0


def test_a_record_that_waits_for_its_retry_is_not_running() -> None:
    progress = progress_at(7)
    progress.take(7)
    progress.start(7)
    progress.pause(7)

    assert PartitionProgress(progress.checkpoint(), 100).crashes(7) == 0


@pytest.mark.parametrize("clean", [True, False])
def test_failed_tries_are_known_to_the_next_owner_until_the_record_is_finished(clean: bool) -> None:
    progress = progress_at(10)
    for offset in (10, 11, 12):
        progress.take(offset)
    progress.failed_tries.update({10: 2, 12: 1})

    successor = PartitionProgress(checkpoint_of(progress, clean=clean), 100)
    assert successor.failed_tries == {10: 2, 12: 1}

    for offset in (10, 11, 12):
        successor.take(offset)
    successor.finish(10)
    assert successor.finish_all([11]) == 1
    assert PartitionProgress(checkpoint_of(successor), 100).failed_tries == {12: 1}
    successor.finish_all([12])
    assert " t" not in checkpoint_of(successor).metadata


def test_a_record_whose_handler_has_ended_counts_no_crash_though_it_is_unfinished() -> None:
    class Run:
        is_running = True

    progress, run = progress_at(7), Run()
    progress.take(7)
    progress.start(7, run)
    assert PartitionProgress(progress.checkpoint(), 100).crashes(7) == 1

    run.is_running = False
    assert PartitionProgress(progress.checkpoint(), 100).crashes(7) == 0


@pytest.mark.parametrize("clean", [False, True])
def test_what_is_read_again_is_known_to_the_next_owner_until_it_is_past(clean: bool) -> None:
    progress = progress_at(5)
    progress.read_again_until = 7
    for offset in (5, 6, 7):
        progress.take(offset)
    progress.finish(6)
    progress.start(5)
    after = PartitionProgress(checkpoint_of(progress, clean=clean), 100)
    progress.finish(5)
    past = PartitionProgress(checkpoint_of(progress, clean=clean), 100)

    assert (after.read_again_until, after.crashes(5)) == (7, 0 if clean else 1)
    assert [offset for offset in (5, 6, 7) if after.take(offset)] == [5, 7]
    assert past.read_again_until == 0


def test_the_window_ends_so_many_records_past_the_oldest_unfinished_one() -> None:
    progress = progress_at(20, window=3)
    progress.take(20)

    assert progress.has_room_for(22)
    assert not progress.has_room_for(23)

    progress.finish(20)
    assert progress.has_room_for(23)


def announced(progress: PartitionProgress) -> PartitionProgress:
    progress.is_announced = True
    return progress


def test_after_a_member_that_left_in_good_order_nothing_is_doubtful_once_the_next_has_said_that_it_is_at_work() -> None:
    left = progress_at(20, window=3).checkpoint(clean=True)

    progress = PartitionProgress(left, 3)
    assert progress.is_doubtful(20)
    assert not announced(progress).is_doubtful(20)


def test_after_a_member_that_did_not_leave_the_first_window_is_doubtful() -> None:
    died = progress_at(20, window=3).checkpoint()

    progress = announced(PartitionProgress(died, 3))
    assert progress.is_doubtful(22)
    assert not progress.is_doubtful(23)


@pytest.mark.parametrize("foreign", ["", "set by hand", "afl2 fAAAA", "afl1 f!!", "afl1 c1:x", "afl1 fA"])
def test_metadata_that_says_nothing_to_us_costs_work_done_twice_and_no_more(foreign: str) -> None:
    progress = progress_at(5, foreign)

    assert progress.position == 5
    assert progress.take(5)
    assert progress.crashes(5) == 0


def test_metadata_stays_below_the_brokers_limit_whatever_happens() -> None:
    progress = progress_at(0, window=MAX_WINDOW)
    for offset in range(MAX_WINDOW):
        progress.take(offset)
        progress.start(offset)
    for offset in range(1, MAX_WINDOW, 2):
        progress.finish(offset)

    metadata = checkpoint_of(progress).metadata

    assert len(metadata) <= MAX_METADATA_CHARS
    after = PartitionProgress(CommittedOffset(offset=0, metadata=metadata), MAX_WINDOW)
    assert not after.take(MAX_WINDOW - 1)
    assert after.crashes(0) == 1


@given(
    steps=st.lists(st.tuples(st.sampled_from(["take", "finish", "start", "die", "leave"]), st.integers(0, 30))),
    gaps=st.sets(st.integers(0, 60)),
)
def test_no_commit_ever_passes_unfinished_work_and_no_finished_record_runs_again_after_its_commit(
    steps: list[tuple[str, int]], gaps: set[int]
) -> None:
    offsets = [offset for offset in range(80) if offset not in gaps]
    progress, reading_from = progress_at(0, window=16), 0
    finished: set[int] = set()
    committed_finished: set[int] = set()
    in_hand: list[int] = []
    for action, choice in steps:
        if action == "take":
            following = [offset for offset in offsets if offset >= reading_from]
            if following and progress.has_room_for(following[0]):
                reading_from = following[0] + 1
                if progress.take(following[0]):
                    assert following[0] not in committed_finished
                    in_hand.append(following[0])
                else:
                    assert following[0] in finished
        elif action == "finish" and in_hand:
            done = in_hand.pop(choice % len(in_hand))
            progress.finish(done)
            finished.add(done)
        elif action == "start" and in_hand:
            progress.start(in_hand[choice % len(in_hand)])
        elif action in ("die", "leave"):
            committed = checkpoint_of(progress, clean=action == "leave")
            assert all(offset in finished for offset in offsets if offset < committed.offset)
            committed_finished = set(finished)
            progress, reading_from, in_hand = PartitionProgress(committed, 16), committed.offset, []


@given(
    st.integers(0, 20),
    st.sets(st.integers(0, 40), max_size=10),
    st.lists(st.lists(st.integers(1, 6), max_size=6), max_size=6),
    st.randoms(use_true_random=False),
)
def test_records_taken_and_finished_together_are_as_those_one_by_one(
    window: int, finished_before: set[int], batches: list[list[int]], random: Random
) -> None:
    def at_start() -> PartitionProgress:
        before = progress_at(0)
        for offset in range(41):
            before.take(offset)
            if offset in finished_before:
                before.finish(offset)
        return progress_at(0, checkpoint_of(before, clean=True).metadata, window + 1)

    together, single = at_start(), at_start()
    unfinished: list[int] = []
    offset = 0
    for gaps in batches:
        offsets = [offset := offset + gap for gap in gaps]
        taken = together.take_all(offsets)
        expected = []
        for one in offsets:
            if not single.has_room_for(one):
                break
            expected.append((one, single.take(one)))
        assert taken.size == len(expected)
        assert [one for one, is_new in expected if not is_new] == sorted(taken.repeated)
        unfinished += [one for one, is_new in expected if is_new]
        offset = unfinished[-1] if unfinished else offset
        done = sorted(random.sample(unfinished, random.randint(0, len(unfinished))), key=lambda _one: random.random())
        unfinished = [one for one in unfinished if one not in done]
        # An offset that was never taken counts for nothing, and neither does one that is finished twice.
        assert together.finish_all([*done, 1_000, *done[:1]]) == len(done)
        for one in done:
            single.finish(one)
        assert (together.position, together.checkpoint(clean=True)) == (single.position, single.checkpoint(clean=True))


def test_records_finished_in_their_order_leave_no_trace() -> None:
    progress = progress_at(0)
    assert progress.take_all(list(range(50))).size == 50

    assert progress.finish_all(list(range(20))) == 20
    assert progress.finish_all(list(range(20, 50))) == 30

    assert checkpoint_of(progress, clean=True) == CommittedOffset(offset=50)
    assert progress.is_finished
