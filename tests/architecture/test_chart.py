"""The chart of Kubernetes, rendered by Go's templates: what it makes of values, and which values it refuses.

tests/integration/test_chart_by_helm.py asks Helm itself, and the schemas of Kubernetes.
"""

from __future__ import annotations

import copy
import json
import re
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from afl import __version__
from afl_stream.settings.config import StreamConfig, load_config
from afl_stream.settings.gateway import GatewaySettings
from afl_stream.topics.declared import Topology
from tests.worlds.requirements import required_tool

_CHART = Path(__file__).parents[2] / "deploy" / "helm" / "afl-stream"
_PAGE = Path(__file__).parents[2] / "docs" / "deploying.md"
_DEFAULTS: dict[str, Any] = yaml.safe_load((_CHART / "values.yaml").read_text())
_SCHEMA: dict[str, Any] = json.loads((_CHART / "values.schema.json").read_text())
_ABOUT: dict[str, Any] = yaml.safe_load((_CHART / "Chart.yaml").read_text())
#: The values that the page shows.
SHOWN: dict[str, Any] = yaml.safe_load(re.findall(r"^```yaml\n(.*?)^```$", _PAGE.read_text(), re.M | re.S)[0])
SHOWN["image"]["digest"] = f"sha256:{'0' * 64}"

#: Further values: dashboard and gateway.
WITH_PAGES: dict[str, Any] = {
    part: {"enabled": True, "tokens": {"secret": "tokens"}} for part in ("dashboard", "gateway")
}

Rendered = dict[tuple[str, str], dict[str, Any]]
Render = Callable[..., Rendered]


def merged(below: Any, above: Any) -> Any:
    """Return values with others over them, as Helm merges them."""
    if not isinstance(below, dict) or not isinstance(above, dict):
        return copy.deepcopy(above)
    keys = {**below, **above}
    return {key: merged(below.get(key), above[key]) if key in above else copy.deepcopy(below[key]) for key in keys}


def test_the_defaults_and_the_values_of_the_page_are_what_the_schema_takes() -> None:
    validator = jsonschema.Draft7Validator(_SCHEMA)

    validator.validate(_DEFAULTS)
    validator.validate(merged(_DEFAULTS, SHOWN))
    assert list(validator.iter_errors(merged(_DEFAULTS, {"evaluators": {}})))
    assert list(validator.iter_errors(merged(_DEFAULTS, {"agents": {"a": {"handlers": []}}})))
    # Never to zero: the group's committed offsets are what wakes it.
    to_zero = {"a": {"handlers": ["h"], "scaling": {"facets": ["x.Y"], "minReplicas": 0}}}
    assert list(validator.iter_errors(merged(_DEFAULTS, {"agents": to_zero})))


def test_the_templates_use_values_that_there_are() -> None:
    used = {
        tuple(found.split("."))
        for path in (_CHART / "templates").iterdir()
        for found in re.findall(r"\.Values\.([A-Za-z.]+)", path.read_text())
    }

    assert used
    for words in used:
        value: Any = _DEFAULTS
        for word in words:
            assert word in value, words
            value = value[word]


def test_the_chart_is_of_the_release_that_it_installs() -> None:
    assert _ABOUT["appVersion"] == __version__


@pytest.fixture(scope="module")
def render(tmp_path_factory: pytest.TempPathFactory) -> Render:
    folder = tmp_path_factory.mktemp("renderer")
    program, source = folder / "renderer", Path(__file__).parent / "chart_renderer" / "main.go"
    subprocess.run([required_tool("go"), "build", "-o", str(program), str(source)], check=True, timeout=200)

    def rendered(*values: Mapping[str, Any], refused: bool = False) -> Any:
        of = _DEFAULTS
        for more in values:
            of = merged(of, more)
        chart = {"Name": _ABOUT["name"], "Version": _ABOUT["version"], "AppVersion": _ABOUT["appVersion"]}
        scope = {"Values": of, "Release": {"Name": "shop", "Service": "Helm"}, "Chart": chart}
        words = [str(program), str(_CHART / "templates")]
        called = subprocess.run(words, input=json.dumps(scope), capture_output=True, text=True, check=False, timeout=60)
        if refused:
            assert called.returncode == 1
            return called.stderr
        assert called.returncode == 0, called.stderr
        documents = [document for document in yaml.safe_load_all(called.stdout) if document]
        by_name = {(document["kind"], document["metadata"]["name"]): document for document in documents}
        assert len(by_name) == len(documents)
        return by_name

    return rendered


def pods(rendered: Rendered) -> Iterator[tuple[str, dict[str, Any]]]:
    for (_, name), document in rendered.items():
        if "template" in document.get("spec", {}):
            yield name, document["spec"]["template"]


def variables(container: Mapping[str, Any]) -> dict[str, Any]:
    return {entry["name"]: entry.get("value", entry.get("valueFrom")) for entry in container["env"]}


