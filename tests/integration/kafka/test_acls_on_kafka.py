"""A whole deployment on a broker that refuses all that no ACL gives: each role works with its rights, and no more."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from runpy import run_path
from typing import Any
from urllib.request import urlopen

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicCollection
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]  # not marked as exported
from starlette.testclient import TestClient

from afl_stream.bridge import Bridge
from afl_stream.broker.ports import HOST
from afl_stream.dashboard.application import make_application, make_dashboard
from afl_stream.dashboard.deployment import Deployment
from afl_stream.pubsub import WorkflowTopics
from afl_stream.pubsub.subscriptions.settings import subscription_group
from afl_stream.settings.config import load_config
from afl_stream.settings.dashboard import DashboardSettings
from afl_stream.topics.rights import Role, Scope, Subscribed
from afl_stream.web.access import Access
from tests.eventually import eventually
from tests.integration.kafka.secured_cluster import (
    AUDIT,
    BRIDGE,
    CLIENT,
    DASHBOARD,
    EVALUATOR,
    GATEWAY,
    NOTE,
    OPERATOR,
    PING,
    PRODUCER,
    STARTER,
    STRANGER,
    SUBSCRIBER,
    WORKER,
    SecuredCluster,
    secured_cluster,
)
from tests.integration.kafka.test_cli_on_kafka import KafkaCommandLine, kafka_command_line
from tests.integration.kafka.test_gateway_on_kafka import post
from tests.scenarios.command_lines import Called
from tests.scenarios.dashboard.world import act
from tests.worlds.processes import DEADLINE_S, Processes
from tests.worlds.reviews import REVIEW

pytestmark = [pytest.mark.long, pytest.mark.timeout(240)]
_PREFIX = "t."
_HANDLERS = """
def ping(payload):
    return {"ms": len(payload["host"])}

def note(payload):
    return {"ok": True}
"""
_SHOP = f"""
from afl_stream.bridge import WorkflowTopic
{REVIEW}

def declare(bridge):
    bridge.publish("net.Note", to=WorkflowTopic("review", "cases"), data="text", results=lambda _: {{"ok": True}})
    bridge.raise_events("shop.parcels", name="packed")
