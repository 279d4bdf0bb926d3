"""A marked secret in every setting that may hold one is shown by no command and no error, and is kept nowhere."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import click
import pytest

from afl.cli import afl
from afl.cli import main as afl_main
from afl.workers.service.__main__ import main as runner_main
from afl_stream.cli import afl_stream
from tests.scenarios.command_lines import Called, CommandLine

#: In every secret. What follows it makes the secret one that is written without escapes, or with blanks around it.
MARK = "c4nary"
#: What each command of `afl-stream` is called with; the steps and runs exist in the first test.
COMMANDS: dict[tuple[str, ...], list[str]] = {
    ("init",): ["{folder}/project"],
    # It runs nowhere: else it would stay.
    ("broker",): ["--status"],
    ("topics", "plan"): ["{program}"],
    ("topics", "apply"): ["{program}"],
    ("topics", "acls"): ["{program}", "--role", "evaluator"],
    ("schemas", "generate"): ["{program}"],
    ("schemas", "register"): ["{program}", "--dry-run"],
    ("schemas", "check"): ["{program}"],
    ("deploy",): ["{program}"],
    ("start",): ["Watch", "--input", 'hosts=["a"]', "--id", "w1"],
    ("evaluator",): ["--until-idle"],
    ("agent",): ["--handlers", "{handlers}", "--until-idle"],
    ("agent", "probe"): ["--facet", "net.Ping", "--timeout", "0.1"],
    ("dev",): ["{program}", "--handlers", "{handlers}", "--input", 'hosts=["a"]', "--id", "w2"],
    ("server",): ["{folder}/missing.afl"],
    ("handlers", "register"): ["{handlers}"],
    ("handlers", "list"): [],
    ("handlers", "remove"): ["net.Ping"],
    ("asyncapi",): ["{program}"],
    ("schemas", "export"): ["{program}"],
    ("audit",): ["--until-idle", "--file", "{folder}/audit.jsonl"],
    ("audit", "verify"): ["{folder}/audit.jsonl"],
    ("list",): [],
    ("show",): ["w1"],
    ("trace",): ["w1"],
    ("programs", "list"): [],
    ("programs", "show"): ["net.Watch"],
    ("watch",): ["w2", "--timeout", "1"],
    ("why",): ["w1"],
    ("pause",): ["--facet", "net.Ping"],
    ("resume",): ["--facet", "net.Ping"],
    ("dlq", "list"): [],
    ("dlq", "show"): ["events.net.Ping/0/0"],
    ("dlq", "replay"): ["events.net.Ping/0/0"],
    ("dlq", "drop"): ["events.net.Ping/0/0"],
    ("status",): ["w1"],
    # It ends for want of the tokens: else it would serve.
    ("dashboard",): ["--token-file", "{folder}/none"],
    ("gateway",): ["--token-file", "{folder}/none"],
    ("servers",): ["--all"],
    ("continue",): ["w1:0a1b2c", "--result", "{}"],
    ("fail",): ["w1:0a1b2c"],
    ("raise",): ["w1", "news", "{}"],
    ("history",): ["w1"],
    ("migrate",): ["w1", "--to", "current"],
    ("continue-as-new",): ["w1", "--input", 'hosts=["a"]'],
    ("schedule", "create"): ["nightly", "Watch", "--every", "1h", "--input", 'hosts=["a"]'],
    ("schedule", "list"): [],
    ("schedule", "show"): ["nightly"],
    ("schedule", "pause"): ["nightly"],
    ("schedule", "resume"): ["nightly"],
    ("schedule", "trigger"): ["nightly"],
    ("schedule", "delete"): ["nightly"],
    ("cancel",): ["w1"],
    ("retry",): ["w1"],
    ("rerun",): ["w1:0a1b2c"],
    ("reset",): ["w1"],
    ("pubsub", "check"): ["{flow}"],
    ("pubsub", "draw"): ["{flow}"],
    ("pubsub", "topics"): ["{flow}", "--apply"],
    ("pubsub", "run"): ["{flow}", "--until-idle"],
    ("pubsub", "invoke"): ["{flow}", "1", "--request", "r1"],
    ("pubsub", "requests"): ["{flow}"],
    ("pubsub", "show"): ["{flow}", "r1"],
    ("pubsub", "forget"): ["{flow}", "r1"],
    # There is no such topic: else it would wait for messages.
    ("pubsub", "subscribe"): ["nothing"],
    # It ends too, for want of the topic.
    ("bridge",): ["{flow}"],
    ("erase",): ["w1", "--force"],
    ("keys", "create"): [],
    ("keys", "rotate"): [],
    ("keys", "rewrap"): [],
    ("keys", "list"): [],
    ("store", "check"): [],
    ("store", "divide"): ["2"],
    ("store", "purge"): ["--older-than", "1d"],
    # Its host has closed its input.
    ("mcp",): [],
    ("config",): [],
    ("completion",): ["bash"],
}


class Setting(NamedTuple):
    """Where a secret stands: a settings file's text, variables, options."""

    file: str = ""
    environ: Mapping[str, str] = {}
    words: Sequence[str] = ()


