"""Handlers that are registered, exchanged and taken away on an agent that works already."""

from __future__ import annotations

import threading

import pytest

from afl_stream.agent.handlers import NoSuchFacet
from afl_stream.errors import TopicMissing
from tests.eventually import eventually
from tests.unit.stream.agent.agent_bench import PAY, Deployment, event

VOID = "billing.Void"


def test_a_handler_that_is_registered_while_the_agent_works_is_called() -> None:
    deployment = Deployment((PAY, VOID))
    deployment.publish(event(PAY, 1), event(VOID, 2))
    agent = deployment.agent()
    agent.register(PAY, lambda payload: {"by": "pay"})
    agent.run_once(0.0)
    assert deployment.results() == {"wf-1:1": {"by": "pay"}}

    agent.register(VOID, lambda payload: {"by": "void"})
    agent.register(PAY, lambda payload: {"by": "pay, exchanged"})
    deployment.publish(event(PAY, 3))
    agent.run_once(0.0)
    agent.run_once(0.0)

    assert deployment.results() == {
        "wf-1:1": {"by": "pay"},
        "wf-2:2": {"by": "void"},
        "wf-3:3": {"by": "pay, exchanged"},
    }
    agent.close()


@pytest.mark.parametrize(("name", "error"), [("billing.Nowhere", TopicMissing), ("Nowhere", NoSuchFacet)])
def test_a_registration_that_cannot_be_followed_is_refused_and_changes_nothing(
    name: str, error: type[Exception]
) -> None:
    deployment = Deployment((PAY, VOID))
    agent = deployment.agent()
    agent.register(PAY, lambda payload: {"by": "pay"})
    agent.run_once(0.0)

    with pytest.raises(error):
        agent.register(name, lambda payload: {})

    assert agent.registered_names() == [PAY]
    deployment.publish(event(PAY, 1))
    agent.run_once(0.0)
    assert deployment.results() == {"wf-1:1": {"by": "pay"}}
    agent.close()


def test_an_agent_may_lose_its_last_handler_and_get_another() -> None:
    deployment = Deployment((PAY, VOID))
    agent = deployment.agent()
    agent.register(PAY, lambda payload: {"by": "pay"})
    agent.run_once(0.0)

    assert agent.unregister(PAY)
    assert not agent.unregister(PAY)
    agent.run_once(0.0)
    deployment.publish(event(PAY, 1))
    agent.run_once(0.0)
    assert (agent.groups, deployment.results()) == ([], {})

    agent.register("Pay", lambda payload: {"by": "short"})
    agent.run_once(0.0)

    assert deployment.results() == {"wf-1:1": {"by": "short"}}
    agent.close()


def test_any_thread_may_register_while_the_agent_runs() -> None:
    facets = [f"many.F{n}" for n in range(8)]
    deployment = Deployment((PAY, *facets))
    agent = deployment.agent()
    agent.register(PAY, lambda payload: {"by": "pay"})
    running = threading.Thread(target=agent.run, daemon=True)
    running.start()
    deployment.publish(*(event(facet, n) for n, facet in enumerate(facets, 1)))

    callers = [
        threading.Thread(target=agent.register, args=(facet, lambda payload, facet=facet: {"by": facet}))
        for facet in facets
    ]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    eventually(lambda: len(deployment.results()) == 8, 20)
    for facet in facets[:4]:
        agent.unregister(facet)
    eventually(lambda: len(agent.groups) == 5, 20)
    agent.stop()
    running.join(20)

    assert deployment.results() == {f"wf-{n}:{n:x}": {"by": facet} for n, facet in enumerate(facets, 1)}
    assert not running.is_alive()


def test_a_handler_of_a_facet_that_went_is_not_kept_by_the_end_of_the_agent() -> None:
    deployment = Deployment((PAY, VOID), grace_s=0)
    entered, may_continue = threading.Event(), threading.Event()

    def slow(payload: dict[str, object]) -> dict[str, object]:
        entered.set()
        may_continue.wait(30)
        return {}

    agent = deployment.agent()
    agent.register(PAY, slow)
    agent.register(VOID, lambda payload: {})
    deployment.publish(event(PAY, 1))
    while not entered.is_set():
        agent.turn(0.01)
    agent.unregister(PAY)
    agent.turn(0.0)

    # The grace period is over at once: its event is left to be handled again.
    assert agent.close() == 1
    may_continue.set()
    assert deployment.committed(PAY) is None or deployment.committed(PAY).offset == 0  # type: ignore[union-attr]  # it is not None there