"""
_PAGES = ("/topics", "/dead-letters", "/servers", "/programs")
_AGENTS = {PING: "net.Ping", NOTE: "net.Note"}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, broker_installed: None) -> Iterator[SecuredCluster]:
    """Return a broker whose operator has created topics, and deployed a program."""
    folder = tmp_path_factory.mktemp("secured")
    with Processes(folder) as processes:
        command_line = kafka_command_line(folder, "", _PREFIX, processes)
        (folder / command_line.handlers).write_text(_HANDLERS)
        shared = {name: text for name, text in command_line.environment.items() if name != "AFL_KAFKA_BOOTSTRAP"}
        shared |= {"AFL_PRESENCE_INTERVAL_S": "1", "AFL_LOGGING_LEVEL": "warning"}
        with secured_cluster(folder, shared) as cluster:
            cluster.give(OPERATOR, Role.OPERATOR)
            called_by(OPERATOR, cluster, processes).deployed()
            yield cluster


@pytest.fixture
def processes_here(cluster: SecuredCluster) -> Iterator[Processes]:
    with Processes(cluster.folder) as processes:
        yield processes


def called_by(user: str, cluster: SecuredCluster, processes: Processes) -> KafkaCommandLine:
    return KafkaCommandLine(folder=cluster.folder, environment=cluster.user(user), processes=processes)


def test_the_whole_loop_runs_under_exactly_these_rights(cluster: SecuredCluster, processes_here: Processes) -> None:
    calls = {user: called_by(user, cluster, processes_here) for user in (EVALUATOR, PING, NOTE, AUDIT, STARTER)}
    cluster.give(EVALUATOR, Role.EVALUATOR)
    cluster.give(PING, Role.AGENT, Scope(facets=("net.Ping",)))
    cluster.give(NOTE, Role.AGENT, Scope(facets=("net.Note",), is_minimal=True))
    cluster.give(AUDIT, Role.AUDIT)
    cluster.give(STARTER, Role.STARTER)
    cluster.give(DASHBOARD, Role.DASHBOARD)
    services = [calls[EVALUATOR].evaluator()]
    for user, facet in _AGENTS.items():
        handler = f"{cluster.folder / calls[user].handlers}:{user}={facet}"
        services.append(calls[user].service(user, "agent", "--handlers", handler))
    services.append(calls[AUDIT].service("audit", "audit", "--file", "audit.jsonl"))

    started = calls[STARTER]("start", "Watch", "--input", 'hosts=["a", "bbb"]', "--id", "w1", "--wait", "--json")

    assert started.code == 0, (started, [service.log for service in services])
    assert started.document["outputs"]["times"] == [1, 3]
    written = cluster.folder / "audit.jsonl"
    eventually(lambda: written.exists() and '"workflow.completed"' in written.read_text(), DEADLINE_S)
    lines = [json.loads(line) for line in written.read_text().splitlines()]
    assert {line["kind"] for line in lines} == {"command", "event", "answer", "lifecycle"}
    assert not [line for line in lines if "unreadable" in line]
    lacking = {service.name: service.log.count("not allowed: topic") for service in services if service.check_alive()}
    assert {name.split("-")[1]: count > 0 for name, count in lacking.items()} == {
        "evaluator": False, "ping": False, "note": True, "audit": False
    }, "who has minimal rights says what it does without"  # fmt: skip
    operated = [called_by(OPERATOR, cluster, processes_here)(*words) for words in (("trace", "w1"), ("dlq", "list"))]
    assert [each.code for each in operated] == [0, 0], operated
    with browser_of_dashboard(cluster) as browser:
        paths = ("/runs/w1", "/runs/w1/records", "/runs/w1/why", f"/topics/{_PREFIX}control", *_PAGES)
        assert {path: browser.get(path).status_code for path in paths} == dict.fromkeys(paths, 200)
        assert act(browser, "raise", run="w1", name="paid", data="1").status_code == 200
        assert act(browser, "pause-facet", facet="net.Ping", reason="").status_code == 200
        assert act(browser, "resume-facet", facet="net.Ping").status_code == 200
    # The broker writes down what it refuses. A question for settings is answered with the usual ones.
    refused = cluster.refusals() - {(user, "DESCRIBE_CONFIGS") for user in cluster.principals()}
    assert refused == {("User:note", "DESCRIBE")}, "who reads without a group is asked for the right to look at one"
    assert _servers(cluster, processes_here) == {"evaluator", "agent", "audit"}


@contextmanager
def browser_of_dashboard(cluster: SecuredCluster) -> Iterator[TestClient]:
    """Yield a browser on a dashboard that looks at the evaluator's store."""
    environment = {**cluster.user(DASHBOARD), "AFL_EMBEDDED_DATA_DIR": str(cluster.folder / ".afl")}
    config = load_config(environ=environment)
    dashboard = make_dashboard(Deployment(config), Access.of(replace(DashboardSettings(), requests_per_s=1_000), HOST))
    try:
        yield TestClient(make_application(dashboard), base_url=f"http://{HOST}")
    finally:
        dashboard.live.close()
        dashboard.deployment.close()


