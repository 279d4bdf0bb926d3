"""Bad input on the command line: the command names it, ends with a code, and does nothing."""

import shutil
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

import pytest

from tests.scenarios.command_lines import Called, CommandLine


@pytest.fixture
def command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    return CommandLine(tmp_path, capsys)


@pytest.fixture(scope="module")
def templates() -> dict[str, Path]:
    """Provide data directories by what was done to them, filled when the first test needs one."""
    return {}


@pytest.fixture
def deployed(
    command_line: CommandLine, templates: dict[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> CommandLine:
    return _copied("deployed", command_line, templates, tmp_path_factory)


@pytest.fixture
def waiting(
    command_line: CommandLine, templates: dict[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> CommandLine:
    return _copied("waiting", command_line, templates, tmp_path_factory)


def _copied(
    name: str, command_line: CommandLine, templates: dict[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> CommandLine:
    """Return the command line on a copy of a directory that was made once."""
    if name in templates:
        shutil.copytree(templates[name], command_line.data_dir)
        return command_line
    {"deployed": command_line.deployed, "waiting": command_line.waiting}[name]()
    templates[name] = tmp_path_factory.mktemp(name) / "data"
    shutil.copytree(command_line.data_dir, templates[name])
    return command_line


def _refused(called: Called, code: int, *words: str) -> None:
    """Check the code and the words, in a line or two, without a traceback."""
    assert called.code == code, called
    missing = [word for word in words if word not in called.err]
    assert missing == [], called.err
    assert "Traceback" not in called.err
    assert len(called.err.splitlines()) <= 2
    assert called.out == ""


START_REFUSALS: list[tuple[Sequence[str], int, Sequence[str]]] = [
    (["Wach", "--input", "hosts=[]"], 3, ["Wach", "did you mean net.Watch?"]),
    (["Watch"], 2, ["needs input hosts: [String]"]),
    (["Watch", "--input", "hosts=7"], 2, ["hosts", "the integer 7", "expected [String]"]),
    (["Watch", "--input", "hosts=a"], 2, ["hosts", "String 'a'", "expected [String]"]),
    (["Watch", "--input", "hosts=[1]"], 2, ["hosts[0]", "a String was expected, found the integer 1"]),
    (["Watch", "--input", "hosts=[]", "--input", "factor=fast"], 2, ["factor", "String 'fast'", "expected Double"]),
    (
        ["Watch", "--input", "hosts=[]", "--input", "factor=NaN"],
        2,
        ["inputs.factor", "found the Double nan"],
    ),
    (["Watch", "--input", "hosts=[]", "--input", "host=a"], 2, ["no input host", "hosts: [String]"]),
    (["Watch", "--input", "hosts=[1]"], 2, ["input hosts does not fit [String]: hosts[0]: a String was expected"]),
    (["Watch", "--input", "hosts=[a]"], 2, ["--input hosts: not JSON: Expecting value (line 1, column 2)"]),
    (["Watch", "--inputs", __file__], 2, [f"a file is read with @: @{__file__}"]),
    (["Watch", "--input", "hosts"], 2, ["--input hosts", "NAME=VALUE"]),
    (["Watch", "--input", "hosts=[]", "--input", "hosts=[]"], 2, ["hosts is given twice"]),
    (["Watch", "--inputs", '{"hosts": ['], 2, ["--inputs", "not JSON", "line 1"]),
    (["Watch", "--inputs", "[]"], 2, ["--inputs", "expected a JSON object", "an array"]),
    (["Watch", "--inputs", "@nothing.json"], 2, ["--inputs @nothing.json", "No such file"]),
    (["Watch", "--input", "hosts=[]", "--id", "a b"], 2, ["'a b'", "workflow id"]),
    (["Watch", "--input", "hosts=[]", "--prefix", "other."], 3, ["other.definitions", "afl-stream topics apply"]),
    (["Watch", "--input", "hosts=[]", "--wait", "--handlers", "no.such"], 2, ["no.such", "there is no module no"]),
]


@pytest.mark.parametrize(("words", "code", "said"), START_REFUSALS)
def test_a_start_that_cannot_be_is_refused_before_anything_is_produced(
    words: Sequence[str], code: int, said: Sequence[str], deployed: CommandLine
) -> None:
    _refused(deployed("start", *words), code, *said)

    assert deployed.records() == 0


def test_an_id_that_is_taken_by_other_inputs_is_refused(waiting: CommandLine) -> None:
    _refused(waiting("start", "Watch", "--input", 'hosts=["a"]', "--id", "w1"), 2, "w1", "choose another id")
    assert waiting.records() == 1


ANSWER_REFUSALS: list[tuple[Callable[[str], Sequence[str]], int, Sequence[str]]] = [
    (
        lambda step: ["continue", step, "--result", '{"ok": 1}'],
        2,
        ["ok: a Boolean was expected", "(ok: Boolean)"],
    ),
    (lambda step: ["continue", step, "--result", "{ok: true}"], 2, ["--result", "not JSON"]),
    (lambda step: ["continue", step, "--result", '{"ok": true, "ok": false}'], 2, ["--result", "'ok' stands twice"]),
    (lambda step: ["continue", step, "--result", "true"], 2, ["--result", "expected a JSON object", "a Boolean"]),
    (lambda step: ["continue", "w1", "--result", "{}"], 2, ["'w1'", "step id", "afl-stream status w1"]),
    (lambda step: ["rerun", "w1"], 2, ["'w1'", "step id", "afl-stream status w1"]),
    (lambda step: ["retry", "w1"], 2, ["run w1 (net.Watch) has not failed: it is WAITING", "reset runs it again"]),
    (lambda step: ["continue", "w1:00", "--result", "{}"], 3, ["no step w1:00", "status w1"]),
    (lambda step: ["continue", "w2:00", "--result", "{}"], 3, ["no run w2"]),
    (lambda step: ["continue", f"{step[:-1]}", "--result", "{}"], 3, ["no step", "did you mean w1:"]),
    (lambda step: ["fail", "w1:00"], 3, ["no step w1:00"]),
    (lambda step: ["fail", "w 1:00"], 2, ["'w 1:00'", "step id"]),
    (lambda step: ["cancel", "w/1"], 2, ["'w/1'", "workflow id"]),
    (lambda step: ["status", "w2"], 3, ["no run w2"]),
]


@pytest.mark.parametrize(("words", "code", "said"), ANSWER_REFUSALS)
def test_an_answer_that_cannot_be_is_refused_before_anything_is_produced(
    words: Callable[[str], Sequence[str]], code: int, said: Sequence[str], waiting: CommandLine
) -> None:
    (note,) = waiting.steps("w1", "net.Note")

    _refused(waiting(*words(note)), code, *said)

    assert waiting.records() == 1


def test_a_step_takes_one_answer_and_an_ended_run_takes_none(command_line: CommandLine) -> None:
    command_line("dev", command_line.program, "--input", 'hosts=["a"]', "--id", "w1")
    (note,), (ping,) = command_line.steps("w1", "net.Note"), command_line.steps("w1", "net.Ping")
    command_line("continue", note, "--result", '{"ok": true}')
    command_line("evaluator", "--until-idle")

    _refused(command_line("continue", note, "--result", '{"ok": true}'), 2, "has its answer already")
    command_line("continue", ping, "--result", '{"ms": 1}')
    command_line("evaluator", "--until-idle")
    _refused(command_line("fail", ping), 2, "COMPLETED")
    _refused(command_line("cancel", "w1"), 2, "COMPLETED")


def test_a_result_with_other_names_is_refused_by_those_that_would_be_right(waiting: CommandLine) -> None:
    (note,) = waiting.steps("w1", "net.Note")

    called = waiting("continue", note, "--result", '{"okay": true}')

    assert called.code == 2
    assert "lacks ok and has okay, which net.Note does not declare" in called.err
    assert "it returns (ok: Boolean)" in called.err
    assert waiting.steps("w1", "net.Note") == [note]


@pytest.mark.parametrize("command", ["dev", "deploy"])
def test_mistakes_in_a_file_are_shown_where_they_are(command: str, command_line: CommandLine) -> None:
    text = "namespace n {\n  event facet A()\n  workflow W() andThen { s = A(c = 1) }\n}\n"
    wrong = command_line.file("wrong.afl", text)

    called = command_line(command, wrong)

    assert called.code == 2
    assert "wrong.afl:3:32: error" in called.err
    assert "    |                                ^" in called.err
    assert not command_line.data_dir.exists()


DEV_REFUSALS: list[tuple[Sequence[str], int, Sequence[str]]] = [
    (["--start", "Wach"], 2, ["Wach", "did you mean net.Watch?"]),
    ([], 2, ["needs input hosts"]),
    (["--input", "hosts=[]", "--handlers", "nothing.py"], 2, ["nothing.py", "there is no file nothing.py"]),
    (["--input", "hosts=[]", "--handlers", "json"], 2, ["json", "'handle'", "register_handlers(runner)"]),
    (["--input", "hosts=[]", "--handlers", "json:dump=net.Scan"], 2, ["net.Scan", "event facet Scan(...)"]),
    (["--input", "hosts=[]", "--handlers", "{handlers}", "--facet", "net.Pong"], 2, ["did you mean net.Ping"]),
    (["--input", "hosts=[]", "--handlers", "json:dump=net.Pong."], 2, ["'net.Pong.' is not a facet name"]),
    (["--input", "hosts=[]", "--handlers", "json:dump=Pong"], 2, ["facet Pong", "did you mean Ping?"]),
    (["--input", "hosts=[]", "--audit", "nowhere/audit.jsonl"], 3, ["nowhere/audit.jsonl", "No such file"]),
    (["--input", "hosts=[]", "--config", "nothing.toml"], 2, ["no settings file nothing.toml"]),
]


@pytest.mark.parametrize(("words", "code", "said"), DEV_REFUSALS)
def test_dev_refuses_what_cannot_be_run(
    words: Sequence[str], code: int, said: Sequence[str], command_line: CommandLine
) -> None:
    words = [word.format(handlers=command_line.handlers) for word in words]

    _refused(command_line("dev", command_line.program, *words), code, *said)


def test_an_agent_refuses_a_facet_that_its_handlers_are_not_for(deployed: CommandLine) -> None:
    called = deployed("agent", "--handlers", deployed.handlers, "--facet", "net.Pnig", "--until-idle")

    _refused(called, 2, "--facet net.Pnig", "did you mean net.Ping")


def test_a_handler_for_a_facet_without_a_topic_is_asked_whether_that_has_events(deployed: CommandLine) -> None:
    handlers = deployed.file(
        "handlers_of_scan.py", 'def register_handlers(runner):\n    runner.register("net.Scan", dict)\n'
    )

    called = deployed("agent", "--handlers", handlers, "--until-idle")

    _refused(called, 3, "facet net.Scan, if that is declared as an event facet (others have none)", "topics apply")


def test_a_result_with_a_misspelt_name_is_logged_by_the_agent(
    deployed: CommandLine, caplog: pytest.LogCaptureFixture
) -> None:
    handlers = deployed.file(
        "handlers_of_note.py", 'def handle(payload):\n    return {"okay": True}\n\n\nFACET = "net.Note"\n'
    )
    deployed("start", "Watch", "--input", "hosts=[]")
    deployed("evaluator", "--until-idle")

    deployed("agent", "--handlers", handlers, "--until-idle")

    (reported,) = [record.getMessage() for record in caplog.records if record.name == "afl_stream.agent.answers"]
    assert reported.startswith("the result of the handler of net.Note fails step ")
    assert "ResultMismatch: the result of net.Note lacks ok and has okay" in reported


def test_a_refused_command_is_told_where_the_evaluator_runs(
    deployed: CommandLine, caplog: pytest.LogCaptureFixture
) -> None:
    deployed("cancel", "w9")
    deployed("evaluator", "--until-idle")

    reported = [record.getMessage() for record in caplog.records if record.name == "afl_stream.evaluator.control_loop"]
    refused = "CancelWorkflow of run w9 is refused: NothingToCancel: there is no workflow w9 to cancel"
    assert reported == [f"{refused}; it is listed by: afl-stream dlq list --workflow w9"]


@pytest.mark.parametrize("words", [(), ("topics",), ("store",), ("handlers",)])
def test_a_command_without_words_shows_its_help_in_lines(words: Sequence[str], command_line: CommandLine) -> None:
    called = command_line(*words, data_dir=False)

    assert called.code == 2
    assert called.err.startswith(f"Usage: {' '.join(['afl-stream', *words])} [OPTIONS] COMMAND [ARGS]...\n\n  ")
    assert "Commands:\n" in called.err


def test_inputs_without_a_workflow_to_start_are_refused_with_the_names(command_line: CommandLine) -> None:
    two = command_line.file("two.afl", "namespace n { workflow A(x: Int) => () \n workflow B(x: Int) => () }")

    _refused(command_line("dev", two, "--input", "x=1"), 2, "--start", "n.A, n.B")


def test_a_file_that_is_not_there_is_named(command_line: CommandLine) -> None:
    _refused(command_line("deploy", "nothing.afl"), 2, "nothing.afl")


def test_a_facet_without_a_topic_is_named_with_the_command_that_creates_it(command_line: CommandLine) -> None:
    command_line("topics", "apply")

    called = command_line("deploy", command_line.program)

    _refused(called, 3, "no topic afl.events.net.", f"afl-stream topics apply {command_line.program}")


@pytest.mark.parametrize(
    "words", [("evaluator",), ("audit", "--until-idle"), ("start", "Watch"), ("deploy", "{program}"), ("cancel", "w1")]
)
def test_a_deployment_that_is_not_there_is_not_created_on_the_side(
    words: Sequence[str], command_line: CommandLine
) -> None:
    words = [word.format(program=command_line.program) for word in words]

    _refused(command_line(*words), 3, str(command_line.data_dir / "log.sqlite3"), "afl-stream topics apply")
    assert not command_line.data_dir.exists()


def test_a_setting_that_is_unknown_is_named_with_its_file(command_line: CommandLine) -> None:
    settings = command_line.file("settings.toml", "prefx = 'a.'")

    _refused(command_line("status", "--config", settings), 2, settings, "prefx", "prefix")


def _garbage(path: Path) -> None:
    path.write_bytes(b"this is no database" * 100)


def _foreign(path: Path) -> None:
    path.unlink(missing_ok=True)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE bookmarks (url TEXT)")


@pytest.mark.parametrize("spoil", [_garbage, _foreign])
@pytest.mark.parametrize("words", [("evaluator", "--until-idle"), ("status",)])
def test_a_store_that_is_damaged_or_of_something_else_is_named_and_left_alone(
    words: Sequence[str], spoil: Callable[[Path], None], deployed: CommandLine
) -> None:
    store = deployed.data_dir / "store.sqlite3"
    spoil(store)
    before = store.read_bytes()

    _refused(deployed(*words), 3, str(store))
    assert store.read_bytes() == before


@pytest.mark.parametrize("spoil", [_garbage, _foreign])
def test_a_log_that_is_damaged_or_of_something_else_is_named_and_left_alone(
    spoil: Callable[[Path], None], command_line: CommandLine
) -> None:
    command_line.data_dir.mkdir()
    log = command_line.data_dir / "log.sqlite3"
    spoil(log)
    before = log.read_bytes()

    _refused(command_line("topics", "apply"), 3, str(log))
    assert log.read_bytes() == before


def test_a_store_of_another_prefix_is_refused(waiting: CommandLine) -> None:
    called = waiting("status", "--prefix", "other.")

    _refused(called, 3, "store.sqlite3", "'afl.'", "'other.'")


def test_errors_are_a_document_too_for_those_who_ask_for_json(command_line: CommandLine) -> None:
    called = command_line("status", "--json")

    assert called.code == 3
    assert called.document["error"]["exit_code"] == 3
    assert called.document["error"]["message"] in called.err


def test_a_run_whose_time_is_over_while_its_handler_is_at_work_says_that_it_is_here(command_line: CommandLine) -> None:
    handlers = command_line.file(
        "handlers_at_work.py",
        "from threading import Event\n\n\n"
        "def handle(payload, context):\n"
        "    while not context.is_stopping:\n"
        "        Event().wait(0.01)\n"
        '    return {"ok": True}\n\n\n'
        'FACET = "net.Note"\n',
    )

    called = command_line(
        "dev", command_line.program, "--input", 'hosts=["a"]', "--handlers", handlers, "--id", "w1", "--timeout", "1"
    )

    assert called.code == 4
    reported = [line.strip() for line in called.err.splitlines()]
    # The audit of this process reads the events of net.Ping too, and answers none.
    ping = reported.index(
        "no-agent: no agent is there: group afl.agent.net.Ping has no members that read afl.events.net.Ping"
    )
    assert reported[ping + 1].startswith("afl-stream agent --handlers MODULE --facet net.Ping")
    (note,) = [number for number, line in enumerate(reported) if line.startswith("net.Note: an event waits")]
    assert reported[note + 1] == "its handler is here; one that is at work is waited for, up to 30 s"


def test_a_start_of_a_run_that_is_there_says_what_became_of_that_one(waiting: CommandLine) -> None:
    again = ("start", "Watch", "--input", "hosts=[]", "--id", "w1")

    under_way = waiting(*again)
    waiting("cancel", "w1")
    waiting("evaluator", "--until-idle")
    over = waiting(*again)

    assert (under_way.code, under_way.out) == (0, "w1\n")
    assert "w1 exists already: nothing new was started, and it continues" in under_way.err
    assert "afl-stream status w1" in under_way.err
    assert (over.code, over.out) == (0, "w1\n")
    assert "w1 exists already: it ended as CANCELLED, nothing was started" in over.err
    assert "afl-stream retry w1" in over.err