#: A workflow, and a bridge that reads a topic.
FLOW = """
from afl_stream.pubsub import EventDrivenWorkflow, InputTopic, Node, OutputTopic

numbers, sums = InputTopic("numbers"), OutputTopic("sums")
node = Node.builder().name("add").subscribe(numbers).publish_to(sums).command(lambda context, events: 1).build()
workflow = EventDrivenWorkflow.builder().name("flow").node(node).build()


def declare(bridge):
    bridge.raise_events("nothing", name="news", workflow_id="w1")
"""

#: Valid settings: secrets, and urls without a connection here.
GOOD = Setting(
    file=f"""
[answers]
token_secret = "{MARK}-token"
older_secrets = "old={MARK}-older"
[kafka]
sasl.password = "{MARK}-sasl"
sasl.pasword = "{MARK}-misspelt"
sasl.oauthbearer.token.endpoint.url = "https://kim:{MARK}/w?x@host/token"
producer.ssl.key.pem = "{MARK}-pem"
[telemetry]
sink = "logging"
file = "telemetry.jsonl"
endpoint = "https://kim:{MARK}/p?w#d@collector:4318/v1?api_key={MARK}"
""",
    environ={"AFL_KAFKA_CONSUMER_SSL_KEY_PASSWORD": f"{MARK}-key", "AFL_KAFKA_SSL_KYE_PASWORD": f"{MARK}-unknown"},
)