@pytest.mark.timeout(480)
def test_gateway_bridge_worker_client_and_subscriber_work_together_under_exactly_their_rights(
    cluster: SecuredCluster, processes_here: Processes
) -> None:
    users = (EVALUATOR, GATEWAY, BRIDGE, WORKER, CLIENT, SUBSCRIBER)
    calls = {user: called_by(user, cluster, processes_here) for user in users}
    (cluster.folder / "shop.py").write_text(_SHOP)
    told = f"{_PREFIX}pubsub.review.told"
    for user, (role, scope) in scopes_of_shop(cluster).items():
        cluster.give(user, role, scope)
    # An operator creates the topics of workflows; those outside of the prefix are an administrator's.
    made = called_by(OPERATOR, cluster, processes_here)("pubsub", "topics", "shop:review", "--apply")
    assert made.code == 0, made
    create_topics_of_bridge(cluster)
    services = [calls[EVALUATOR].evaluator()]
    services.append(calls[WORKER].service("worker", "pubsub", "run", "shop:review"))
    services.append(calls[BRIDGE].service("bridge", "bridge", "shop"))
    services.append(calls[GATEWAY].service("gateway", "gateway", "--port", "0", "--facet", "net.Ping"))
    reading = calls[SUBSCRIBER].service(
        "subscriber", "pubsub", "subscribe", told, "--name", "report", "--from-beginning", "--count", "2"
    )  # fmt: skip
    address = services[-1].lines[0]

    # The gateway's worker pings; the bridge sends the note to the workflow; parcels raise events.
    post(address, "/v1/runs", {"workflow": "Watch", "inputs": {"hosts": ["abc"], "label": "hi"}, "id": "g1"})
    (event,) = post(address, "/v1/facets/net.Ping/poll", {"max": 1, "wait_s": 60})["events"]
    assert post(address, "/v1/leases/complete", {"lease": event["lease"], "result": {"ms": 3}})["leased"]
    ended = get(address, "/v1/runs/g1?wait_s=60")
    invoked = calls[CLIENT]("pubsub", "invoke", "shop:review", '"ho"', "--request", "r1", "--remote", "--timeout", "60")
    assert write_by_administrator(cluster, "shop.parcels", b"g1", b'{"parcel": 4}') is None
    raised = post(address, "/v1/runs/g1/events/paid", {"data": 1, "id": "e1"})

    logs = [service.log for service in services]
    assert (ended["status"], ended["outputs"]["times"]) == ("COMPLETED", [3]), (ended, logs)
    assert (invoked.code, invoked.out) == (0, 'told: "HO"\n'), invoked
    assert raised["answered"], raised
    assert reading.exit_code() == 0
    assert {json.loads(line)["data"]["data"] for line in reading.lines} == {"HI", "HO"}
    services[2].ask_to_stop()
    assert services[2].exit_code() == 0
    assert "1 published, 1 raised" in services[2].log
    refused = {(user, operation) for user, operation in cluster.refusals() if user.removeprefix("User:") in users}
    assert refused <= {(f"User:{user}", "DESCRIBE_CONFIGS") for user in users}
    # What is another's is hidden, and is said to be so.
    asked = (
        (SUBSCRIBER, ("pubsub", "run", "shop:review"), "--role pubsub-worker --workflow MODULE:WORKFLOW"),
        (WORKER, ("bridge", "shop"), "--role bridge --declaration MODULE"),
        (CLIENT, ("pubsub", "subscribe", "shop.parcels"), "--role subscriber --topic shop.parcels"),
        (SUBSCRIBER, ("pubsub", "invoke", "shop:review", "1", "--remote"), "--role pubsub-client"),
    )
    with ThreadPoolExecutor() as pool:
        told_to = [pool.submit(calls[user], *words) for user, words, _ in asked]
    for called, (_, _, options) in zip(told_to, asked, strict=True):
        assert_told(called.result(), "is hidden from this user", options)


def scopes_of_shop(cluster: SecuredCluster) -> dict[str, tuple[Role, Scope | None]]:
    """Return the role of each user, with what that reads and writes as the module says it."""
    shop, config = run_path(str(cluster.folder / "shop.py")), load_config(environ=cluster.administrator)
    bridge = Bridge(config)
    shop["declare"](bridge)
    topics = WorkflowTopics(config, "review", ["cases", "told"])
    hosted = Scope(hosted=topics.scope(taken=["cases"], given=["told"], has_state=True))
    told = Subscribed(topic=topics.of["told"], group=subscription_group(config, "report"))
    return {
        EVALUATOR: (Role.EVALUATOR, None),
        GATEWAY: (Role.GATEWAY, Scope(facets=("net.Ping",))),
        BRIDGE: (Role.BRIDGE, Scope(facets=bridge.facets, bridge=bridge.scope)),
        WORKER: (Role.PUBSUB_WORKER, hosted),
        CLIENT: (Role.PUBSUB_CLIENT, hosted),
        SUBSCRIBER: (Role.SUBSCRIBER, Scope(subscribed=(told,))),
    }


def create_topics_of_bridge(cluster: SecuredCluster) -> None:
    names = ("shop.parcels", f"{_PREFIX}dlq.shop.parcels")
    admin = AdminClient({"bootstrap.servers": cluster.broker.bootstrap})
    for created in admin.create_topics([NewTopic(name, 2, 1) for name in names]).values():
        created.result(30)


def write_by_administrator(cluster: SecuredCluster, topic: str, key: bytes, value: bytes) -> int | None:
    """Return the error of a write, None: there was none."""
    producer, errors = Producer({"bootstrap.servers": cluster.broker.bootstrap}), list[KafkaError | None]()
    producer.produce(topic, value, key, on_delivery=lambda error, _message: errors.append(error))
    producer.flush(30)
    return None if errors[0] is None else errors[0].code()


def get(address: str, path: str) -> Any:
    with urlopen(address + path, timeout=90) as answer:
        return json.load(answer)


def _servers(cluster: SecuredCluster, processes: Processes) -> set[str]:
    """Return the kinds of the processes that have announced themselves."""
    listed = called_by(OPERATOR, cluster, processes)("servers", "--json", AFL_EMBEDDED_DATA_DIR="elsewhere").document
    return {server["presence"]["kind"] for server in listed if server["presence"]}


