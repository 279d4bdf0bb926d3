"""Every table of a command that goes to a pipe: a line a row, tabs between the cells, and nothing to fill a column."""

from __future__ import annotations

import ast
import json
import threading
from collections.abc import Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Final

import pytest

from afl.engine.model.entities import ServerDefinition, ServerState
from afl.stores.sqlite.store import SqliteStore
from tests.scenarios.command_lines import ROOT, CommandLine

#: The dead letter of a command that names no run.
LETTER: Final = "afl.dlq.commands[0]@0"
_COMMANDS: Final = ROOT / "afl_stream" / "commands"
#: Where commands write tables, with words that lead there and the first cells of a row of each: as a program reads it.
#: The second table of topics/acls.py needs a broker with ACLs.
TABLES: Final[dict[str, list[tuple[str, list[str]]]]] = {
    "config.py": [("config", ["prefix", "afl."])],
    "dlq/listing.py": [("dlq list", [LETTER]), (f"dlq drop {LETTER} --dry-run", [LETTER])],
    "handlers.py": [("handlers list", ["net.Ping"])],
    "probing/command.py": [("agent probe --facet net.Ping --timeout 0.1", ["good"])],
    "pubsub/declared.py": [("pubsub check {flow}", ["add", "numbers", "sums"])],
    "pubsub/requests.py": [
        ("pubsub requests {flow}", ["r1", "finished"]),
        ("pubsub show {flow} r1", []),
    ],
    "runs/listing.py": [("list", ["w1", "net.Watch", "WAITING"])],
    "runs/programs.py": [("programs list", [])],
    "schedules/reports.py": [("schedule list", ["nightly"])],
    "schemas/checking.py": [("schemas check {program}", ["afl.events.net.Note", "net.Note"])],
    "schemas/registering.py": [("schemas register {program} --dry-run", ["afl.events.net.Note-value"])],
    "sensitive/keys.py": [("keys list", [])],
    "servers.py": [("servers --all", ["silent", "pays", "till", "n1", "stale"])],
    "status.py": [("status", ["w1", "net.Watch"]), ("status w1", ["net.Watch"])],
    "topics/acls.py": [("topics acls {program} --role starter", [])],
    "topics/plans.py": [("topics plan {program}", ["afl.control"])],
    "waiting/pausing.py": [("pause", ["facet", "net.Ping"])],
}
_FLOW: Final = """
from afl_stream.pubsub import EventDrivenWorkflow, InputTopic, Node, OutputTopic

numbers, sums = InputTopic("numbers"), OutputTopic("sums")
node = Node.builder().name("add").subscribe(numbers).publish_to(sums).command(lambda context, events: 1).build()
workflow = EventDrivenWorkflow.builder().name("flow").node(node).build()
"""


class _EmptyRegistry(BaseHTTPRequestHandler):
    """A schema registry without a subject."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        body = json.dumps({"error_code": 40401, "message": "no such subject"}).encode()
        self.send_response(404)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        self.do_POST()

    def log_message(self, *args: object) -> None:
        """Say nothing."""


@pytest.fixture
def registry() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _EmptyRegistry) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


@pytest.fixture
def command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    """Return a deployment of which every table has a row, and no width to fit."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.setenv("AFL_KEYS_PATH", str(tmp_path / "keys"))
    run = CommandLine(tmp_path, capsys)
    assert run("keys", "create").code == 0
    run.waiting()
    run.file("flow.py", _FLOW)
    pings = run.file("pings.py", "FACET = 'net.Ping'\ndef handle(payload): return {'ms': 1}\n")
    for words in (
        "cancel nothing",
        f"handlers register {pings}",
        "schedule create nightly Watch --every 1h --input hosts=[]",
        "evaluator --until-idle",
        f"pubsub invoke {tmp_path}/flow.py 1 --request r1",
        "pause --facet net.Ping --reason hands\toff",
    ):
        called = run(*words.split(" "))
        assert called.code == 0, (words, called.err)
    with closing(SqliteStore(run.data_dir / "store.sqlite3")) as store:
        server = ServerDefinition("silent", "till", "pays", "n1", start_time=1, ping_time=1)
        server.state = ServerState.RUNNING
        store.save_server(server)
    return run


def callers() -> set[str]:
    """Return the modules that write tables."""
    return {
        str(path.relative_to(_COMMANDS))
        for path in _COMMANDS.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in ("table", "listing")
    }


def test_every_table_has_its_line_here() -> None:
    assert set(TABLES) == callers()


def test_tables_are_laid_out_in_one_place() -> None:
    sources = [path for package in ("afl", "afl_stream") for path in (ROOT / package).rglob("*.py")]
    layouts = ("afl_stream.commands.tables", "rich.table")

    own = {path for path in sources if any(f"from {layout} import" in path.read_text() for layout in layouts)}

    assert own == {_COMMANDS / "terminal.py"}


def test_every_table_in_a_pipe_has_tabs_between_its_cells_and_no_heading(
    command_line: CommandLine, registry: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = {"program": command_line.program, "flow": f"{command_line.folder}/flow.py"}
    for module, ways in TABLES.items():
        for words, first in ways:
            if module == "schemas/registering.py":
                monkeypatch.setenv("AFL_REGISTRY_URL", registry)
            else:
                monkeypatch.delenv("AFL_REGISTRY_URL", raising=False)
            called = command_line(*words.format(**places).split())
            rows = [line.split("\t") for line in called.out.splitlines() if "\t" in line]

            assert rows, (module, words, called)
            assert [row for row in rows if row[: len(first)] == first], (module, words, rows)
            # The depth of a step is part of its cell.
            assert [cell for row in rows for cell in row if cell != cell.rstrip()] == [], (module, words)
            assert "─" not in called.out, (module, words)


#: Commands whose output is one list: what else they say is a remark.
LISTS: Final = (
    "config", "dlq list", "handlers list", "list", "pause", "programs list", "pubsub requests {flow}", "schedule list",
    "servers --all", "status", "topics plan {program}", "keys list",
)  # fmt: skip


def test_a_list_in_a_pipe_has_lines_of_its_rows_only(command_line: CommandLine) -> None:
    places = {"program": command_line.program, "flow": f"{command_line.folder}/flow.py"}
    for words in LISTS:
        called = command_line(*words.format(**places).split())

        assert called.out, words
        assert [line for line in called.out.splitlines() if "\t" not in line] == [], words
    assert "facet net.Ping is paused" in command_line("status").err


def test_a_tab_inside_a_cell_is_no_end_of_it(command_line: CommandLine) -> None:
    (row,) = [line.split("\t") for line in command_line("pause").out.splitlines()]

    assert row[3] == "hands\\toff"


def test_a_column_has_one_place_whether_or_not_its_rows_are_empty(command_line: CommandLine) -> None:
    (before,) = [line.split("\t") for line in command_line("dlq", "list").out.splitlines()]
    assert command_line("dlq", "drop", LETTER).code == 0
    (after,) = [line.split("\t") for line in command_line("dlq", "list", "--handled").out.splitlines()]

    assert (before[4], after[4]) == ("", "dropped")
    assert before[5:] == after[5:]
