"""Records that an agent runs: which, in which order, how many, and the commits for them."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from threading import Event as Flag
from threading import Lock, Thread

import pytest

from afl_stream.agent.agent import HandlerContext, LostRecords
from afl_stream.embedded.transport import Faults
from afl_stream.errors import NewerFormat, SchemaGone, SchemaUnavailable
from afl_stream.exit_codes import ExitCode
from afl_stream.transport import BrokerUnavailable, OffsetOutOfRange, TopicPartition
from afl_stream.wire.messages import StepFailed
from tests.eventually import eventually
from tests.unit.stream.agent.agent_bench import PAY, Deployment, MoodyCodec, TestAgent, event, named
from tests.worlds.compiled import interpreted_only

TOPIC = "afl.events.billing.Pay"


class Gates:
    """A handler whose steps are held at the gate until they are let through."""

    def __init__(self, *held: int) -> None:
        self._gates = {n: Flag() for n in held}
        self._lock = Lock()
        self.started: list[int] = []

    def __call__(self, payload: dict[str, int]) -> dict[str, object]:
        with self._lock:
            self.started.append(payload["n"])
        if payload["n"] in self._gates:
            assert self._gates[payload["n"]].wait(30)
        return {"n": payload["n"]}

    def let_through(self, *steps: int) -> None:
        for n in steps or self._gates:
            self._gates[n].set()


@pytest.fixture
def gates() -> Iterator[type[Gates]]:
    """Make handlers with gates; all of them are open at the end."""
    made: list[Gates] = []

    class Kept(Gates):
        def __init__(self, *held: int) -> None:
            super().__init__(*held)
            made.append(self)

    yield Kept
    for handler in made:
        handler.let_through()


def committed_offset(deployment: Deployment) -> int | None:
    committed = deployment.committed()
    return None if committed is None else committed.offset


def turn_until(agent: TestAgent, condition: object) -> None:
    def turned() -> bool:
        agent.turn(0.01)
        return bool(condition() if callable(condition) else condition)

    eventually(turned, interval_s=0)


def agent_with(deployment: Deployment, handler: Gates) -> TestAgent:
    agent = deployment.agent()
    agent.register(PAY, handler)
    return agent


def test_fast_records_overtake_a_slow_one_and_the_offset_waits_for_it(gates: type[Gates]) -> None:
    deployment, handler = Deployment(), gates(1)
    deployment.publish(*(event(step=n) for n in (1, 2, 3)))
    agent = agent_with(deployment, handler)

    turn_until(agent, lambda: agent.counts.answered == 2)
    agent.turn(0)
    assert set(deployment.results()) == {"wf-2:2", "wf-3:3"}
    assert committed_offset(deployment) == 0

    handler.let_through(1)
    turn_until(agent, lambda: committed_offset(deployment) == 3)
    assert agent.close() == 0


def test_what_overtook_a_slow_record_is_not_run_again_after_a_crash(gates: type[Gates]) -> None:
    deployment, handler = Deployment(), gates(1)
    deployment.publish(*(event(step=n) for n in (1, 2, 3)))
    first = agent_with(deployment, handler)
    turn_until(first, lambda: first.counts.answered == 2)
    first.turn(0)
    first.kill()

    second_handler = gates()
    second = agent_with(deployment, second_handler)
    second.run_once(1)

    assert second_handler.started == [1]
    assert second.counts.skipped == 2
    assert committed_offset(deployment) == 3


def test_a_handler_outlives_the_grace_period_and_its_event_is_handled_by_the_next_agent(gates: type[Gates]) -> None:
    deployment, handler = Deployment(grace_s=0), gates(1)
    deployment.publish(event(step=1), event(step=2))
    first = agent_with(deployment, handler)
    turn_until(first, lambda: first.counts.answered == 1)

    assert first.close() == ExitCode.WORK_LEFT
    assert committed_offset(deployment) == 0

    second_handler = gates()
    second = agent_with(deployment, second_handler)
    second.run_once(1)
    assert second_handler.started == [1]
    assert second.counts.crashes_seen == 0


def test_records_of_one_step_run_one_after_the_other_and_in_order() -> None:
    deployment = Deployment(max_concurrent=8)
    deployment.publish(*(event(step=step, attempt=n) for n in range(1, 6) for step in (1, 2)))
    agent = deployment.agent()
    seen: defaultdict[str, list[int]] = defaultdict(list)
    at_work: Counter[str] = Counter()
    overlaps: list[int] = []

    def handle(payload: object, context: HandlerContext) -> None:
        step, attempt = context.step_id, context.attempt
        at_work[step] += 1
        overlaps.append(at_work[step])
        seen[step].append(attempt)
        at_work[step] -= 1

    agent.register(PAY, handle)
    agent.run_once(1)

    assert seen == {"wf-1:1": [1, 2, 3, 4, 5], "wf-2:2": [1, 2, 3, 4, 5]}
    assert set(overlaps) == {1}


def test_no_more_handlers_run_than_the_agent_may_run_and_reading_pauses_when_its_queue_is_full(
    gates: type[Gates],
) -> None:
    deployment, handler = Deployment(max_concurrent=2, window=1_000), gates(*range(1, 401))
    deployment.publish(*(event(step=n) for n in range(1, 401)))
    agent = agent_with(deployment, handler)

    for _ in range(50):
        agent.turn(0)
    eventually(lambda: len(handler.started) == 2)
    assert agent.counts.read == agent.config.queue_records + 2

    handler.let_through()
    turn_until(agent, lambda: committed_offset(deployment) == 400)
    assert len(deployment.results()) == 400


def test_quick_handlers_run_in_lots_and_one_that_turns_slow_holds_up_none_of_the_others(gates: type[Gates]) -> None:
    deployment, handler = Deployment(max_concurrent=2, window=1_000), gates(30)
    deployment.publish(*(event(step=n) for n in range(1, 101)))
    agent = agent_with(deployment, handler)

    turn_until(agent, lambda: agent.counts.answered == 99)
    agent.turn(0)
    assert committed_offset(deployment) == 29

    handler.let_through(30)
    turn_until(agent, lambda: committed_offset(deployment) == 100)
    assert sorted(handler.started) == list(range(1, 101))
    assert agent.close() == 0


def test_events_that_wait_behind_another_in_its_lot_are_left_to_the_next_agent_when_this_one_stops(
    gates: type[Gates],
) -> None:
    deployment, handler = Deployment(max_concurrent=1, window=1_000, grace_s=0), gates(30)
    deployment.publish(*(event(step=n) for n in range(1, 101)))
    first = agent_with(deployment, handler)
    turn_until(first, lambda: 30 in handler.started and first.counts.answered == 29)

    assert first.close() == ExitCode.WORK_LEFT
    handler.let_through(30)

    second_handler = gates()
    second = agent_with(deployment, second_handler)
    turn_until(second, lambda: committed_offset(deployment) == 100)
    assert sorted(second_handler.started) == list(range(30, 101))
    assert second.counts.crashes_seen == 0
    assert second.close() == 0


def test_the_window_past_the_oldest_unfinished_record_is_bounded(gates: type[Gates]) -> None:
    deployment, handler = Deployment(max_concurrent=4, window=10), gates(1)
    deployment.publish(*(event(step=n) for n in range(1, 41)))
    agent = agent_with(deployment, handler)

    turn_until(agent, lambda: agent.counts.answered == 9)
    for _ in range(20):
        agent.turn(0)
    assert sorted(handler.started) == list(range(1, 11))

    handler.let_through(1)
    turn_until(agent, lambda: committed_offset(deployment) == 40)


def test_unreadable_records_are_dead_lettered_and_answered_only_where_their_headers_name_the_event() -> None:
    deployment = Deployment()
    good = deployment.codec.encode(event(step=5))
    deployment.publish(event(step=1))
    deployment.publish_bytes(PAY, None, key=b"wf-2:2")
    deployment.publish_bytes(PAY, b"\x00\x00", key=b"wf-3:3", headers=(*named("wf-3:3", 4), ("trace", b"1")))
    deployment.publish_bytes(PAY, good[:-3], key=b"")
    deployment.publish_bytes(PAY, b"\xc3\x01" + b"\x07" * 20, key=b"\xff\xfe")
    deployment.publish(event(step=6))
    agent = agent_with(deployment, Gates())

    agent.run_once(1)

    assert deployment.results() == {
        "wf-1:1": {"n": 1},
        "wf-3:3": "UnreadableEvent",
        "wf-6:6": {"n": 6},
    }
    letters = deployment.dead_letters()
    assert sorted((dict(x.headers)["afl.dlq.offset"], dict(x.headers)["afl.dlq.reason"], x.key) for x in letters) == [
        (b"1", b"null_value", b"wf-2:2"),
        (b"2", b"bad_magic", b"wf-3:3"),
        (b"3", b"truncated", b""),
        (b"4", b"unknown_schema", b"\xff\xfe"),
    ]
    third = next(letter for letter in letters if letter.key == b"wf-3:3")
    assert third.value == b"\x00\x00"
    assert dict(third.headers)["trace"] == b"1"
    assert dict(third.headers)["afl.dlq.topic"] == TOPIC.encode()
    reported = {a.step_id: (a.event_id, a.attempt) for a in deployment.answers() if isinstance(a, StepFailed)}
    assert reported == {"wf-3:3": ("wf-3:3#4", 4)}
    assert committed_offset(deployment) == 6


@interpreted_only
def test_a_schema_that_cannot_be_looked_up_now_is_waited_for_and_nothing_is_skipped() -> None:
    deployment = Deployment()
    deployment.publish(event(step=1), event(step=2))
    codec = MoodyCodec(deployment, SchemaUnavailable("00ff", "the registry is away"), times=3)
    agent = deployment.agent(codec=codec, config={"max_backoff_s": 0.01})
    agent.register(PAY, Gates())

    turn_until(agent, lambda: committed_offset(deployment) == 2)

    assert deployment.results() == {"wf-1:1": {"n": 1}, "wf-2:2": {"n": 2}}
    assert deployment.dead_letters() == []


@interpreted_only
def test_a_partition_that_waits_for_a_schema_that_is_gone_is_reported_until_it_is_back() -> None:
    deployment, now_s = Deployment(), [0.0]
    deployment.publish(event(step=1), event(step=2))
    codec = MoodyCodec(deployment, SchemaGone("00ff", "afl.schemas is empty"), times=1)
    agent = deployment.agent(codec=codec, clock_s=lambda: now_s[0])
    agent.register(PAY, Gates())

    agent.run_once(0)
    health = agent.health()
    now_s[0] = 1.0
    turn_until(agent, lambda: committed_offset(deployment) == 2)

    assert not health.ready
    assert health.reasons == (
        "afl.events.billing.Pay[0] offset 0: schema 00ff is gone: it was announced, and afl.schemas is empty",
    )
    assert agent.health().ready
    assert deployment.results() == {"wf-1:1": {"n": 1}, "wf-2:2": {"n": 2}}


@interpreted_only
def test_a_record_of_a_newer_format_halts_its_partition_and_is_reported() -> None:
    deployment = Deployment()
    deployment.publish(event(step=1), event(step=2))
    codec = MoodyCodec(deployment, NewerFormat("9.0", "1.0"), times=1)
    agent = deployment.agent(codec=codec)
    agent.register(PAY, Gates())

    for _ in range(5):
        agent.run_once(0)

    assert deployment.answers() == []
    assert deployment.dead_letters() == []
    health = agent.health()
    assert not health.ready
    assert "afl.events.billing.Pay[0] offset 0" in health.reasons[0]
    assert "upgrade this process" in health.reasons[0]
    assert agent.close() == 0


@interpreted_only
def test_a_partition_that_is_halted_does_not_keep_the_others_from_being_read() -> None:
    deployment = Deployment(partitions=2, window=10)
    deployment.publish(*(event(step=n) for n in range(1, 401)))
    agent = deployment.agent(codec=MoodyCodec(deployment, NewerFormat("9.0", "1.0"), times=1))
    agent.register(PAY, Gates())
    one, other = (len([r for r in deployment.records(TOPIC) if r.partition == n]) for n in (0, 1))

    turn_until(agent, lambda: agent.counts.answered in (one, other) and not agent.health().in_flight)

    assert one > 100
    assert other > 100
    assert len(agent.health().reasons) == 1


def test_partitions_that_move_to_another_agent_are_worked_on_from_the_committed_offset(gates: type[Gates]) -> None:
    deployment = Deployment(partitions=4)
    deployment.publish(*(event(step=n) for n in range(1, 21)))
    first = agent_with(deployment, gates())
    first.run_once(1)
    second = agent_with(deployment, gates())
    turn_both_until(first, second, lambda: len(second.own_partitions()) == 2 and len(first.own_partitions()) == 2)

    deployment.publish(*(event(step=n) for n in range(21, 61)))
    turn_both_until(first, second, lambda: len(deployment.results()) == 60)

    assert second.counts.handled > 0
    assert first.counts.handled + second.counts.handled == 60
    second.close()
    deployment.publish(*(event(step=n) for n in range(61, 81)))
    turn_until(first, lambda: len(deployment.results()) == 80)
    assert first.counts.handled + second.counts.handled == 80
    assert len(deployment.answers()) == 80


def turn_both_until(first: TestAgent, second: TestAgent, condition: object) -> None:
    def turned() -> bool:
        first.turn(0)
        second.turn(0)
        return bool(condition() if callable(condition) else condition)

    eventually(turned, interval_s=0)


def test_a_partition_that_leaves_and_comes_back_while_a_handler_runs_is_committed_again(gates: type[Gates]) -> None:
    deployment, handler = Deployment(), gates(1)
    deployment.publish(event(step=1), event(step=2))
    first = agent_with(deployment, handler)
    turn_until(first, lambda: first.counts.answered == 1)

    place = TopicPartition(TOPIC, 0)
    second = agent_with(deployment, gates())
    second.start()
    deployment.broker.rebalance(first.groups[0], moves={place: second.own_consumer()})
    turn_both_until(first, second, lambda: second.own_partitions() == {place})
    assert committed_offset(deployment) == 0 or second.counts.read
    deployment.broker.rebalance(first.groups[0], moves={place: first.own_consumer()})
    turn_both_until(first, second, lambda: first.own_partitions() == {place})

    handler.let_through(1)
    turn_both_until(first, second, lambda: committed_offset(deployment) == 2)
    assert set(deployment.results()) == {"wf-1:1", "wf-2:2"}


def test_a_fenced_agent_sends_no_answer_of_what_ran_and_commits_nothing_for_it(gates: type[Gates]) -> None:
    deployment, handler = Deployment(), gates(1)
    deployment.publish(event(step=1))
    first = agent_with(deployment, handler)
    turn_until(first, lambda: handler.started == [1])

    deployment.broker.expire(first.own_consumer())
    other_handler = gates(1)
    second = agent_with(deployment, other_handler)
    turn_until(second, lambda: other_handler.started == [1])

    handler.let_through(1)
    turn_until(first, lambda: first.counts.dropped == 1)
    assert deployment.answers() == []
    assert committed_offset(deployment) == 0

    other_handler.let_through(1)
    turn_until(second, lambda: committed_offset(deployment) == 1)
    assert [answer.event_id for answer in deployment.answers()] == ["wf-1:1#1"]  # type: ignore[union-attr]  # answers


def test_an_agent_that_has_lost_a_partition_and_got_it_back_answers_what_ran_meanwhile(gates: type[Gates]) -> None:
    deployment, handler = Deployment(), gates(1)
    deployment.publish(event(step=1))
    agent = agent_with(deployment, handler)
    turn_until(agent, lambda: handler.started == [1])

    deployment.broker.expire(agent.own_consumer())
    turn_until(agent, lambda: agent.counts.read == 2)
    handler.let_through(1)
    turn_until(agent, lambda: committed_offset(deployment) == 1)

    assert handler.started == [1]
    assert agent.counts.dropped == 0
    assert [answer.event_id for answer in deployment.answers()] == ["wf-1:1#1"]  # type: ignore[union-attr]  # answers


def test_records_that_are_gone_from_the_log_end_the_agent_with_the_lost_range() -> None:
    deployment = Deployment()
    deployment.publish(event(step=1))
    first = agent_with(deployment, Gates())
    first.run_once(1)
    first.close()
    deployment.publish(*(event(step=n) for n in range(2, 8)))
    lose_records(deployment, before=5)
    agent = agent_with(deployment, Gates())

    with pytest.raises(OffsetOutOfRange, match="position 1 is out of range: the log holds 5 to 7"):
        agent.run_once(1)


def test_an_agent_may_be_told_to_continue_where_the_log_begins_and_counts_what_is_lost() -> None:
    deployment = Deployment()
    deployment.publish(event(step=1))
    first = agent_with(deployment, Gates())
    first.run_once(1)
    first.close()
    deployment.publish(*(event(step=n) for n in range(2, 8)))
    lose_records(deployment, before=5)
    agent = deployment.agent(config={"lost_records": LostRecords.EARLIEST})
    agent.register(PAY, Gates())

    turn_until(agent, lambda: committed_offset(deployment) == 7)

    assert agent.counts.lost_records == 4
    assert set(deployment.results()) == {"wf-1:1", "wf-6:6", "wf-7:7"}


def lose_records(deployment: Deployment, before: int) -> None:
    deployment.broker.truncate(TopicPartition(TOPIC, 0), before)


def test_run_raises_what_ended_the_agent_after_it_has_left_its_groups() -> None:
    deployment = Deployment()
    deployment.publish(event(step=1))
    first = agent_with(deployment, Gates())
    first.run_once(1)
    first.close()
    deployment.publish(event(step=2))
    lose_records(deployment, before=2)
    agent = agent_with(deployment, Gates())

    with pytest.raises(OffsetOutOfRange):
        agent.run()
    assert deployment.broker.group(agent.groups[0]).members == ()


def test_a_commit_that_fails_is_counted_and_made_up_for() -> None:
    deployment, faults = Deployment(), Faults()
    deployment.publish(event(step=1))
    faults.fail_at("commit.before", error=BrokerUnavailable("away"), passes=1)
    agent = deployment.agent(transport_probe=faults.probe)
    agent.register(PAY, Gates())

    turn_until(agent, lambda: committed_offset(deployment) == 1)

    assert agent.counts.commit_failures == 1
    assert len(deployment.answers()) == 1


def test_an_answer_that_the_broker_does_not_take_is_sent_again_and_its_handler_is_not_run_again() -> None:
    deployment, faults, handler = Deployment(), Faults(), Gates()
    deployment.publish(event(step=1))
    agent = deployment.agent(transport_probe=faults.probe)
    agent.register(PAY, handler)
    agent.start()
    faults.fail_at("produce.before_append", 3, error=BrokerUnavailable("away"))

    turn_until(agent, lambda: committed_offset(deployment) == 1)

    assert handler.started == [1]
    assert agent.counts.resent == 3
    assert len(deployment.answers()) == 1


def test_an_agent_that_gets_nowhere_is_not_ready(gates: type[Gates]) -> None:
    now_s = [0.0]
    deployment, faults = Deployment(), Faults()
    agent = deployment.agent(transport_probe=faults.probe, clock_s=lambda: now_s[0])
    agent.register(PAY, gates())
    agent.run_once(0)
    assert agent.health().ready

    deployment.publish(event(step=1))
    faults.fail_at("poll.before_deliver", 1_000, error=BrokerUnavailable("no leader"))
    now_s[0] = 30
    agent.turn(0)
    assert "no leader" in agent.health().reasons[0]

    now_s[0] = 100
    agent.turn(0)
    health = agent.health()
    assert health.lag == 1
    assert any("1 records wait and none was handled for 100 s" in reason for reason in health.reasons)


def test_an_agent_gives_up_when_an_outage_has_lasted_too_long(gates: type[Gates]) -> None:
    now_s = [0.0]
    deployment, faults = Deployment(), Faults()
    agent = deployment.agent(transport_probe=faults.probe, clock_s=lambda: now_s[0])
    agent.register(PAY, gates())
    agent.run_once(0)
    deployment.publish(event(step=1))
    faults.fail_at("poll.before_deliver", 1_000, error=BrokerUnavailable("no broker answers at 127.0.0.1:9092"))
    agent.turn(0)

    now_s[0] = 599
    agent.turn(0)
    now_s[0] = 601
    with pytest.raises(BrokerUnavailable, match=r"127\.0\.0\.1:9092; gave up after 600 s"):
        agent.turn(0)


def test_run_works_until_it_is_stopped_then_drains_and_returns_zero(gates: type[Gates]) -> None:
    deployment, handler = Deployment(["billing.Pay", "billing.Void"]), gates(2)
    agent, codes = deployment.agent(), []
    agent.register(PAY, handler)
    agent.register("billing.Void", lambda payload: {})
    thread = Thread(target=lambda: codes.append(agent.run()))
    thread.start()
    deployment.publish(event(step=1), event(step=2), event("billing.Void", 3))
    eventually(lambda: {"wf-1:1", "wf-3:3"} <= set(deployment.results()))

    agent.stop()
    deployment.publish(event(step=4))
    handler.let_through(2)
    thread.join(10)

    assert codes == [0]
    assert "wf-2:2" in deployment.results()
    assert committed_offset(deployment) in (2, 3)
