"""Metrics of a deployment at work: what is exposed is true, and dashboard and alerts ask for what is exposed."""

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest
import yaml

from afl.compiled.program import CompiledProgram
from afl.compiler import compile_text
from afl.core.clock import SystemClock
from afl.core.handlers.retry import RetryPolicy
from afl.core.monitoring.metrics import Metric, MetricKind, MetricSource
from afl.core.monitoring.prometheus import PrometheusPage
from afl.core.monitoring.serving import ServiceMetrics
from afl.stores.memory.store import MemoryStore
from afl_stream.agent.agent import Agent, AgentConfig
from afl_stream.agent.metrics import AgentMetrics
from afl_stream.agent.observer import AgentObserver
from afl_stream.audit.audit import Audit, AuditConfig, AuditFile
from afl_stream.audit.metrics import AuditMetrics
from afl_stream.client.client import Client
from afl_stream.embedded.transport import EmbeddedBroker, EmbeddedTransport
from afl_stream.evaluator.monitoring.health import EvaluatorHealth
from afl_stream.evaluator.monitoring.metrics import EvaluatorMetrics
from afl_stream.evaluator.monitoring.observer import EvaluatorObserver
from afl_stream.evaluator.monitoring.store_watch import StoreWatch
from afl_stream.evaluator.service import EvaluatorService
from afl_stream.settings.config import StreamConfig, TopicSettings
from afl_stream.topics.declared import Topology
from tests.eventually import eventually
from tests.worlds.metric_pages import Samples, samples

ROOT = Path(__file__).parents[2]
DASHBOARD = ROOT / "deploy" / "grafana" / "afl-stream.json"
RULES = ROOT / "deploy" / "prometheus" / "afl-stream.rules.yml"

PROGRAM = """
namespace shop {
    event facet Charge(n: Long) => (n: Long)
    event facet Refuse(n: Long) => (n: Long)
    workflow Sell(n: Long) => (n: Long) andThen { paid = Charge(n = $.n)  yield Sell(n = paid.n) }
    workflow Fail(n: Long) => (n: Long) andThen { no = Refuse(n = $.n)  yield Fail(n = no.n) }
    workflow Rest() andThen { s = afl.Sleep(ms = 1) }
}
"""
#: How many of each are run.
SALES, FAILURES = 20, 2


@dataclass(frozen=True)
class Seen:
    """What a deployment has exposed at the end of its work."""

    evaluator: str
    agent: str
    audit: str
    declared: tuple[Metric, ...]

    @property
    def pages(self) -> str:
        return self.evaluator + self.agent + self.audit


@contextmanager
def running(work: Any, end: Any) -> Iterator[None]:
    thread = Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        end()
        thread.join()


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Seen:
    """Run a deployment with evaluator, agent and audit, and return what each exposes when all is done."""
    config = StreamConfig(topics=TopicSettings(control_partitions=1, event_partitions=1))
    config = replace(config, metrics=replace(config.metrics, port=0))
    program = CompiledProgram(compile_text(PROGRAM).program_json)
    broker, store, stop = EmbeddedBroker(), MemoryStore(), Event()
    evaluators, agents, audits, people = (EmbeddedTransport(broker) for _ in range(4))
    client = Client(config, people)
    client.apply_topics([program])
    client.deploy(program)
    observer = EvaluatorObserver(Topology(config).facets_of)
    service = EvaluatorService(config, evaluators, store, observer=observer)
    watch = StoreWatch(store, SystemClock())
    agent = Agent(AgentConfig(stream=config, observer=AgentObserver()), agents)
    tries: list[int] = []
    agent.register("shop.Charge", lambda payload: {"n": payload["n"] if _tried(tries) else 1 / 0}, retry=_TWICE)
    agent.register("shop.Refuse", lambda _payload: {"n": 1 / 0})
    audit = Audit(
        AuditConfig(stream=config, commands=True), audits, AuditFile(tmp_path_factory.mktemp("audit") / "audit.jsonl")
    )
    judge = EvaluatorHealth(service, watch, 180)
    agent_metrics = AgentMetrics(agent, agent.config.observer or AgentObserver())
    sources: list[tuple[MetricSource, MetricSource]] = [
        (ServiceMetrics("evaluator", judge), EvaluatorMetrics(service, observer, watch)),
        (ServiceMetrics("agent", lambda: agent_metrics.health(180)), agent_metrics),
        (ServiceMetrics("audit", lambda: AuditMetrics(audit).health(180)), AuditMetrics(audit)),
    ]
    pages = [PrometheusPage(both) for both in sources]
    with ExitStack() as opened:
        opened.enter_context(closing(client))
        opened.enter_context(running(lambda: service.run(stop), stop.set))
        opened.enter_context(running(agent.run, agent.stop))
        opened.enter_context(running(audit.run, audit.stop))
        for number in range(SALES):
            client.start("shop.Sell", {"n": number}, workflow_id=f"sale-{number}")
        for number in range(FAILURES):
            client.start("shop.Fail", {"n": number}, workflow_id=f"failure-{number}")
        client.start("shop.Rest", {}, workflow_id="rest")
        people.producer().produce("afl.control", b"{not json", key=b"x")
        eventually(lambda: _ended(observer) == SALES + FAILURES + 1, 60.0)
        eventually(lambda: service.loop.stats().dead_letters, 60.0)
        eventually(lambda: agent.counts.answered == SALES + FAILURES, 60.0)
        eventually(lambda: audit.counts.written > SALES, 60.0)
        eventually(lambda: service.lag.lags and audit.progress.lag.lags, 60.0)
        watch.look()
        texts = [page.page().body.decode() for page in pages]
    declared = tuple(metric for both in sources for source in both for metric in source.metrics)
    evaluator_page, agent_page, audit_page = texts
    return Seen(evaluator_page, agent_page, audit_page, declared)


