"""The alert for a facet whose events nobody has ever answered, on what a deployment exposes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from threading import Event, Thread

import yaml

from afl.compiled.program import CompiledProgram
from afl.compiler import compile_text
from afl.core.clock import SystemClock
from afl.core.monitoring.prometheus import PrometheusPage
from afl.stores.memory.store import MemoryStore
from afl_stream.agent.agent import Agent, AgentConfig
from afl_stream.client.client import Client
from afl_stream.embedded.transport import EmbeddedBroker, EmbeddedTransport
from afl_stream.evaluator.monitoring.metrics import EvaluatorMetrics
from afl_stream.evaluator.monitoring.observer import EvaluatorObserver
from afl_stream.evaluator.monitoring.store_watch import StoreWatch
from afl_stream.evaluator.service import EvaluatorService
from afl_stream.settings.config import StreamConfig, TopicSettings
from afl_stream.topics.declared import Topology
from tests.eventually import eventually
from tests.worlds.metric_pages import Samples, samples

RULES = Path(__file__).parents[2] / "deploy" / "prometheus" / "afl-stream.rules.yml"
#: The form of the rule; `unless` leaves out what its right side has, by the label of the sums.
_FORM = re.compile(r"sum by \((\w+)\) \((\w+)\) > 0 unless sum by \(\1\) \((\w+)\) > 0")

PROGRAM = """
namespace shop {
    event facet Charge(n: Long) => (n: Long)
    event facet Refuse(n: Long) => (n: Long)
    event facet Ship(n: Long) => (n: Long)
    workflow Sell(n: Long) => (n: Long) andThen { paid = Charge(n = $.n)  yield Sell(n = paid.n) }
    workflow Fail(n: Long) => (n: Long) andThen { no = Refuse(n = $.n)  yield Fail(n = no.n) }
    workflow Send(n: Long) => (n: Long) andThen { sent = Ship(n = $.n)  yield Send(n = sent.n) }
}
"""


def firing(page: Samples) -> set[str]:
    """Return the facets that the alert fires for, once it has lasted."""
    (rule,) = (
        rule["expr"]
        for group in yaml.safe_load(RULES.read_text())["groups"]
        for rule in group["rules"]
        if rule["alert"] == "AflNeverAnswered"
    )
    form = _FORM.fullmatch(rule)
    assert form is not None, f"this test reads no rule of another form: {rule}"
    label, *names = form.groups()
    published, answered = (Counter[str](), Counter[str]())
    for name, total in zip(names, (published, answered), strict=True):
        for (found, labels), value in page.items():
            if found == name:
                total[dict(labels)[label]] += int(value)
    return {facet for facet, count in published.items() if count > 0} - {
        f for f, count in answered.items() if count > 0
    }


@contextmanager
def running(work: Callable[[], object], end: Callable[[], None]) -> Iterator[None]:
    thread = Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        end()
        thread.join()


def test_the_alert_fires_for_the_facet_without_an_agent_alone() -> None:
    config = StreamConfig(topics=TopicSettings(control_partitions=1, event_partitions=1))
    program = CompiledProgram(compile_text(PROGRAM).program_json)
    broker, store, stop = EmbeddedBroker(), MemoryStore(), Event()
    observer = EvaluatorObserver(Topology(config).facets_of)
    with closing(Client(config, EmbeddedTransport(broker))) as client:
        client.apply_topics([program])
        client.deploy(program)
        service = EvaluatorService(config, EmbeddedTransport(broker), store, observer=observer)
        agent = Agent(AgentConfig(stream=config), EmbeddedTransport(broker))
        agent.register("shop.Charge", lambda payload: {"n": payload["n"]})
        agent.register("shop.Refuse", lambda _payload: {"n": 1 / 0})
        with running(lambda: service.run(stop), stop.set), running(agent.run, agent.stop):
            for workflow in ("Sell", "Fail", "Send"):
                client.start(f"shop.{workflow}", {"n": 1}, workflow_id=workflow.lower())
            eventually(lambda: sum(observer.answers.copy().values()) == 2 and len(observer.events) == 3, 60.0)
        page = PrometheusPage([EvaluatorMetrics(service, observer, StoreWatch(store, SystemClock()))]).page()

    assert firing(samples(page.body.decode())) == {"shop.Ship"}
