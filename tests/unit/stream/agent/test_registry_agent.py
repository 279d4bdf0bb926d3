"""An agent follows its registry: facets that come, change and go, while it works."""

from __future__ import annotations

import difflib
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from afl.core.handlers.registration import HandlerRegistration
from afl_stream.agent.agent import AgentConfig
from afl_stream.agent.registry_agent import RegistryAgent, RegistryUnavailable
from afl_stream.embedded.transport import Crash, EmbeddedTransport, Faults
from afl_stream.transport import CommittedOffset
from tests.eventually import eventually
from tests.unit.stream.agent.agent_bench import PAY, Deployment, event

VOID = "billing.Void"
SHIP = "shop.Ship"


class Shelf:
    """A registry that a test changes."""

    def __init__(self, *registrations: HandlerRegistration) -> None:
        self.kept = {registration.facet_name: registration for registration in registrations}
        self.is_away = False

    def put(self, *registrations: HandlerRegistration) -> None:
        self.kept = {**self.kept, **{registration.facet_name: registration for registration in registrations}}

    def take(self, name: str) -> None:
        self.kept = {other: kept for other, kept in self.kept.items() if other != name}

    def registrations(self) -> Sequence[HandlerRegistration]:
        if self.is_away:
            raise RegistryUnavailable("the shelf is away")
        return list(self.kept.values())


class Time:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now_s = 1_000.0

    def __call__(self) -> float:
        return self.now_s


class Shop:
    """Modules in files, a registry, and agents on an embedded broker."""

    def __init__(self, folder: Path, facets: Sequence[str] = (PAY, VOID, SHIP), **settings: Any) -> None:
        self.folder = folder
        self.deployment = Deployment(facets, **settings)
        self.shelf = Shelf()
        self.time = Time()

    def module(self, text: str, name: str = "work.py") -> str:
        (self.folder / name).write_text(text)
        return str(self.folder / name)

    def register(self, facet: str, text: str = "", **details: Any) -> HandlerRegistration:
        text = text or f"def handle(payload): return {{'by': '{facet}'}}"
        uri = self.module(text, f"{facet.replace('.', '_')}.py")
        registration = HandlerRegistration(facet_name=facet, module_uri=uri, **details)
        self.shelf.put(registration)
        return registration

    def agent(
        self,
        *,
        topics: Sequence[str] = (),
        refresh_interval_s: float = 0.0,
        group: str | None = None,
        probe: Any = lambda step: None,
        real_time: bool = False,
    ) -> RegistryAgent:
        transport = EmbeddedTransport(self.deployment.broker)
        stream = self.deployment.stream
        config = AgentConfig(
            stream=replace(stream, agent=replace(stream.agent, allowed_handlers=str(self.folder))),
            name="tester",
            group=group,
            commit_interval_s=0.0,
            poll_timeout_s=0.02,
        )
        clock: Mapping[str, Any] = {} if real_time else {"clock_s": self.time}
        return RegistryAgent(
            self.shelf,
            config,
            transport,
            topics=topics,
            refresh_interval_s=refresh_interval_s,
            topology=self.deployment.topology,
            probe=probe,
            **clock,
        )

    def results(self) -> dict[str, object]:
        return self.deployment.results()


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)


def work(agent: RegistryAgent, turns: int = 3) -> None:
    for _ in range(turns):
        agent.run_once(0.0)


def take_turns(agent: RegistryAgent) -> None:
    for _ in range(50):
        agent.turn(0.01)


def test_a_registered_facet_is_handled(shop: Shop) -> None:
    shop.register(PAY)
    shop.deployment.publish(event(PAY, 1))
    agent = shop.agent()

    work(agent)
    agent.close()

    assert shop.results() == {"wf-1:1": {"by": PAY}}


def test_an_agent_without_registrations_waits_for_some(shop: Shop) -> None:
    shop.deployment.publish(event(PAY, 1))
    agent = shop.agent()
    work(agent)
    assert agent.groups == []

    shop.register(PAY)
    work(agent)

    assert shop.results() == {"wf-1:1": {"by": PAY}}
    assert agent.groups == ["afl.agent.billing.Pay"]