#: Settings that end every command, each in its own way.
BAD = {
    "url with a slash": Setting(file=f'store = "mongodb://kim:{MARK}/x@127.0.0.1:1/db"'),
    "url with a question mark": Setting(environ={"AFL_STORE_URL": f"mongodb://kim:{MARK}?x@127.0.0.1:1/db"}),
    "url with a hash and an at": Setting(environ={"AFL_STORE_URL": f"mongodb://kim:a@{MARK}#x@127.0.0.1:1/db"}),
    "url with a bad escape": Setting(environ={"AFL_STORE_URL": f"mongodb://kim:{MARK}%zz@127.0.0.1:1/db"}),
    "url without a host": Setting(environ={"AFL_STORE_URL": f"mongodb://kim:{MARK}"}),
    "url with mechanism properties": Setting(
        environ={
            "AFL_STORE_URL": "mongodb://127.0.0.1:1/db?authMechanism=MONGODB-AWS&authMechanismProperties="
            f"AWS_SESSION_TOKEN:{MARK},{MARK}"
        }
    ),
    "url of a server that is away": Setting(
        environ={"AFL_STORE_URL": f"mongodb://kim:{MARK}-pw@127.0.0.1:1/db?serverSelectionTimeoutMS=1"}
    ),
    "url of another scheme": Setting(file=f'[store]\nurl = "mongo://kim:{MARK}/x@host/db"'),
    "url with one slash": Setting(file=f'store = "mongodb:/kim:{MARK}@host/db"'),
    "url in a list": Setting(file=f'[store]\nurl = ["mongodb://kim:{MARK}@host/db"]'),
    "url beside a path": Setting(
        environ={"AFL_STORE_URL": f"mongodb://kim:{MARK}/x@host/db", "AFL_STORE_PATH": "store.sqlite3"}
    ),
    "bootstrap with a url": Setting(words=["--bootstrap", f"SASL_SSL://kim:{MARK}/x@host:9092"]),
    "bootstrap with a person": Setting(environ={"AFL_KAFKA_BOOTSTRAP": f"kim:{MARK}@host:9092"}),
    "a misspelt key": Setting(file=f'[answers]\ntoken_secrt = "{MARK}"'),
    "a misspelt section": Setting(file=f'[answer]\ntoken_secret = "{MARK}"'),
    "a misspelt table": Setting(file=f'answers = "{MARK}"'),
    "a key twice": Setting(file=f'[kafka]\n"sasl.password" = "{MARK}"\nsasl.password = "{MARK}"'),
    "a key like one of ours": Setting(file=f'[kafka]\nbootstrp = "{MARK}:9092"'),
    "a secret of another type": Setting(file=f'[answers]\ntoken_secret = ["{MARK}"]'),
    "secrets in another form": Setting(
        file='[answers]\ntoken_secret = "long enough"', environ={"AFL_ANSWERS_OLDER_SECRETS": MARK}
    ),
    "a librdkafka secret of another type": Setting(file=f'[kafka]\nsasl.password = ["{MARK}"]'),
    "a librdkafka name that there is not": Setting(
        file=f'[kafka]\nbootstrap = "127.0.0.1:1"\nconnect_timeout_s = 1\nsasl.pasword = "{MARK}"'
    ),
    "a private key that is none": Setting(
        file=f'[kafka]\nbootstrap = "127.0.0.1:1"\nconnect_timeout_s = 1\nsecurity.protocol = "ssl"\n'
        f'ssl.key.pem = "-----BEGIN PRIVATE KEY-----\\n{MARK}\\n-----END PRIVATE KEY-----"'
    ),
    "a broker that is away": Setting(
        file=f'[kafka]\nbootstrap = "127.0.0.1:1"\nconnect_timeout_s = 1\nsecurity.protocol = "sasl_plaintext"\n'
        f'sasl.mechanisms = "PLAIN"\nsasl.username = "kim"\nsasl.password = "{MARK}-pw"'
    ),
    "a file that is no TOML": Setting(file=f'[answers]\ntoken_secret = "{MARK}'),
    "an option that there is not": Setting(words=[f"--token-secret={MARK}://kim:{MARK}@x"]),
}
#: Commands that wait for an answer before they fail: a few are enough.
SLOW = {
    "url of a server that is away",
    "a librdkafka name that there is not",
    "a private key that is none",
    "a broker that is away",
}
#: What `make test` has time for.
QUICK = {"url with a slash", "bootstrap with a url", "a misspelt key"}


@pytest.fixture(autouse=True)
def plain_logging() -> Iterator[None]:
    """Each command sets up the log of its process, as it does outside tests."""
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    yield
    root.handlers[:] = before
    root.setLevel(level)