_TWICE = RetryPolicy.parse("attempts=2, backoff=0.001")


def _tried(tries: list[int]) -> bool:
    """Return whether a handler is to succeed: all runs but the first."""
    tries.append(1)
    return len(tries) > 1


def _ended(observer: EvaluatorObserver) -> int:
    return sum(observer.ended.copy().values())


def of(found: Samples, name: str, **labels: str) -> float:
    return found[name, frozenset(labels.items())]


def test_an_evaluator_tells_what_it_has_done(seen: Seen) -> None:
    found = samples(seen.evaluator)

    assert of(found, "afl_evaluator_workflows_started_total") == SALES + FAILURES + 1
    assert of(found, "afl_evaluator_workflows_ended_total", status="COMPLETED") == SALES + 1
    assert of(found, "afl_evaluator_workflows_ended_total", status="ERROR") == FAILURES
    assert of(found, "afl_evaluator_events_total", facet="shop.Charge") == SALES
    assert of(found, "afl_evaluator_answers_total", facet="shop.Charge", result="completed") == SALES
    assert of(found, "afl_evaluator_answers_total", facet="shop.Refuse", result="failed") == FAILURES
    assert of(found, "afl_evaluator_answer_seconds_count", facet="shop.Charge") == SALES
    assert of(found, "afl_evaluator_commit_seconds_count") == of(found, "afl_evaluator_batches_total")
    assert of(found, "afl_evaluator_timers_fired_total") == 1
    assert of(found, "afl_evaluator_timer_lateness_seconds_count", kind="sleep") == 1
    assert of(found, "afl_evaluator_records_total", outcome="unreadable") == 1
    assert sum(value for (name, _), value in found.items() if name == "afl_evaluator_dead_letters_total") == 1
    assert of(found, "afl_evaluator_events_in_flight") == 0
    assert of(found, "afl_evaluator_cache_misses_total") == 0
    assert of(found, "afl_evaluator_partitions_assigned", topic="afl.control") == 1
    assert of(found, "afl_ready", service="evaluator") == of(found, "afl_live", service="evaluator") == 1


def test_an_agent_tells_what_it_has_done(seen: Seen) -> None:
    found = samples(seen.agent)

    assert of(found, "afl_agent_answers_total", facet="shop.Charge", result="completed") == SALES
    assert of(found, "afl_agent_answers_total", facet="shop.Refuse", result="failed") == FAILURES
    assert of(found, "afl_agent_answer_seconds_count", facet="shop.Charge") == SALES
    # One run has raised, and was tried again.
    assert of(found, "afl_agent_handler_seconds_count", facet="shop.Charge") == SALES + 1
    assert of(found, "afl_agent_retries_total") == 1
    assert of(found, "afl_agent_in_flight") == 0
    assert of(found, "afl_ready", service="agent") == 1