def test_a_facet_that_was_taken_away_is_left_and_continues_where_it_was(shop: Shop) -> None:
    shop.register(PAY)
    again = shop.register(VOID)
    shop.deployment.publish(event(PAY, 1), event(VOID, 2))
    agent = shop.agent()
    work(agent)

    shop.shelf.take(VOID)
    shop.deployment.publish(event(PAY, 3), event(VOID, 4))
    work(agent)

    assert agent.groups == ["afl.agent.billing.Pay"]
    assert shop.deployment.committed(VOID) == CommittedOffset(offset=1)
    assert shop.results().keys() == {"wf-1:1", "wf-2:2", "wf-3:3"}

    shop.shelf.put(again)
    work(agent)

    assert shop.results()["wf-4:4"] == {"by": VOID}
    assert len(shop.deployment.answers()) == 4


def test_what_runs_when_its_facet_is_taken_away_is_answered_and_committed_first(shop: Shop) -> None:
    registration = shop.register(PAY)
    shop.deployment.publish(event(PAY, 1), event(PAY, 2))
    entered, may_continue = threading.Event(), threading.Event()

    def slow(payload: Mapping[str, Any]) -> dict[str, Any]:
        entered.set()
        assert may_continue.wait(30)
        return {"by": "slow"}

    agent = shop.agent(real_time=True)
    agent.register(VOID, slow)
    shop.shelf.take(PAY)
    shop.deployment.publish(event(VOID, 3), event(VOID, 3, attempt=2))
    agent.turn(0.0)
    while not entered.is_set():
        agent.turn(0.01)

    agent.unregister(VOID)
    agent.turn(0.0)
    assert agent.groups == ["afl.agent.billing.Void"]
    may_continue.set()
    eventually(lambda: agent.turn(0.01) == 0 and agent.groups == [], 20)

    # The second event of the step had not begun: it waits, uncommitted, for the facet's next agent.
    assert shop.deployment.committed(VOID) == CommittedOffset(offset=1)
    assert shop.results() == {"wf-3:3": {"by": "slow"}}
    assert registration.facet_name not in agent.registered_names()


def test_a_facet_that_comes_back_before_it_was_left_is_not_left(shop: Shop) -> None:
    entered, may_continue = threading.Event(), threading.Event()

    def slow(payload: Mapping[str, Any]) -> dict[str, Any]:
        entered.set()
        assert may_continue.wait(30)
        return {"by": "slow"}

    agent = shop.agent(real_time=True)
    agent.register(VOID, slow)
    shop.deployment.publish(event(VOID, 1))
    while not entered.is_set():
        agent.turn(0.01)

    agent.unregister(VOID)
    agent.turn(0.0)
    agent.register(VOID, lambda payload: {"by": "new"})
    shop.deployment.publish(event(VOID, 2))
    may_continue.set()
    eventually(lambda: agent.turn(0.01) == 0 and len(shop.results()) == 2, 20)
    agent.close()

    assert shop.results() == {"wf-1:1": {"by": "slow"}, "wf-2:2": {"by": "new"}}


def test_one_group_for_all_facets_goes_over_to_other_topics(shop: Shop) -> None:
    shop.register(PAY)
    shop.register(VOID)
    agent = shop.agent(group="everyone")
    shop.deployment.publish(event(PAY, 1), event(VOID, 2), event(SHIP, 3))
    work(agent)
    assert shop.results().keys() == {"wf-1:1", "wf-2:2"}

    shop.shelf.take(VOID)
    shop.register(SHIP)
    shop.deployment.publish(event(PAY, 4), event(VOID, 5), event(SHIP, 6))
    work(agent)

    assert agent.groups == ["everyone"]
    assert shop.results().keys() == {"wf-1:1", "wf-2:2", "wf-3:3", "wf-4:4", "wf-6:6"}
    assert shop.deployment.committed(VOID, "everyone") == CommittedOffset(offset=1)

    shop.register(VOID)
    work(agent)

    assert shop.results()["wf-5:5"] == {"by": VOID}


