"""The `afl-stream` command on a real broker: every command does its work, and what is wrong is said in a line."""

import json
import os
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._acl import AclBinding, AclOperation, AclPermissionType
from confluent_kafka.admin._resource import ResourcePatternType, ResourceType
from confluent_kafka.cimpl import NewTopic

from tests.eventually import eventually
from tests.scenarios.command_lines import HANDLERS, PROGRAM, Called
from tests.worlds.processes import DEADLINE_S, ROOT, Party, Processes
from tools.kafka import Broker

_RUN_TIMEOUT_S = 120


@dataclass(frozen=True, kw_only=True)
class KafkaCommandLine:
    """Calls commands in a folder of its own, each as a process. `program` and `handlers` are files there."""

    folder: Path
    environment: Mapping[str, str]
    processes: Processes
    program: str = "watch.afl"
    handlers: str = "handlers_of_watch.py"

    def __call__(self, *words: str, **environment: str) -> Called:
        run = subprocess.run(
            [sys.executable, "-m", "afl_stream", *words],
            cwd=self.folder,
            env={**os.environ, **self.environment, **environment, "PYTHONPATH": str(ROOT), "COLUMNS": "250"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_RUN_TIMEOUT_S,
            check=False,
        )
        return Called(code=run.returncode, out=run.stdout, err=run.stderr)

    def deployed(self) -> "KafkaCommandLine":
        """With the topics made and the program published."""
        applied = self("topics", "apply", self.program)
        assert applied.code == 0, applied
        assert self("deploy", self.program).code == 0
        return self

    def service(self, name: str, *words: str) -> Party:
        """Start one that stays."""
        environment = {**self.environment, "AFL_EMBEDDED_DATA_DIR": str(self.folder / ".afl")}
        party = self.processes.start(name, "afl_stream", *words, environment=environment)
        eventually(lambda: party.check_alive() and "Ctrl-C" in party.log, DEADLINE_S)
        return party

    def evaluator(self) -> Party:
        return self.service("evaluator", "evaluator")

    def agent(self) -> Party:
        return self.service("agent", "agent", "--handlers", str(self.folder / self.handlers))


def kafka_command_line(folder: Path, bootstrap: str, prefix: str, processes: Processes) -> KafkaCommandLine:
    (folder / "watch.afl").write_text(PROGRAM)
    (folder / "handlers_of_watch.py").write_text(HANDLERS)
    return KafkaCommandLine(
        folder=folder,
        processes=processes,
        environment={
            "AFL_KAFKA_BOOTSTRAP": bootstrap,
            "AFL_PREFIX": prefix,
            "AFL_TOPICS_REPLICATION": "1",
            "AFL_TOPICS_CONTROL_PARTITIONS": "2",
            "AFL_TOPICS_EVENT_PARTITIONS": "2",
            "AFL_KAFKA_CONSUMER_SESSION_TIMEOUT_MS": "6000",
            "AFL_KAFKA_CONSUMER_HEARTBEAT_INTERVAL_MS": "500",
        },
    )


@pytest.fixture
def command_line(tmp_path: Path, kafka_bootstrap: str, kafka_prefix: str, processes: Processes) -> KafkaCommandLine:
    return kafka_command_line(tmp_path, kafka_bootstrap, kafka_prefix, processes)


def _refused(called: Called, *words: str) -> None:
    """Exit code 3, the words, one line, and neither traceback nor noise of the client."""
    assert called.code == 3, called
    assert [word for word in words if word not in called.err] == [], called.err
    errors = [line for line in called.err.splitlines() if line.startswith("Error: ")]
    assert len(errors) == 1, called.err
    assert "Traceback" not in called.err
    assert "%3|" not in called.err
    assert "rdkafka#" not in called.err


# --- the commands at work ---------------------------------------------------------------------------------------


@pytest.mark.long
def test_processes_one_after_another_bring_a_run_to_its_end(command_line: KafkaCommandLine) -> None:
    run = command_line.deployed()
    codes = [
        run("start", "Watch", "--input", 'hosts=["a", "bbb"]', "--id", "w1").code,
        run("evaluator", "--until-idle").code,
        run("agent", "--handlers", run.handlers, "--until-idle").code,
        run("evaluator", "--until-idle").code,
    ]
    status = run("status", "w1", "--json")
    again = run("start", "Watch", "--input", 'hosts=["a", "bbb"]', "--id", "w1", "--wait", "--timeout", "30", "--json")
    audit = run("audit", "--until-idle")

    assert codes == [0] * 4
    assert (status.document["status"], status.document["outputs"]) == ("COMPLETED", {"times": [1, 3], "label": "none"})
    assert (again.code, again.document["outputs"]) == (0, {"times": [1, 3], "label": "none"})
    kinds = [json.loads(line)["kind"] for line in audit.out.splitlines()]
    assert (kinds.count("event"), kinds.count("answer")) == (3, 3)


@pytest.mark.long
def test_more_replicas_than_the_cluster_has_brokers_are_refused_before_anything_is_created(
    own_broker: Broker, processes: Processes, tmp_path: Path
) -> None:
    command_line = kafka_command_line(tmp_path, own_broker.bootstrap, "afl.", processes)

    called = command_line("topics", "apply", command_line.program, AFL_TOPICS_REPLICATION="3")
    planned = command_line("topics", "plan", command_line.program, "--json")

    _refused(called, "topics.replication is 3, and the cluster has 1 broker", "to 1 or fewer", "Nothing was created")
    assert {topic["action"] for topic in planned.document} == {"create"}


@pytest.mark.long
def test_a_cluster_of_one_broker_gets_one_copy_of_each_topic_and_is_told_so_once(
    own_broker: Broker, processes: Processes, tmp_path: Path
) -> None:
    command_line = kafka_command_line(tmp_path, own_broker.bootstrap, "afl.", processes)
    nothing_set = {name: text for name, text in command_line.environment.items() if name != "AFL_TOPICS_REPLICATION"}
    command_line = replace(command_line, environment=nothing_set)

    planned = command_line("topics", "plan", command_line.program, "--json")
    applied = command_line("topics", "apply", command_line.program)
    again = command_line("topics", "apply", command_line.program)

    settings = {(topic["replication"], topic["settings"]["min.insync.replicas"]) for topic in planned.document}
    assert settings == {(1, "1")}
    assert (applied.code, again.code) == (0, 0)
    assert applied.err.count("one broker, so each topic has one copy") == 1
    assert "WARNING" not in again.err
    assert "differ" not in again.out


def test_a_wait_ends_with_the_run_and_shows_its_outputs(command_line: KafkaCommandLine) -> None:
    run = command_line.deployed()
    run.evaluator()
    run.agent()

    waited = run("start", "Watch", "--input", 'hosts=["a", "bbb"]', "--wait", "--timeout", "60")

    assert waited.code == 0, waited
    assert "net.Watch completed" in waited.out
    assert "times = [1, 3]" in waited.out.replace("times  =", "times =")


@pytest.mark.long
def test_a_wait_far_from_the_store_shows_outputs_first_causes_and_refusals(command_line: KafkaCommandLine) -> None:
    run = command_line.deployed()
    run.evaluator()
    run.agent()
    far = {"AFL_EMBEDDED_DATA_DIR": "elsewhere"}

    done = run("start", "Watch", "--input", 'hosts=["a"]', "--id", "w1", "--wait", "--timeout", "60", "--json", **far)
    again = run("start", "Watch", "--input", 'hosts=["a"]', "--id", "w1", "--wait", "--timeout", "60", "--json", **far)
    status = run("status", **far)

    for called in (done, again):
        assert called.code == 0, called
        assert (called.document["status"], called.document["outputs"]) == ("COMPLETED", {"times": [1], "label": "none"})
    _refused(status, "elsewhere/store-kafka.sqlite3", "evaluators")


@pytest.mark.long
def test_a_wait_for_a_run_that_fails_ends_with_1_and_the_first_cause(command_line: KafkaCommandLine) -> None:
    run = command_line.deployed()
    run.evaluator()
    (run.folder / "fails.py").write_text(
        "def ping(payload):\n    raise ValueError('no route to ' + payload['host'])\n"
        "def register_handlers(runner):\n    runner.register('net.Ping', ping)\n"
        "    runner.register('net.Note', lambda payload: {'ok': True})\n"
    )
    run.service("failing", "agent", "--handlers", str(run.folder / "fails.py"))

    words = ("start", "Watch", "--input", 'hosts=["a"]', "--wait", "--timeout", "60")
    near, far = run(*words), run(*words, AFL_EMBEDDED_DATA_DIR="elsewhere")

    for called in (near, far):
        assert called.code == 1, called
        assert "net.Ping" in called.out
        assert "ValueError: no route to a" in called.out


@pytest.mark.long
def test_a_wait_that_takes_too_long_ends_with_4_and_one_that_is_interrupted_with_130(
    command_line: KafkaCommandLine,
) -> None:
    run = command_line.deployed()

    timed_out = run("start", "Watch", "--input", "hosts=[]", "--wait", "--timeout", "1")
    party = run.processes.start(
        "waits", "afl_stream", "start", "Watch", "--input", "hosts=[]", "--wait", environment=run.environment
    )
    eventually(lambda: party.check_alive() and party.lines, DEADLINE_S)
    party.send(signal.SIGINT)
    code = party.exit_code()

    assert timed_out.code == 4
    assert "has not come in 1 s" in timed_out.err
    assert code == 130
    assert any("interrupted" in line for line in party.lines)


def test_handlers_are_refused_where_agents_are_processes_of_their_own(command_line: KafkaCommandLine) -> None:
    called = command_line("start", "Watch", "--input", "hosts=[]", "--wait", "--handlers", "shop.handlers")

    assert called.code == 2
    assert "afl-stream agent --handlers shop.handlers" in called.err


@pytest.mark.long
def test_steps_are_answered_failed_and_cancelled_by_hand(command_line: KafkaCommandLine) -> None:
    run = command_line.deployed()
    for workflow_id in ("w1", "w2", "w3"):
        run("start", "Watch", "--input", "hosts=[]", "--id", workflow_id)
    run("evaluator", "--until-idle")
    steps = {
        workflow_id: next(
            step["step_id"]
            for step in run("status", workflow_id, "--json").document["steps"]
            if step["facet"] == "net.Note"
        )
        for workflow_id in ("w1", "w2", "w3")
    }

    reported = [
        run("continue", steps["w1"], "--result", '{"ok": true}'),
        # Where no store is, the evaluator judges.
        run("fail", steps["w2"], "--message", "no pen", AFL_EMBEDDED_DATA_DIR="elsewhere"),
        run("cancel", "w3", "--reason", "enough"),
    ]
    unknown = run("continue", "w1:0a1b2c3d4e5f60718293a4b5", "--result", "{}")
    run("evaluator", "--until-idle")

    assert [called.code for called in reported] == [0, 0, 0], reported
    assert all("an evaluator applies it as soon as one runs" in called.err for called in reported)
    assert unknown.code == 3
    statuses = {row["workflow_id"]: row["status"] for row in run("status", "--json").document}
    assert statuses == {"w1": "COMPLETED", "w2": "ERROR", "w3": "CANCELLED"}


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.long)])
def test_a_service_ends_with_0_when_it_is_told_to(number: signal.Signals, command_line: KafkaCommandLine) -> None:
    run = command_line.deployed()
    services = [run.evaluator(), run.agent(), run.service("audit", "audit")]

    for service in services:
        service.send(number)

    assert [service.exit_code() for service in services] == [0, 0, 0]
    assert [service.log for service in services if "Traceback" in service.log] == []


