"""The last failed try of each event that an agent tries again, as it announces it."""

from __future__ import annotations

from afl.core.handlers.retry import RetryPolicy
from afl_stream.agent.failed_tries import FailedTries
from afl_stream.presence.records import MOST_FAILED_TRIES, FailedTry, Presence, decode, encode
from tests.unit.stream.agent.agent_bench import PAY, Deployment, event

PATIENT = RetryPolicy(max_attempts=5, backoff_s=3600)


def test_an_event_that_is_tried_again_is_told_until_it_is_answered() -> None:
    deployment = Deployment()
    deployment.publish(event(step=1), event(step=2))
    agent = deployment.agent()

    def handle(payload: dict[str, object]) -> dict[str, object]:
        if payload["n"] == 1:
            raise ConnectionError("the bank answered 503")
        return {}

    agent.register(PAY, handle, retry=PATIENT)
    agent.run_once(1)

    (failed,) = agent.failed_tries.snapshot()
    assert (failed.step_id, failed.attempt, failed.tries) == ("wf-1:1", 1, 1)
    assert failed.error == "ConnectionError: the bank answered 503"
    assert failed.next_at - failed.failed_at == 60_000


def test_an_event_that_is_answered_after_all_is_told_no_more() -> None:
    deployment = Deployment()
    deployment.publish(event(step=1))
    agent = deployment.agent()
    seen: list[int] = []

    def handle(_payload: dict[str, object]) -> dict[str, object]:
        seen.append(len(agent.failed_tries.snapshot()))
        if len(seen) < 3:
            raise ConnectionError("away")
        return {}

    agent.register(PAY, handle, retry=RetryPolicy(max_attempts=5, backoff_s=0))
    while not deployment.results():
        agent.run_once(0.1)
    agent.run_once(0)

    assert seen == [0, 1, 1]
    assert agent.failed_tries.snapshot() == ()


def test_the_latest_of_many_are_kept_and_travel_in_a_presence_record() -> None:
    tries = FailedTries(wall_ms=lambda: 5_000)
    for number in range(MOST_FAILED_TRIES + 1):
        tries.failed(event(step=number), 2, "WebhookFailed: " + "x" * 1_000, 1.5)

    found = tries.snapshot()
    assert (len(found), found[0].step_id, found[-1].next_at) == (MOST_FAILED_TRIES, "wf-1:1", 6_500)
    assert len(found[0].error) == 300
    member = Presence(id="a", kind="agent", seen_at=1, interval_s=10, retrying=found)
    assert decode(b"a", encode(member)) == member


def test_what_others_write_in_its_place_is_passed_over() -> None:
    start = b'{"kind": "agent", "seen_at": 1, "interval_s": 10, "retrying": '

    assert decode(b"a", start + b'"no"}') == Presence(id="a", kind="agent", seen_at=1, interval_s=10)
    odd = decode(b"a", start + b'[7, {"step_id": "w:1", "tries": -1}]}')
    assert odd is not None
    assert odd.retrying == (FailedTry(step_id="w:1", attempt=0, tries=0, error="", failed_at=0, next_at=0),)
