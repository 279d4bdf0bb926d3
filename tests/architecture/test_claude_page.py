"""The page about Claude holds: its programs run, against a server that speaks the Messages API."""

import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

from afl.claude import client as claude_client
from afl.claude.errors import ClaudeFailed
from afl.claude.runner import ClaudeAgentRunner
from afl.runtime import agent
from tests.architecture.page_tables import ROOT
from tests.architecture.walkthroughs import Command, File, Shown, walkthrough
from tests.worlds.messages_api import API_KEY, messages_api, says, use

_PAGE = (ROOT / "docs" / "claude.md").read_text()


def test_what_the_page_has_people_type_prints_what_it_says(tmp_path: Path) -> None:
    answer = use("Triage", "u2", queue="fire", urgent=True)
    with messages_api(says(use("History", "u1", customer="Ann")), says(answer), says(answer)) as api:
        commands, printed = 0, ""
        for item in walkthrough(_PAGE):
            if isinstance(item, File):
                (tmp_path / item.name).write_text(item.text)
            elif isinstance(item, Shown):
                assert [line for line in item.lines if line not in printed] == [], printed
            else:
                commands, printed = commands + 1, _typed(item, tmp_path, api.url)

    assert commands == 2
    assert [block["content"] for block in api.last_message(1)] == ['{"tickets": ["Ann: smoke in the cellar"]}']


def test_the_page_names_every_failure_and_the_client_defaults() -> None:
    failures = {cls.__name__ for cls in ClaudeFailed.__subclasses__()}

    assert set(re.findall(r"^\| `(Claude\w+)` \|", _PAGE, re.MULTILINE)) == failures
    assert failures <= set(agent.__all__)
    assert f"at most {claude_client.REQUEST_TIMEOUT_S:.0f} s" in _PAGE
    assert claude_client.REQUEST_RETRIES == 4


def test_the_page_lists_the_settings_of_the_runner_with_their_defaults() -> None:
    reported = dict(re.findall(r"^\| `(\w+)` \| ([\w]+)", _PAGE, re.MULTILINE))
    parameters = inspect.signature(ClaudeAgentRunner).parameters.values()
    settings = {p.name: str(p.default) for p in parameters if p.kind is p.KEYWORD_ONLY}

    about = {name for name in reported if not name.startswith("Claude")} - {"error_type"}
    assert about | {"model", "probe"} == set(settings)
    numbers = {name: default for name, default in settings.items() if default.isdecimal()}
    assert {name: reported[name] for name in numbers} == numbers


def _typed(command: Command, folder: Path, url: str) -> str:
    commands = Path(sys.executable).parent
    process = subprocess.run(
        ["bash", "-c", command.line],
        cwd=folder,
        env={
            **os.environ,
            "PATH": f"{commands}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "AFL_EMBEDDED_DATA_DIR": str(folder / ".afl"),
            "ANTHROPIC_API_KEY": API_KEY,
            "ANTHROPIC_BASE_URL": url,
            "COLUMNS": "120",
        },
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=100,
    )
    assert process.returncode == command.exit_code, process.stdout
    return process.stdout