def test_dev_stays_on_the_embedded_log_whatever_the_settings_say(command_line: KafkaCommandLine) -> None:
    called = command_line("dev", command_line.program, "--handlers", command_line.handlers, "--input", "hosts=[]")
    plan = command_line("topics", "plan", "--json")

    assert called.code == 0, called
    assert {topic["action"] for topic in plan.document} == {"create"}


# --- topics -----------------------------------------------------------------------------------------------------


def test_a_script_of_kafkas_own_tool_names_what_is_missing_and_nothing_else(
    command_line: KafkaCommandLine, kafka_bootstrap: str, kafka_prefix: str
) -> None:
    before = command_line("topics", "plan", "--script", command_line.program)
    first = command_line("topics", "apply", command_line.program)
    second = command_line("topics", "apply", command_line.program)
    after = command_line("topics", "plan", "--script", command_line.program)

    scripts = [shlex.split(line) for line in before.out.splitlines()]
    names = [words[words.index("--topic") + 1] for words in scripts]
    assert all(words[:4] == ["kafka-topics.sh", "--bootstrap-server", kafka_bootstrap, "--create"] for words in scripts)
    assert {f"{kafka_prefix}control", f"{kafka_prefix}events.net.Ping", f"{kafka_prefix}dlq.events.net.Ping"} <= set(
        names
    )
    control = next(words for words in scripts if f"{kafka_prefix}control" in words)
    assert control[control.index("--partitions") + 1] == "2"
    assert "cleanup.policy=delete" in control
    assert f"{len(names)} created" in first.err
    assert f"0 created, {len(names)} as declared" in second.err
    assert (after.out, after.err) == ("", "nothing is missing\n")