def container_of(document: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = document["spec"]["template"]["spec"]["containers"][0]
    return found


@pytest.mark.long
def test_the_values_of_the_page_make_a_whole_deployment(render: Render) -> None:
    made = render(SHOWN)

    assert set(made) == {
        ("Job", "shop-program"),
        ("Deployment", "shop-evaluator"),
        ("Deployment", "shop-agent-orders"),
        ("ScaledObject", "shop-agent-orders"),
        ("StatefulSet", "shop-audit"),
        ("PodDisruptionBudget", "shop-evaluator"),
        ("PodDisruptionBudget", "shop-agent-orders"),
        ("NetworkPolicy", "shop-afl-stream"),
    }
    job = made["Job", "shop-program"]["spec"]["template"]["spec"]
    assert job["initContainers"][0]["args"] == ["topics", "apply", "workflow.afl"]
    assert job["containers"][0]["args"] == ["deploy", "workflow.afl"]
    agent = container_of(made["Deployment", "shop-agent-orders"])
    assert agent["args"] == ["agent", "--handlers", "handlers"]
    assert agent["image"] == f"registry.example.com/orders@sha256:{'0' * 64}"


@pytest.mark.long
def test_every_pod_is_without_root_rights_and_with_limits(render: Render) -> None:
    made = render(SHOWN, WITH_PAGES)

    for name, pod in pods(made):
        spec = pod["spec"]
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["automountServiceAccountToken"] is False
        for container in (*spec["containers"], *spec.get("initContainers", ())):
            assert container["securityContext"] == {
                "readOnlyRootFilesystem": True,
                "allowPrivilegeEscalation": False,
                "capabilities": {"drop": ["ALL"]},
            }
            mounted = {mount["name"] for mount in container["volumeMounts"]}
            claims = made.get(("StatefulSet", name), {"spec": {}})["spec"].get("volumeClaimTemplates", ())
            declared = {volume["name"] for volume in (*spec["volumes"], *(claim["metadata"] for claim in claims))}
            assert mounted <= declared, name
        if name != "shop-program":
            assert "memory" in spec["containers"][0]["resources"]["limits"]
        # What its controller and its disruption budget choose is this pod.
        assert pod["metadata"]["labels"]["app.kubernetes.io/component"] == name.removeprefix("shop-")
        for kind in ("Deployment", "StatefulSet", "PodDisruptionBudget"):
            if (kind, name) in made:
                chosen = made[kind, name]["spec"]["selector"]["matchLabels"]
                assert chosen.items() <= pod["metadata"]["labels"].items()


@pytest.mark.long
def test_services_are_probed_and_have_more_time_to_end_than_their_grace(render: Render) -> None:
    made = render(SHOWN, WITH_PAGES, {"agents": {"orders": {"graceSeconds": 90}}})

    deployments = [("Deployment", f"shop-{part}") for part in ("evaluator", "agent-orders", "gateway")]
    for key in (*deployments, ("StatefulSet", "shop-audit")):
        container = container_of(made[key])
        assert container["livenessProbe"]["httpGet"] == {"path": "/health/live", "port": "metrics"}
        assert container["readinessProbe"]["httpGet"] == {"path": "/health/ready", "port": "metrics"}
        plain = {name: value for name, value in variables(container).items() if isinstance(value, str)}
        config = load_config(environ=plain)
        ports = {port["name"]: port["containerPort"] for port in container["ports"]}
        assert config.metrics.port == ports["metrics"]
        ends_s = made[key]["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]
        assert ends_s >= config.agent.grace_s + 30
    agent = made["Deployment", "shop-agent-orders"]
    assert variables(container_of(agent))["AFL_AGENT_GRACE_S"] == "90"


@pytest.mark.long
def test_secrets_come_by_reference_and_the_store_is_for_those_who_need_it(render: Render) -> None:
    made = render(SHOWN, WITH_PAGES)

    store = {"secretKeyRef": {"name": "orders", "key": "store-url"}}
    reaching = {
        name for name, pod in pods(made) if variables(pod["spec"]["containers"][0]).get("AFL_STORE_URL") == store
    }
    assert reaching == {"shop-evaluator", "shop-dashboard"}
    password = {"secretKeyRef": {"name": "orders", "key": "kafka-password"}}
    assert all(variables(pod["spec"]["containers"][0])["AFL_KAFKA_SASL_PASSWORD"] == password for _, pod in pods(made))


@pytest.mark.long
def test_agents_scale_by_the_lag_of_the_groups_and_topics_that_they_have(render: Render) -> None:
    made = render(SHOWN, {"settings": {"AFL_PREFIX": "orders."}})
    config = StreamConfig(prefix="orders.")

    scaled = made["ScaledObject", "shop-agent-orders"]["spec"]
    trigger = scaled["triggers"][0]["metadata"]
    assert trigger["topic"] == Topology(config).facet("shop.Charge")
    assert trigger["consumerGroup"] == "orders.agent.shop.Charge"
    assert trigger["bootstrapServers"] == "kafka-bootstrap:9092"
    assert (scaled["minReplicaCount"], scaled["maxReplicaCount"]) == (1, 12)
    # Else each upgrade would set the number back.
    assert "replicas" not in made["Deployment", "shop-agent-orders"]["spec"]
    unscaled = render(SHOWN, {"agents": {"orders": {"scaling": {"enabled": False}}}})
    assert unscaled["Deployment", "shop-agent-orders"]["spec"]["replicas"] == 2
    assert ("ScaledObject", "shop-agent-orders") not in unscaled


@pytest.mark.long
def test_an_evaluator_with_a_file_is_one_with_a_volume(render: Render) -> None:
    bare = {"settings": {"AFL_KAFKA_BOOTSTRAP": "kafka:9092"}, "evaluator": {"volume": {"enabled": True}}}
    made = render(bare, {"program": {"configMap": "orders", "files": ["workflow.afl"], "applyTopics": False}})

    evaluator = made["StatefulSet", "shop-evaluator"]["spec"]
    assert evaluator["replicas"] == 1
    assert evaluator["volumeClaimTemplates"][0]["metadata"]["name"] == "data"
    assert ("PodDisruptionBudget", "shop-evaluator") not in made
    job = made["Job", "shop-program"]["spec"]["template"]["spec"]
    assert job["initContainers"][0]["args"] == ["topics", "plan", "--check", "workflow.afl"]
    assert {"name": "program", "configMap": {"name": "orders"}} in job["volumes"]


@pytest.mark.long
def test_nobody_reaches_a_pod_unless_the_values_say_so(render: Render) -> None:
    peers = [{"namespaceSelector": {"matchLabels": {"name": "monitoring"}}}]
    policy = {"metricsFrom": peers, "dashboardFrom": peers, "gatewayFrom": peers}

    closed = render(SHOWN)["NetworkPolicy", "shop-afl-stream"]["spec"]
    opened = render(SHOWN, WITH_PAGES, {"networkPolicy": policy})

    assert (closed["policyTypes"], closed["ingress"]) == (["Ingress"], [])
    metrics = opened["NetworkPolicy", "shop-afl-stream"]["spec"]["ingress"]
    assert metrics == [{"from": peers, "ports": [{"protocol": "TCP", "port": 9464}]}]
    pages = opened["NetworkPolicy", "shop-afl-stream-dashboard"]["spec"]
    assert pages["podSelector"]["matchLabels"]["app.kubernetes.io/component"] == "dashboard"
    assert pages["ingress"][0]["ports"] == [{"protocol": "TCP", "port": 8233}]
    api = opened["NetworkPolicy", "shop-afl-stream-gateway"]["spec"]
    assert api["podSelector"]["matchLabels"]["app.kubernetes.io/component"] == "gateway"
    assert api["ingress"] == [{"from": peers, "ports": [{"protocol": "TCP", "port": 8234}]}]


@pytest.mark.long
def test_a_gateway_serves_the_facets_of_the_values_under_its_services_name(render: Render) -> None:
    wanted = {
        "facets": ["shop.Charge"],
        "webhooks": {"shop.Ship": "https://ship.example.com/events"},
        "hosts": ["api.example.com"],
    }
    made = render(SHOWN, WITH_PAGES, {"gateway": wanted})

    container = container_of(made["Deployment", "shop-gateway"])
    webhook = "shop.Ship=https://ship.example.com/events"
    assert container["args"][-4:] == ["--facet", "shop.Charge", "--webhook", webhook]
    plain = {name: value for name, value in variables(container).items() if isinstance(value, str)}
    config = load_config(environ=plain)
    assert config.gateway.hosts == ("shop-gateway", "api.example.com")
    assert {port["containerPort"] for port in container["ports"]} == {GatewaySettings().port, 9464}
    assert made["Service", "shop-gateway"]["spec"]["selector"]["app.kubernetes.io/component"] == "gateway"
    assert ("PodDisruptionBudget", "shop-gateway") in made
    alone = render(SHOWN, WITH_PAGES, {"gateway": {"replicas": 1}})
    assert ("PodDisruptionBudget", "shop-gateway") not in alone


@pytest.mark.long
@pytest.mark.parametrize(
    ("values", "why"),
    [
        (
            {"settings": {"AFL_KAFKA_BOOTSTRAP": "kafka:9092"}, "audit": {"enabled": False}},
            "the evaluators need a store",
        ),
        ({"evaluator": {"volume": {"enabled": True}}}, "settings.AFL_KAFKA_BOOTSTRAP"),
        (merged(SHOWN, {"secretSettings": {"secret": ""}}), "secretSettings.secret"),
        (merged(SHOWN, {"dashboard": {"enabled": True}}), "dashboard.tokens.secret"),
        (merged(SHOWN, {"gateway": {"enabled": True}}), "gateway.tokens.secret"),
    ],
)
def test_values_that_lack_something_are_refused_by_name(values: Mapping[str, Any], why: str, render: Render) -> None:
    said: Any = render(values, refused=True)

    assert why in said