def test_an_agent_reads_no_other_facet_starts_nothing_and_writes_no_schema(
    cluster: SecuredCluster, processes_here: Processes
) -> None:
    cluster.give(PING, Role.AGENT, Scope(facets=("net.Ping",)))
    own, other = f"{_PREFIX}events.net.Ping", f"{_PREFIX}events.net.Note"

    assert [looked_at_by(PING, cluster, topic) for topic in (own, other)] == [None, _TOPIC_REFUSED]
    written = [
        write_by(PING, cluster, f"{_PREFIX}{name}")
        for name in ("commands", "schemas", "definitions", "external", "lifecycle", "events.net.Note", "dlq.control")
    ]
    assert written == [_TOPIC_REFUSED] * 7
    assert joined_by(PING, cluster, f"{_PREFIX}agent.net.Note") == KafkaError.GROUP_AUTHORIZATION_FAILED

    call = called_by(PING, cluster, processes_here)
    agent = call("agent", "--handlers", f"{call.handlers}:note=net.Note")
    assert_told(agent, f"topic {other} is hidden from this user", "--role agent --facet net.Note")
    start = call("start", "Watch", "--input", "hosts=[]")
    assert_told(start, f"topic {_PREFIX}commands", "Describe", "afl-stream topics acls")


def test_who_has_no_right_is_told_which_role_would_have_it(cluster: SecuredCluster, processes_here: Processes) -> None:
    call = called_by(STRANGER, cluster, processes_here)

    for words, topic, role in (
        (["evaluator"], "control", "--role evaluator"),
        (["audit", "--until-idle"], "control", "--role audit"),
        (["start", "Watch", "--input", "hosts=[]"], "definitions", "--role starter"),
        (["raise", "w1", "paid"], "external", "--role producer"),
        (["cancel", "w1"], "commands", "--role starter"),
    ):
        told = call(*words)
        assert_told(told, f"topic {_PREFIX}{topic} is hidden from this user", role, "no ACL gives Describe")


def test_rights_are_given_once_checked_and_found_missing_again(
    cluster: SecuredCluster, processes_here: Processes
) -> None:
    call = KafkaCommandLine(folder=cluster.folder, environment=cluster.administrator, processes=processes_here)
    words = ["topics", "acls", "--role", "producer", "--answers", "--principal", "User:producer", "--json"]

    found = [call(*words, option) for option in ("--check", "--apply", "--apply", "--check")]

    assert [each.code for each in found] == [1, 0, 0, 0], found
    states = [[acl["state"] for acl in each.document["acls"]] for each in found]
    assert [set(each) for each in states] == [{"missing"}, {"given"}, {"there"}, {"there"}]
    refused = called_by(PRODUCER, cluster, processes_here)(*words, "--apply")
    assert_told(refused, "not allowed: the cluster (to read ACLs)", "Describe on the cluster")

    raised = called_by(PRODUCER, cluster, processes_here)("raise", "w9", "paid", "--data", "3", "--id", "e1")
    assert raised.code == 0, raised
    assert write_by(PRODUCER, cluster, f"{_PREFIX}commands") == _TOPIC_REFUSED


_TOPIC_REFUSED = KafkaError.TOPIC_AUTHORIZATION_FAILED


def assert_told(called: Called, *words: str) -> None:
    assert called.code == 3, called
    assert [word for word in words if word not in called.err] == [], called.err
    assert "Traceback" not in called.err


def looked_at_by(user: str, cluster: SecuredCluster, topic: str) -> int | None:
    """Return the error that a reader gets without our code, when it looks for what there is; None: it may."""
    admin = AdminClient(cluster.librdkafka(user))
    asked = admin.describe_topics(TopicCollection([topic]), request_timeout=30)
    try:
        asked[topic].result(31)
        return None
    except KafkaException as error:
        return int(error.args[0].code())


def joined_by(user: str, cluster: SecuredCluster, group: str) -> int | None:
    """Return the error that a member of a group gets without our code."""
    consumer = Consumer({**cluster.librdkafka(user), "group.id": group})
    try:
        consumer.subscribe([f"{_PREFIX}events.net.Ping"])
        message = consumer.poll(30)
        error = None if message is None else message.error()
        return None if error is None else error.code()
    finally:
        consumer.close()


def write_by(user: str, cluster: SecuredCluster, topic: str) -> int | None:
    """Return the error that a writer gets without our code; None: the record is written."""
    producer, errors = Producer(cluster.librdkafka(user)), list[KafkaError | None]()
    try:
        producer.produce(topic, b"{}", on_delivery=lambda error, _message: errors.append(error))
        producer.flush(30)
    except KafkaException as error:
        errors.append(error.args[0])
    assert errors
    return None if errors[0] is None else errors[0].code()