@pytest.mark.parametrize(
    "words", [("evaluator",), ("agent", "--handlers", "handlers_of_watch.py"), ("audit",), ("start", "Watch"),
              ("continue", "w1:0a1b2c3d4e5f60718293a4b5", "--result", "{}"), ("cancel", "w1")]
)  # fmt: skip
def test_a_topic_that_is_missing_is_named_with_the_command_that_makes_it(
    words: tuple[str, ...], command_line: KafkaCommandLine, kafka_prefix: str
) -> None:
    _refused(command_line(*words), f"topic {kafka_prefix}", "afl-stream topics apply")


def test_an_evaluator_refuses_topics_with_too_few_partitions(
    command_line: KafkaCommandLine, kafka_bootstrap: str, kafka_prefix: str
) -> None:
    admin = AdminClient({"bootstrap.servers": kafka_bootstrap, "log_level": 0})
    admin.create_topics([NewTopic(f"{kafka_prefix}commands", 1, 1)])[f"{kafka_prefix}commands"].result(30)
    command_line("topics", "apply", command_line.program)

    _refused(command_line("evaluator"), f"{kafka_prefix}commands 1", "kafka-topics.sh", "--partitions 2")


def test_an_evaluator_refuses_a_topic_that_takes_too_small_records(
    command_line: KafkaCommandLine, kafka_bootstrap: str, kafka_prefix: str
) -> None:
    admin = AdminClient({"bootstrap.servers": kafka_bootstrap, "log_level": 0})
    topic = f"{kafka_prefix}control"
    admin.create_topics([NewTopic(topic, 2, 1, config={"max.message.bytes": "1000"})])[topic].result(30)
    command_line("topics", "apply", command_line.program)

    _refused(command_line("evaluator"), topic, "1000 bytes", "max.message.bytes")