class Terminal:
    """Calls commands in a folder, with a setting that holds secrets, and looks at all that they say."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str], setting: Setting) -> None:
        self.folder = folder
        self.line = CommandLine(folder, capsys)
        self.setting = setting
        self.settings_file = folder / "afl-stream.toml"
        self.settings_file.write_text(setting.file)
        self.flow = folder / "flow.py"
        self.flow.write_text(FLOW)

    def __call__(self, *words: str) -> Called:
        logging.getLogger().handlers[:] = []
        placed = [
            word.format(program=self.line.program, handlers=self.line.handlers, folder=self.folder, flow=self.flow)
            if word.startswith("{") and word != "{}"
            else word
            for word in words
        ]
        called = self.line(*placed, *self.setting.words, "-vv")
        assert MARK not in called.out, (placed, called.out)
        assert MARK not in called.err, (placed, called.err)
        return called


def commands_of(group: click.Group, start: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            if command.invoke_without_command:
                yield (*start, name)
            yield from commands_of(command, (*start, name))
        else:
            yield (*start, name)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_table_has_every_command() -> None:
    assert set(COMMANDS) == set(commands_of(afl_stream))


def test_secrets_of_a_deployment_at_work_are_shown_and_kept_nowhere(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in GOOD.environ.items():
        monkeypatch.setenv(name, value)
    terminal = Terminal(here, capsys, GOOD)

    codes = {command: terminal(*command, *words).code for command, words in COMMANDS.items()}
    for words in (["config", "--json"], ["status", "--json"], ["servers", "--all", "--json"], ["status", "nothing"]):
        terminal(*words)

    assert codes[("dev",)] == codes[("config",)] == codes[("evaluator",)] == codes[("agent",)] == 0
    written = [path for path in here.rglob("*") if path.is_file() and path != terminal.settings_file]
    assert {"store.sqlite3", "log.sqlite3", "audit.jsonl", "telemetry.jsonl"} <= {path.name for path in written}
    assert [path for path in written if MARK.encode() in path.read_bytes()] == []


@pytest.mark.parametrize("name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.long) for n in BAD])
def test_no_error_shows_the_secret_that_caused_it(
    name: str, here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    setting = BAD[name]
    for variable, value in setting.environ.items():
        monkeypatch.setenv(variable, value)
    terminal = Terminal(here, capsys, setting)
    few = [("evaluator",), ("start",), ("topics", "plan"), ("audit",), ("config",)]

    codes = [terminal(*command, *COMMANDS[command]).code for command in (few if name in SLOW else COMMANDS)]
    terminal("evaluator", "--json")

    # Each of them keeps a command from working.
    assert any(codes)


@pytest.mark.parametrize(
    "url", [f"kim:{MARK}/x@127.0.0.1:1/db", f"kim:{MARK}@127.0.0.1:1/db?serverSelectionTimeoutMS=1"]
)
def test_the_url_of_the_store_of_requests_is_shown_without_its_secret(
    url: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    terminal = Terminal(here, capsys, Setting(file=f'[pubsub]\nstore = "mongodb://{url}"'))

    codes = [terminal("pubsub", name, "{flow}", *words).code for name, *words in (["invoke", "1"], ["requests"])]

    assert all(codes)


@pytest.mark.parametrize(
    "url",
    [
        f"mongodb://kim:{MARK}/x@127.0.0.1:1/db",
        f"mongodb://kim:{MARK}?x@127.0.0.1:1/db",
        f"mongodb://kim:{MARK}-pw@127.0.0.1:1/db?serverSelectionTimeoutMS=1",
        f"mongodb:/kim:{MARK}@127.0.0.1/db",
        f"http://kim:{MARK}@host",
    ],
)
@pytest.mark.long
def test_afl_and_the_runner_show_no_secret_of_their_settings(
    url: str, here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    config = here / "afl.config.json"
    (here / "user.afl").write_text("use shop.parts\nnamespace a { facet F(x: shop.parts.Part) }\n")
    monkeypatch.setenv("AFL_MONGODB_PASSWORD", f"{MARK}-environment")
    monkeypatch.setenv("AFL_MAVEN_REPOSITORY", f"https://kim:{MARK}/x@127.0.0.1:1")
    shown: list[str] = []

    def call(words: list[str], main: object = afl_main) -> None:
        logging.getLogger().handlers[:] = []
        logging.getLogger("afl").handlers[:] = []
        assert callable(main)
        main(words)
        captured = capsys.readouterr()
        shown.append(captured.out + captured.err)

    for settings in (
        {"url": url},
        {"url": "mongodb://127.0.0.1:1/?serverSelectionTimeoutMS=1", "password": MARK, "username": "kim"},
        {"url": [url]},
        {"password": [MARK]},
        url,
    ):
        config.write_text(json.dumps({"mongodb": settings}))
        for command in set(commands_of(afl)) - {("lsp",)} if settings == {"url": url} else ():
            call([*command, "user.afl"])
        for words in (
            ["check", "--mongo-resolve", "user.afl", "--log-level", "DEBUG"],
            ["check", "--mongo", "f1:Mine", "user.afl"],
            ["check", "--maven", "a.b:c:1.0", "user.afl"],
            ["publish", "--list"],
            ["compile", url, "user.afl"],
        ):
            call(words)
        call(["--config", str(config), "--until-idle", "--log-level", "DEBUG"], runner_main)
    call(["--store", url, "--until-idle", "--log-level", "DEBUG"], runner_main)

    assert [text for text in shown if MARK in text] == []
    assert any("Error" in text for text in shown)