def test_another_checksum_loads_the_module_anew(shop: Shop) -> None:
    shop.register(PAY, "def handle(payload): return {'by': 'one'}", checksum="1")
    agent = shop.agent()
    shop.deployment.publish(event(PAY, 1))
    work(agent)

    shop.register(PAY, "def handle(payload): return {'by': 'two'}", checksum="1")
    shop.deployment.publish(event(PAY, 2))
    work(agent)
    shop.register(PAY, "def handle(payload): return {'by': 'two'}", checksum="2")
    shop.deployment.publish(event(PAY, 3))
    work(agent)

    assert list(shop.results().values()) == [{"by": "one"}, {"by": "one"}, {"by": "two"}]


def test_a_change_counts_for_events_that_have_been_read_already(shop: Shop) -> None:
    shop = Shop(shop.folder, max_concurrent=1)
    shop.register(VOID, "def handle(payload): return {'by': 'old'}")
    entered, may_continue = threading.Event(), threading.Event()

    def slow(payload: Mapping[str, Any]) -> dict[str, Any]:
        entered.set()
        assert may_continue.wait(30)
        return {"by": "slow"}

    agent = shop.agent(real_time=True)
    agent.register(PAY, slow)
    shop.deployment.publish(event(PAY, 1))
    while not entered.is_set():
        agent.turn(0.01)
    shop.deployment.publish(event(VOID, 2))
    eventually(lambda: agent.turn(0.01) >= 0 and agent.counts.read == 2, 20)

    shop.register(VOID, "def handle(payload): return {'by': 'new'}", checksum="2")
    agent.turn(0.0)
    may_continue.set()
    eventually(lambda: agent.turn(0.01) == 0 and len(shop.results()) == 2, 20)
    agent.close()

    assert shop.results()["wf-2:2"] == {"by": "new"}


def test_patterns_say_which_facets_are_taken(shop: Shop) -> None:
    for facet in (PAY, VOID, SHIP):
        shop.register(facet)
    shop.deployment.publish(event(PAY, 1), event(VOID, 2), event(SHIP, 3))
    agent = shop.agent(topics=["billing.V*", "sh?p.[RS]hip"])

    work(agent)

    assert sorted(shop.results()) == ["wf-2:2", "wf-3:3"]


def test_a_short_name_stands_for_every_facet_of_that_name_that_has_a_topic(shop: Shop) -> None:
    shop.register("Pay", "def handle(payload): return {'by': payload['_facet_name']}")
    shop.register(PAY, "def handle(payload): return {'by': 'its own'}")
    shop.deployment.create_topics(["desk.Pay"])
    shop.deployment.publish(event(PAY, 1), event("desk.Pay", 2))
    agent = shop.agent()
    work(agent)

    shop.deployment.create_topics(["till.Pay"])
    shop.deployment.publish(event("till.Pay", 3))
    shop.time.now_s += 2
    work(agent)

    assert shop.results() == {"wf-1:1": {"by": "its own"}, "wf-2:2": {"by": "desk.Pay"}, "wf-3:3": {"by": "till.Pay"}}


def test_patterns_may_match_the_full_name_of_a_facet_that_is_registered_by_its_short_one(shop: Shop) -> None:
    shop.register("Pay")
    shop.deployment.create_topics(["desk.Pay"])
    shop.deployment.publish(event(PAY, 1), event("desk.Pay", 2))
    agent = shop.agent(topics=["desk.*"])

    work(agent)

    assert list(shop.results()) == ["wf-2:2"]