# --- the broker -------------------------------------------------------------------------------------------------


@pytest.fixture
def unreachable() -> Iterator[str]:
    """Provide an address that is taken, without a listener."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{taken.getsockname()[1]}"


@pytest.mark.parametrize(
    "words", [("evaluator",), ("agent", "--handlers", "handlers_of_watch.py"), ("audit",), ("start", "Watch"),
              ("topics", "plan"), ("topics", "apply"), ("deploy", "watch.afl"), ("cancel", "w1")]
)  # fmt: skip
def test_a_broker_that_does_not_answer_is_tried_again_and_given_up(
    words: tuple[str, ...], unreachable: str, tmp_path: Path, processes: Processes
) -> None:
    called = kafka_command_line(tmp_path, unreachable, "t.", processes)(*words, AFL_KAFKA_CONNECT_TIMEOUT_S="3")

    _refused(called, unreachable, "waiting for it, up to 3 s", "gave up after 3 s")


@pytest.mark.long
def test_a_broker_that_comes_up_meanwhile_is_found(own_broker: Broker, tmp_path: Path, processes: Processes) -> None:
    own_broker.stop()
    run = kafka_command_line(tmp_path, own_broker.bootstrap, "t.", processes)
    applying = processes.start("applying", "afl_stream", "topics", "apply", environment=run.environment)
    eventually(lambda: applying.check_alive() and "waiting for it, up to" in applying.log, DEADLINE_S)

    own_broker.start_again()

    assert applying.exit_code() == 0, applying.log


def test_another_cluster_than_the_expected_one_is_refused(command_line: KafkaCommandLine) -> None:
    command_line.deployed()

    for words in (("evaluator",), ("audit",), ("start", "Watch", "--input", "hosts=[]")):
        called = command_line(*words, AFL_KAFKA_CLUSTER_ID="AnotherClusterOfOthers")
        _refused(called, "AnotherClusterOfOthers", "cluster")


@pytest.fixture(scope="module")
def guarded_broker(tmp_path_factory: pytest.TempPathFactory, broker_installed: None) -> Iterator[Broker]:
    """Return a broker that asks who is there, and lets a user do only what an ACL allows."""
    with Broker.start(tmp_path_factory.mktemp("guarded") / "broker", scram_users={"clerk": "right"}) as broker:
        yield broker


def _login(password: str) -> dict[str, str]:
    return {
        "AFL_KAFKA_SECURITY_PROTOCOL": "SASL_PLAINTEXT",
        "AFL_KAFKA_SASL_MECHANISM": "SCRAM-SHA-256",
        "AFL_KAFKA_SASL_USERNAME": "clerk",
        "AFL_KAFKA_SASL_PASSWORD": password,
    }


def test_credentials_that_are_refused_are_said_at_once(
    guarded_broker: Broker, tmp_path: Path, processes: Processes
) -> None:
    run = kafka_command_line(tmp_path, guarded_broker.sasl_bootstrap, "t.", processes)

    called = run("evaluator", **_login("wrong"))
    shown = run("config", **_login("wrong"))

    _refused(called, guarded_broker.sasl_bootstrap, "refuses the credentials", "sasl")
    assert "wrong" not in called.err
    assert "wrong" not in shown.out


def test_whoever_may_not_create_topics_is_told_of_the_script_and_gets_those_that_it_may(
    guarded_broker: Broker, tmp_path: Path, processes: Processes
) -> None:
    admin = AdminClient({"bootstrap.servers": guarded_broker.bootstrap, "log_level": 0})
    allowed = [
        AclBinding(ResourceType.TOPIC, "t.", ResourcePatternType.PREFIXED, "User:clerk", "*", AclOperation.DESCRIBE,
                   AclPermissionType.ALLOW),
        AclBinding(ResourceType.TOPIC, "t.dlq.", ResourcePatternType.PREFIXED, "User:clerk", "*", AclOperation.CREATE,
                   AclPermissionType.ALLOW),
    ]  # fmt: skip
    for done in admin.create_acls(allowed).values():
        done.result(30)
    run = kafka_command_line(tmp_path, guarded_broker.sasl_bootstrap, "t.", processes)

    applied = run("topics", "apply", run.program, **_login("right"))

    _refused(applied, "may not create topics", f"afl-stream topics plan --script {run.program}")
    made = {name for name in admin.list_topics(timeout=30).topics if name.startswith("t.")}
    assert made == {
        "t.dlq.control",
        "t.dlq.commands",
        "t.dlq.external",
        "t.dlq.events.net.Ping",
        "t.dlq.events.net.Note",
    }
    assert applied.out.count("not created") == 9


@pytest.mark.long
def test_an_old_broker_is_called_that_when_the_new_group_protocol_is_asked_for(
    tmp_path: Path, processes: Processes, broker_installed: None
) -> None:
    with Broker.start(tmp_path / "old", features={"group.version": 0}) as broker:
        run = kafka_command_line(tmp_path, broker.bootstrap, "t.", processes).deployed()
        # With the new protocol the broker sets how often members are heard of.
        environment = {name: value for name, value in run.environment.items() if "_CONSUMER_" not in name}
        new = replace(run, environment={**environment, "AFL_KAFKA_GROUP_PROTOCOL": "consumer"})

        called = new("evaluator")

    _refused(called, broker.bootstrap, "too old")


# --- answers to commands, where the evaluators' store is not at hand ----------------------------------------------


@pytest.fixture
def elsewhere(command_line: KafkaCommandLine, tmp_path: Path) -> KafkaCommandLine:
    """Commands of the same deployment in a folder that has no store."""
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    return replace(command_line, folder=folder)


@pytest.mark.long
def test_a_start_whose_id_another_run_has_ends_with_2_and_not_with_that_runs_outputs(
    command_line: KafkaCommandLine, elsewhere: KafkaCommandLine
) -> None:
    command_line.deployed()
    command_line.evaluator()
    command_line.agent()
    start = ("start", "Watch", "--id", "w1", "--wait", "--timeout", "60", "--input")
    first = elsewhere(*start, 'hosts=["a"]')

    other, as_json = elsewhere(*start, 'hosts=["bb"]'), elsewhere(*start, 'hosts=["bb"]', "--json")
    unwaited = elsewhere("start", "Watch", "--id", "w1", "--input", 'hosts=["bb"]')
    same = elsewhere(*start, 'hosts=["a"]', "--json")
    unwaited_same = elsewhere("start", "Watch", "--id", "w1", "--input", 'hosts=["a"]')

    assert first.code == 0, first
    assert unwaited_same.code == 0, unwaited_same
    assert "w1 exists already: it ended as COMPLETED, nothing was started" in unwaited_same.err
    assert "afl-stream reset w1" in unwaited_same.err
    for refused in (other, unwaited):
        assert refused.code == 2, refused
        assert "AlreadyExists: workflow w1 exists" in refused.err
        assert 'input hosts is ["a"], not ["bb"]' in refused.err
        assert "times" not in refused.out
    assert as_json.code == 2
    assert as_json.document["error"]["type"] == "AlreadyExists"
    assert (same.code, same.document["outputs"]) == (0, {"times": [1], "label": "none"})
    assert same.document["was_over"] is True


@pytest.mark.long
def test_every_refused_command_ends_with_2_and_says_why(
    command_line: KafkaCommandLine, elsewhere: KafkaCommandLine
) -> None:
    command_line.deployed()
    command_line.evaluator()
    assert elsewhere("start", "Watch", "--id", "w1", "--input", "hosts=[]").code == 0

    refused = {
        "NothingToCancel": elsewhere("cancel", "w2"),
        "NothingToRunAgain": elsewhere("reset", "w2"),
        "StepNotFailed": elsewhere("retry", "w1"),
        "UnknownStep": elsewhere("rerun", "w1:5f3a", "--json"),
    }
    run = command_line("status", "w1", "--json").document
    (note,) = [str(step["step_id"]) for step in run["steps"] if step["facet"] == "net.Note"]
    parked = elsewhere("continue", "w9:5f3a", "--result", "{}")
    answered = elsewhere("continue", note, "--result", '{"ok": true}')
    refused["AnswerNotTaken"] = elsewhere("fail", note)
    ended = elsewhere("cancel", "w1")
    assert elsewhere("start", "Watch", "--id", "w3", "--input", "hosts=[]").code == 0
    cancelled, again = elsewhere("cancel", "w3"), elsewhere("cancel", "w3", "--json")

    for reason, called in refused.items():
        assert called.code == 2, called
        assert f"refused by the evaluator: {reason}: " in called.err
    assert refused["UnknownStep"].document["error"]["type"] == "UnknownStep"
    assert "AlreadyEnded: workflow w1 has ended: it is COMPLETED" in ended.err
    assert (answered.code, answered.out) == (0, f"answered step {note}\n")
    assert "an evaluator has accepted it" in answered.err
    assert parked.code == 0
    assert "no step of this id waits for an answer yet" in parked.err
    assert (cancelled.code, cancelled.out) == (0, "cancelled w3\n")
    assert (again.code, again.document["answered"]) == (0, True)


@pytest.mark.long
def test_a_wait_says_what_is_missing_an_evaluator_or_an_agent(
    command_line: KafkaCommandLine, elsewhere: KafkaCommandLine
) -> None:
    command_line.deployed()
    wait = ("start", "Watch", "--id", "w1", "--input", "hosts=[]", "--wait", "--timeout")

    asked = elsewhere("start", "Watch", "--id", "w1", "--input", "hosts=[]")
    without = elsewhere(*wait, "1")
    command_line.evaluator()
    waiting = elsewhere(*wait, "15")

    assert asked.code == 0
    assert "no evaluator has answered in 5 s" in asked.err
    assert without.code == 4
    assert "no-evaluator: no evaluator is there" in without.err
    assert waiting.code == 4
    # Once after some seconds, and again, as `why` says it, when the time is up.
    assert waiting.err.count("net.Note: an event waits for an answer, since 2") == 1
    assert waiting.err.count("no-agent: no agent is there") == 1
    assert "attempt 1" in waiting.err
    assert "afl-stream agent --handlers MODULE --facet net.Note" in waiting.err
    assert "afl-stream continue w1:" in waiting.err
    assert """--result '{"ok": <Boolean>}'""" in waiting.err


@pytest.mark.long
def test_a_schedule_fires_by_the_clock_and_is_changed_from_anywhere(
    command_line: KafkaCommandLine, elsewhere: KafkaCommandLine
) -> None:
    command_line.deployed()
    command_line.evaluator()
    inputs = ("--input", 'hosts=["a"]')

    created = elsewhere("schedule", "create", "often", "Watch", "--cron", "* * * * * *", *inputs, "--overlap", "allow")
    assert created.code == 0, created
    assert created.out.splitlines()[0] == "schedule often is created: it starts net.Watch  * * * * * * (UTC)"
    assert "an evaluator has accepted it" in created.err

    def shown() -> Mapping[str, object]:
        document = command_line("schedule", "show", "often", "--json").document
        assert isinstance(document, dict)
        return document

    eventually(lambda: isinstance(fired := shown()["fired"], int) and fired >= 3, DEADLINE_S)
    paused = elsewhere("schedule", "pause", "often")
    assert (paused.code, paused.out) == (0, "schedule often is paused\n")
    assert elsewhere("schedule", "pause", "often").out == "schedule often is paused already: nothing was changed\n"
    triggered = elsewhere("schedule", "trigger", "often", "--json").document
    eventually(lambda: command_line("status", triggered["workflow_id"]).code == 0, DEADLINE_S)
    fired = int(str(shown()["fired"])) + 1
    runs = command_line("status", "--json", "--limit", "1000").document
    assert len(runs) == fired
    assert {run["workflow"] for run in runs} == {"net.Watch"}

    refused = elsewhere("schedule", "delete", "nobody")
    assert refused.code == 2
    assert "there is no schedule nobody" in refused.err
    assert elsewhere("schedule", "delete", "often").code == 0
    assert command_line("schedule", "list", "--json").document == []