def test_an_audit_tells_what_it_has_written(seen: Seen) -> None:
    found = samples(seen.audit)

    assert of(found, "afl_audit_records_written_total") > SALES
    assert of(found, "afl_ready", service="audit") == 1


def test_every_declared_metric_is_exposed_and_every_exposed_one_declared(seen: Seen) -> None:
    exposed = dict(re.findall(r"^# TYPE (afl_\w+) (\w+)$", seen.pages, re.MULTILINE))

    assert exposed == {metric.name: metric.kind.value for metric in seen.declared}
    assert {metric.name for metric in seen.declared if not re.fullmatch(r"afl_[a-z_]+", metric.name)} == set()
    assert {m.name for m in seen.declared if (m.kind.value == "counter") is not m.name.endswith("_total")} == set()
    assert {m.name for m in seen.declared if m.kind.value == "histogram" and not m.name.endswith("_seconds")} == set()


#: Labels that Prometheus itself adds.
_OF_PROMETHEUS = frozenset({"job", "instance", "le"})
_NAME = re.compile(r"\b((?:afl|process)_[a-z_]+)(\{[^}]*\})?")
_BY = re.compile(r"\bby \(([^)]*)\)")


def asked_for(expression: str) -> tuple[set[str], set[str]]:
    """Return the names of the metrics of a query, and the labels that it names."""
    found = _NAME.findall(expression)
    matchers = {label for _, braces in found for label in re.findall(r"(\w+)\s*=", braces)}
    grouped = {label.strip() for listed in _BY.findall(expression) for label in listed.split(",")}
    return {name for name, _ in found}, (matchers | grouped) - _OF_PROMETHEUS


def labels_of(seen: Seen) -> dict[str, set[str]]:
    """Return the labels of each time series that was exposed, or that is declared, by name."""
    known: dict[str, set[str]] = {}
    for name, labels in samples(seen.pages):
        known.setdefault(name, set()).update(label for label, _ in labels)
    for metric in seen.declared:
        # A histogram has no series of its own name: only `_bucket`, `_count` and `_sum`.
        names = (
            [f"{metric.name}_{part}" for part in ("bucket", "count", "sum")] if is_histogram(metric) else [metric.name]
        )
        for name in names:
            known.setdefault(name, set()).update(metric.labels)
    return known


def is_histogram(metric: Metric) -> bool:
    return metric.kind is MetricKind.HISTOGRAM


