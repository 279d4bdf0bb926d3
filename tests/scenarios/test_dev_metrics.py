"""`dev` serves the metrics and the health of all its services on one port; a loop that hangs is not live."""

from __future__ import annotations

import json
import re
import threading
import urllib.error
import urllib.request
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from afl.compiled.program import CompiledProgram
from afl.compiler import compile_text
from afl.core.clock import SystemClock
from afl.core.monitoring.serving import MonitoringServer
from afl.stores.memory.store import MemoryStore
from afl_stream.client.client import Client
from afl_stream.commands.monitoring.local import monitored_deployment
from afl_stream.dev import LocalDeployment
from afl_stream.embedded.transport import EmbeddedBroker, EmbeddedTransport
from afl_stream.evaluator.monitoring.health import EvaluatorHealth
from afl_stream.evaluator.monitoring.store_watch import StoreWatch
from afl_stream.evaluator.service import EvaluatorService
from afl_stream.settings.config import EmbeddedSettings, StreamConfig
from tests.eventually import eventually

PROGRAM = """
namespace shop {
    event facet Charge(n: Long) => (n: Long)
    workflow Sell(n: Long) => (n: Long) andThen { paid = Charge(n = $.n)  yield Sell(n = paid.n) }
}
"""


def asked(url: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_dev_serves_the_metrics_of_evaluator_agent_and_audit(tmp_path: Path) -> None:
    config = StreamConfig(embedded=EmbeddedSettings(data_dir=str(tmp_path / "data")))
    config = replace(config, metrics=replace(config.metrics, port=0))
    said: list[str] = []
    with LocalDeployment(
        config,
        set_up_agent=lambda agent: agent.register("shop.Charge", lambda payload: {"n": payload["n"]}),
        audit_path=tmp_path / "audit.jsonl",
    ) as deployment:
        deployment.deploy(CompiledProgram(compile_text(PROGRAM).program_json))
        deployment.run()
        with monitored_deployment(said.append, deployment):
            deployment.wait(deployment.start("shop.Sell", {"n": 1}), timeout_s=60)
            found = re.match(r"(http://127.0.0.1:\d+) has /metrics", said[0])
            assert found is not None
            eventually(lambda: asked(f"{found[1]}/health/ready")[0] == 200, 60)
            page = asked(f"{found[1]}/metrics")[1]

    assert 'afl_evaluator_workflows_ended_total{status="COMPLETED"} 1.0' in page
    assert 'afl_agent_answers_total{facet="shop.Charge",result="completed"} 1.0' in page
    assert "afl_audit_records_written_total" in page
    assert 'afl_live{service="dev"} 1.0' in page


def test_a_loop_that_hangs_is_not_live_and_lives_again_when_it_turns() -> None:
    config = StreamConfig()
    broker, store = EmbeddedBroker(), MemoryStore()
    hangs, goes_on, stop = threading.Event(), threading.Event(), threading.Event()

    def probe(step: str) -> None:
        if step == "control.read":
            hangs.set()
            assert goes_on.wait(60)

    with closing(Client(config, EmbeddedTransport(broker))) as client:
        program = CompiledProgram(compile_text(PROGRAM).program_json)
        client.apply_topics([program])
        client.deploy(program)
        service = EvaluatorService(config, EmbeddedTransport(broker), store, probe=probe)
        # What is slow on a busy machine is not stuck yet; the hung loop is, a little later.
        health = EvaluatorHealth(service, StoreWatch(store, SystemClock()), 2.0)
        server = MonitoringServer([], health)
        url = f"http://127.0.0.1:{server.start('127.0.0.1', 0)}/health/live"
        thread = threading.Thread(target=lambda: service.run(stop))
        thread.start()
        try:
            client.start("shop.Sell", {"n": 1})
            assert hangs.wait(60)
            eventually(lambda: asked(url)[0] == 503, 60)
            (reason,) = json.loads(asked(url)[1])["reasons"]
            goes_on.set()
            eventually(lambda: asked(url)[0] == 200, 60)
        finally:
            goes_on.set()
            stop.set()
            thread.join()
            server.stop()

    assert re.match(r"the loop has not turned for \d+ s, and counts as stuck after 2 s", reason)