def test_a_registered_facet_without_a_topic_is_told_with_those_that_it_may_be_a_typo_of(
    shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    shop.register("billing.Piad")
    shop.deployment.create_topics(["billing.Paid"])

    work(shop.agent())

    assert "without a topic: billing.Piad (did you mean billing.Paid?)" in caplog.text


class CountedComparisons(difflib.SequenceMatcher[str]):
    """Counts what is compared."""

    count = 0

    def set_seq1(self, a: Sequence[str]) -> None:
        CountedComparisons.count += 1
        super().set_seq1(a)


@pytest.fixture
def comparisons(monkeypatch: pytest.MonkeyPatch) -> type[CountedComparisons]:
    monkeypatch.setattr(difflib, "SequenceMatcher", CountedComparisons)
    CountedComparisons.count = 0
    return CountedComparisons


def test_names_are_compared_once_while_nothing_changes_and_told_anew_when_a_topic_comes(
    shop: Shop, comparisons: type[CountedComparisons], caplog: pytest.LogCaptureFixture
) -> None:
    shop.register("billing.Piad")
    agent = shop.agent(refresh_interval_s=3_600)
    work(agent)
    once = comparisons.count
    assert once > 0

    for _ in range(5):
        shop.time.now_s += 3
        work(agent)
    assert comparisons.count == once

    shop.deployment.create_topics(["billing.Paid"])
    shop.time.now_s += 3
    work(agent)

    assert comparisons.count > once
    assert caplog.text.count("billing.Piad") == 2
    assert "billing.Piad (did you mean billing.Paid?)" in caplog.text


def test_of_many_names_without_a_topic_so_many_are_asked_about_that_the_agent_continues_at_once(
    shop: Shop, comparisons: type[CountedComparisons], caplog: pytest.LogCaptureFixture
) -> None:
    shop.deployment.create_topics([f"billing.Order{number}" for number in range(200)])
    for number in range(40):
        shop.register(f"billing.Ordre{number:03}", "def handle(payload): return {}")

    work(shop.agent())

    # Each pair is compared by both names, qualified and short, of the wanted and of the known one, at most.
    assert 0 < comparisons.count <= 2_000 * 4
    assert "billing.Ordre000 (did you mean " in caplog.text
    assert "billing.Ordre039" in caplog.text


def test_a_facet_without_a_topic_waits_for_it_and_holds_up_no_other(shop: Shop) -> None:
    shop.register("late.Facet")
    shop.register(PAY)
    shop.deployment.publish(event(PAY, 1))
    agent = shop.agent(refresh_interval_s=3_600)
    work(agent)
    assert list(agent.without_topic) == ["late.Facet"]

    shop.deployment.create_topics(["late.Facet"])
    shop.deployment.publish(event("late.Facet", 2))
    shop.time.now_s += 2
    work(agent)

    assert list(agent.without_topic) == []
    assert shop.results() == {"wf-1:1": {"by": PAY}, "wf-2:2": {"by": "late.Facet"}}


def test_events_of_a_module_that_does_not_load_wait_until_it_does(shop: Shop) -> None:
    shop.register(PAY, "import nowhere_to_be_found")
    shop.register(VOID)
    shop.deployment.publish(event(PAY, 1), event(VOID, 2))
    agent = shop.agent()
    work(agent)

    assert list(shop.results()) == ["wf-2:2"]
    assert "nowhere_to_be_found" in str(agent.refused[PAY])

    shop.register(PAY)
    work(agent)

    assert agent.refused == {}
    assert shop.results()["wf-1:1"] == {"by": PAY}


def test_what_the_registration_says_holds_for_the_handler(shop: Shop) -> None:
    text = "import threading\ndef go(payload): threading.Event().wait(30)\ndef tell(payload): return dict(payload)"
    shop.register(PAY, text, entrypoint="go", timeout_ms=30)
    shop.register(VOID, text, entrypoint="tell", metadata={"region": "eu"})
    shop.register(SHIP, text, entrypoint="tell")
    shop.deployment.publish(event(PAY, 1), event(VOID, 2), event(SHIP, 3))
    agent = shop.agent(real_time=True)

    eventually(lambda: agent.turn(0.01) == 0 and len(shop.results()) == 3, 20)
    agent.close()

    assert shop.results() == {
        "wf-1:1": "Timeout",
        "wf-2:2": {"n": 2, "_facet_name": VOID, "_handler_metadata": {"region": "eu"}},
        "wf-3:3": {"n": 3, "_facet_name": SHIP},
    }


def test_a_registry_that_is_away_changes_nothing(shop: Shop) -> None:
    shop.register(PAY)
    agent = shop.agent()
    work(agent)

    shop.shelf.is_away = True
    shop.deployment.publish(event(PAY, 1))
    work(agent)

    assert shop.results() == {"wf-1:1": {"by": PAY}}


def test_an_agent_whose_registry_is_away_does_not_start(shop: Shop) -> None:
    shop.shelf.is_away = True

    with pytest.raises(RegistryUnavailable):
        shop.agent().start()


def test_the_registry_is_read_again_when_the_interval_is_over(shop: Shop) -> None:
    shop.register(PAY)
    agent = shop.agent(refresh_interval_s=30)
    work(agent)
    shop.register(VOID)
    shop.deployment.publish(event(VOID, 1))

    shop.time.now_s += 29
    work(agent)
    assert shop.results() == {}

    shop.time.now_s += 1
    work(agent)
    assert shop.results() == {"wf-1:1": {"by": VOID}}


def test_a_registration_of_the_registry_goes_before_the_agents_own(shop: Shop) -> None:
    agent = shop.agent()
    agent.register(PAY, lambda payload: {"by": "the agent's own"})
    shop.deployment.publish(event(PAY, 1))
    work(agent)
    shop.register(PAY)
    shop.deployment.publish(event(PAY, 2))
    work(agent)

    assert shop.results() == {"wf-1:1": {"by": "the agent's own"}, "wf-2:2": {"by": PAY}}


def test_facets_come_and_go_under_run(shop: Shop) -> None:
    shop.register(PAY)
    shop.deployment.publish(*(event(PAY, n) for n in range(1, 21)))
    agent = shop.agent(real_time=True)
    codes: list[int] = []
    thread = threading.Thread(target=lambda: codes.append(agent.run()))
    thread.start()
    try:
        eventually(lambda: len(shop.results()) == 20, 20)
        shop.register(VOID)
        shop.shelf.take(PAY)
        shop.deployment.publish(*(event(VOID, n) for n in range(21, 41)))
        eventually(lambda: len(shop.results()) == 40 and agent.groups == ["afl.agent.billing.Void"], 20)
        shop.shelf.take(VOID)
        eventually(lambda: agent.groups == [], 20)
        shop.register(PAY, checksum="2")
        shop.deployment.publish(*(event(PAY, n) for n in range(41, 61)))
        eventually(lambda: len(shop.results()) == 60, 20)
    finally:
        agent.stop()
        thread.join(30)

    assert codes == [0]
    assert len(shop.deployment.answers()) == 60
    assert shop.deployment.committed(PAY) == CommittedOffset(offset=40)


@pytest.mark.parametrize("step", ["agent.committed", "facet.left", "agent.handled", "agent.produced"])
def test_an_agent_that_dies_while_it_leaves_a_facet_loses_nothing(shop: Shop, step: str) -> None:
    registration = shop.register(PAY)
    shop.deployment.publish(*(event(PAY, n) for n in range(1, 6)))
    faults = Faults()
    agent = shop.agent(probe=faults.probe)
    agent.turn(0.0)
    faults.fail_at(step)
    shop.shelf.take(PAY)
    with pytest.raises(Crash):
        take_turns(agent)
    agent.abandon(KeyboardInterrupt())

    shop.deployment.publish(*(event(PAY, n) for n in range(6, 8)))
    shop.shelf.put(replace(registration, checksum="again"))
    heir = shop.agent(real_time=True)
    agent._transport.close()
    eventually(lambda: heir.turn(0.01) == 0 and len(shop.results()) == 7, 20)
    heir.close()

    assert shop.deployment.committed(PAY) == CommittedOffset(offset=7)
    assert shop.deployment.dead_letters() == []


def test_a_topic_that_is_deleted_makes_its_facet_wait_and_ends_nothing(shop: Shop) -> None:
    shop.register(PAY)
    shop.register(VOID)
    agent = shop.agent()
    shop.deployment.publish(event(PAY, 1), event(VOID, 2))
    work(agent)

    shop.deployment.admin.delete_topic(shop.deployment.topology.facet(VOID))
    work(agent)
    shop.time.now_s += 2
    work(agent)
    shop.deployment.publish(event(PAY, 3))
    work(agent)
    assert list(agent.without_topic) == [VOID]
    assert agent.groups == ["afl.agent.billing.Pay"]

    shop.deployment.create_topics([VOID])
    shop.deployment.publish(event(VOID, 4))
    shop.time.now_s += 2
    work(agent)

    assert shop.results().keys() == {"wf-1:1", "wf-2:2", "wf-3:3", "wf-4:4"}