def panels_of(dashboard: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Return the panels with queries, also those inside of a row that is folded."""
    for panel in dashboard["panels"]:
        yield from panels_of(panel) if panel.get("panels") else ()
        if panel["type"] != "row":
            yield panel


def kept_labels(expression: str, known: Mapping[str, set[str]]) -> set[str]:
    """Return the labels that the result of a query has."""
    names, _ = asked_for(expression)
    if _BY.search(expression):
        return {label.strip() for listed in _BY.findall(expression) for label in listed.split(",")} - {"le"}
    if re.search(r"\b(sum|max|histogram_quantile|absent)\b", expression):
        return set()
    return set().union(*(known.get(name, set()) for name in names)) | (_OF_PROMETHEUS - {"le"})


def unknown_in(expression: str, known: Mapping[str, set[str]]) -> list[str]:
    names, labels = asked_for(expression)
    missing = sorted(name for name in names if name not in known)
    # A query may join metrics: each of its labels belongs to one of them.
    of_names = set().union(*(known.get(name, set()) for name in names))
    return [*missing, *sorted(labels - of_names)] if names else ["no metric of ours"]


def test_the_dashboard_asks_for_metrics_and_labels_that_are_there(seen: Seen) -> None:
    known, dashboard = labels_of(seen), json.loads(DASHBOARD.read_text())
    panels = list(panels_of(dashboard))
    targets = [
        (panel["title"], target["expr"], target["legendFormat"]) for panel in panels for target in panel["targets"]
    ]

    assert len(targets) > 30
    assert [panel["title"] for panel in panels if not panel["targets"]] == []
    assert {title: wrong for title, query, _ in targets if (wrong := unknown_in(query, known))} == {}
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])
    # A legend can name only what its query keeps: else all lines of a panel are called the same.
    legends = {
        title: set(re.findall(r"{{(\w+)}}", legend)) - kept_labels(query, known) for title, query, legend in targets
    }
    assert {title: labels for title, labels in legends.items() if labels} == {}


def test_each_line_of_a_panel_has_a_name_of_its_own(seen: Seen) -> None:
    for panel in panels_of(json.loads(DASHBOARD.read_text())):
        for target in panel["targets"]:
            # What Prometheus adds by itself tells the processes apart: one of the two is enough.
            told = set(re.findall(r"{{(\w+)}}", target["legendFormat"]))
            assert kept_labels(target["expr"], {}) - {"job"} <= told, (panel["title"], target["legendFormat"])


def test_the_choices_of_the_dashboard_are_labels_that_are_there(seen: Seen) -> None:
    known, dashboard = labels_of(seen), json.loads(DASHBOARD.read_text())
    variables = {variable["name"]: variable["query"] for variable in dashboard["templating"]["list"]}
    choices = re.findall(r"label_values\((\w+), (\w+)\)", " ".join(variables.values()))

    assert choices == [("afl_build_info", "job")]
    assert all(label in known[name] | _OF_PROMETHEUS for name, label in choices)
    used = set(re.findall(r"\$(?:{)?(\w+)", json.dumps(dashboard["panels"]))) - {"__rate_interval"}
    assert used == set(variables)


def test_the_alerts_ask_for_metrics_and_labels_that_are_there_and_have_a_row_in_the_page(seen: Seen) -> None:
    known = labels_of(seen)
    rules = [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]
    listed = re.findall(r"^\| `(Afl\w+)` \|", (ROOT / "docs" / "monitoring.md").read_text(), re.MULTILINE)

    assert {rule["alert"]: wrong for rule in rules if (wrong := unknown_in(rule["expr"], known))} == {}
    told = {
        rule["alert"]: set(re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"]))
        - kept_labels(rule["expr"], known)
        for rule in rules
    }
    assert {alert: labels for alert, labels in told.items() if labels} == {}
    assert [rule["alert"] for rule in rules] == listed


#: Counters of which some series begin with their first count, because their labels cannot all be told before.
_BORN_COUNTED = ("afl_evaluator_dead_letters_total", "afl_agent_dead_letters_total")


def test_no_alert_and_no_total_waits_for_the_second_count_of_a_series(seen: Seen) -> None:
    rules = [rule["expr"] for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]
    stats = [
        target["expr"]
        for panel in panels_of(json.loads(DASHBOARD.read_text()))
        if panel["type"] == "stat"
        for target in panel["targets"]
    ]

    increased = [name for query in (*rules, *stats) for name in re.findall(r"(?:increase|rate)\((\w+)", query)]
    assert set(increased) & set(_BORN_COUNTED) == set()
    # The series of all labels that can be told are there before they are counted.
    evaluator, agent = samples(seen.evaluator), samples(seen.agent)
    assert of(evaluator, "afl_evaluator_dead_letters_total", reason="bad_magic") == 0
    assert of(evaluator, "afl_evaluator_dead_letters_total", reason="AlreadyExists") == 0
    assert of(evaluator, "afl_evaluator_workflows_ended_total", status="CANCELLED") == 0
    assert of(evaluator, "afl_evaluator_records_total", outcome="rejected") == 0
    assert of(evaluator, "afl_evaluator_external_events_total", happened="raised") == 0
    assert of(evaluator, "afl_evaluator_answers_total", facet="shop.Charge", result="failed") == 0
    assert of(agent, "afl_agent_dead_letters_total", reason="PoisonEvent") == 0


def test_a_query_for_what_is_not_exposed_is_found(seen: Seen) -> None:
    known = labels_of(seen)

    assert unknown_in("sum(afl_evaluator_nothing_total)", known) == ["afl_evaluator_nothing_total"]
    assert unknown_in('sum by (colour) (afl_ready{shape="round"})', known) == ["colour", "shape"]
    # A histogram has series of its parts alone.
    assert unknown_in("afl_evaluator_commit_seconds", known) == ["afl_evaluator_commit_seconds"]
    assert unknown_in("afl_evaluator_commit_seconds_bucket", known) == []
    assert kept_labels("sum by (topic) (afl_agent_lag_read_records)", known) == {"topic"}
    assert kept_labels("sum(afl_agent_lag_read_records)", known) == set()
    assert kept_labels("afl_ready == 0", known) == {"service", "instance", "job"}
