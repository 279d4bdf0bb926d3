"""One trace over processes on a real broker: client, evaluators of which one dies, an agent, and a person with kcat."""

from __future__ import annotations

import re
import subprocess

from afl.engine.model.store import COMPLETED
from tests.eventually import eventually
from tests.worlds.deployment import Deployment
from tests.worlds.otlp_receiver import OtlpReceiver, receiving
from tests.worlds.party_handlers import argument_for
from tests.worlds.processes import DEADLINE_S
from tests.worlds.requirements import required_tool
from tests.worlds.world import Deployments

SOURCE = """
namespace shop {
  event facet Price(item: String) => (amount: Long, call: Long)
  event facet Charge(amount: Long) => (receipt: String)
  workflow Checkout(item: String) => (receipt: String) andThen {
    price = Price(item = $.item)
    paid = Charge(amount = price.amount)
    yield Checkout(receipt = paid.receipt)
  }
}
"""
CARRIED = re.compile(r"^(?P<key>\S+) .*traceparent=(?P<parent>00-[0-9a-f]{32}-[0-9a-f]{16}-01)", re.MULTILINE)


def kcat(deployment: Deployment, *words: str, text: str = "") -> str:
    bootstrap = deployment.config.kafka.bootstrap or ""
    command = [required_tool("kcat"), "-q", "-b", bootstrap, *words]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True, timeout=60).stdout


def asked(deployment: Deployment) -> re.Match[str] | None:
    """Return the key of the event that asks for the charge, and the trace context that it carries."""
    topic = deployment.topology.facet("shop.Charge")
    return CARRIED.search(kcat(deployment, "-C", "-e", "-t", topic, "-f", r"%k %h\n"))


def answer_by_kcat(deployment: Deployment) -> str:
    """Answer as any language can: with the event's own `traceparent`. Returns that."""
    eventually(lambda: asked(deployment) is not None, DEADLINE_S, interval_s=0.2)
    event = asked(deployment)
    assert event is not None
    answer = f'wf|{{"step_id": "{event["key"]}", "result": {{"receipt": "r-1"}}}}'
    headers = ("-H", "content-type=application/json", "-H", f"traceparent={event['parent']}")
    topic = deployment.topology.control()
    kcat(deployment, "-P", "-t", topic, "-K", "|", "-X", "partitioner=murmur2_random", *headers, text=answer)
    return event["parent"]


def run_through(deployments: Deployments, receiver: OtlpReceiver) -> tuple[Deployment, str]:
    """Run a workflow over processes, one of which dies after it has stored an answer; return what kcat carried."""
    settings = {"AFL_TRACING_EXPORTER": "otlp", "AFL_TRACING_ENDPOINT": receiver.url}
    deployment = deployments(SOURCE, settings=settings)
    processes = deployment.processes
    # The first commit is the start's, the second that of the agent's answer.
    dies = processes.evaluator(at="control.persisted", passes=2)
    agent = processes.agent_of(argument_for("shop.Price"))
    deployment.client.start("shop.Checkout", {"item": "tea"}, workflow_id="wf")
    dies.when_dead()
    evaluator = processes.evaluator()
    carried = answer_by_kcat(deployment)
    processes.finish(["wf"])
    agent.stop()
    evaluator.stop()
    sent = f"send {deployment.topology.commands()}"
    eventually(lambda: sent in {span.name for _, span in receiver.spans()}, DEADLINE_S, interval_s=0.1)
    return deployment, carried


def test_a_run_is_one_trace_over_processes_a_crash_and_an_answer_by_kcat(deployments: Deployments) -> None:
    with receiving() as receiver:
        deployment, carried = run_through(deployments, receiver)

    assert deployment.workflow("wf").status == COMPLETED
    topology = deployment.topology
    spans = {(service, span.name): span for service, span in receiver.spans()}
    expected = {
        ("afl-stream-client", f"send {topology.commands()}"),
        ("afl-stream-agent", f"process {topology.facet('shop.Price')}"),
        ("afl-stream-agent", f"send {topology.control()}"),
        ("afl-stream-evaluator", f"send {topology.facet('shop.Charge')}"),
        ("afl-stream-evaluator", f"process {topology.control()}"),
        ("afl-stream-evaluator", "run shop.Checkout"),
    }
    assert expected <= spans.keys()
    assert {spans[name].trace_id.hex() for name in expected} == {carried[3:35]}
    # The answer by kcat is worked on below the event's own span, which it names.
    assert spans["afl-stream-evaluator", f"process {topology.control()}"].parent_span_id.hex() == carried[36:52]
