"""The page about tools for language models lists what a server offers, and no more."""

import json
import re
from pathlib import Path

from afl_stream.mcp.offered import offered_tools
from afl_stream.mcp.resources import RESOURCES
from tests.architecture.page_tables import ROOT
from tests.architecture.shell_sessions import type_page

_PAGE = (ROOT / "docs" / "mcp.md").read_text()


def test_the_page_lists_every_tool_and_which_need_write() -> None:
    listed = dict(re.findall(r"^\| `(afl_\w+)` \|.*\| ([\w ]*)\|$", _PAGE, re.MULTILINE))
    reading, all_of_them = offered_tools(may_write=False), offered_tools(may_write=True)

    assert listed.keys() == all_of_them.keys()
    for name, needs in listed.items():
        changes = "yes" if name not in reading else "for changes" if all_of_them[name].writes else ""
        assert needs.strip() == changes, name


def test_the_page_lists_every_resource() -> None:
    assert set(re.findall(r"^\| `(afl://[^`]*)` \|", _PAGE, re.MULTILINE)) == {one.uri for one in RESOURCES}


def test_the_settings_of_hosts_on_the_page_are_json() -> None:
    blocks = re.findall(r"^```json\n(.*?)^```", _PAGE, re.MULTILINE | re.DOTALL)

    assert len(blocks) == 3
    for block in blocks:
        (servers,) = json.loads(block).values()
        assert servers["afl-stream"].get("url") or servers["afl-stream"]["args"][0] == "mcp"


def test_what_the_page_has_people_type_starts_a_server_that_ends_with_the_session(tmp_path: Path) -> None:
    type_page(
        _PAGE, tmp_path, environment={}, in_place_of={"--http 127.0.0.1:8765": "--http 127.0.0.1:0"}, timeout_s=100
    )

    assert (tmp_path / "mcp.token").stat().st_mode & 0o777 == 0o600


def test_what_the_page_of_commands_has_people_type_completes(tmp_path: Path) -> None:
    """docs/commands.md: its one command makes a shell complete."""
    type_page((ROOT / "docs" / "commands.md").read_text(), tmp_path, environment={}, in_place_of={}, timeout_s=100)
