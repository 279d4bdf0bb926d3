"""The page about tools for language models lists what a server offers, and no more."""

import json
import re

from afl_stream.mcp.offered import offered_tools
from afl_stream.mcp.resources import RESOURCES
from tests.architecture.page_tables import ROOT

_PAGE = (ROOT / "docs" / "mcp.md").read_text()


def test_the_page_lists_every_tool_and_which_need_write() -> None:
    listed = dict(re.findall(r"^\| `(afl_\w+)` \|.*\| ([\w ]*)\|$", _PAGE, re.MULTILINE))
    reading, all_of_them = offered_tools(may_write=False), offered_tools(may_write=True)

    assert listed.keys() == all_of_them.keys()
    for name, needs in listed.items():
        changes = "yes" if name not in reading else "for changes" if all_of_them[name].writes else ""
        assert needs.strip() == changes, name


def test_the_page_lists_every_resource() -> None:
    assert re.findall(r"^\| `(afl://[^`]*)` \|", _PAGE, re.MULTILINE) != []
    assert set(re.findall(r"^\| `(afl://[^`]*)` \|", _PAGE, re.MULTILINE)) == {one.uri for one in RESOURCES}


def test_the_settings_of_hosts_on_the_page_are_json() -> None:
    blocks = re.findall(r"^```json\n(.*?)^```", _PAGE, re.MULTILINE | re.DOTALL)

    assert len(blocks) == 3
    for block in blocks:
        (servers,) = json.loads(block).values()
        assert servers["afl-stream"].get("url") or servers["afl-stream"]["args"][0] == "mcp"
