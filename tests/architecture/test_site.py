"""The documentation as a site: each page has its place, and each link leads somewhere."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.page_tables import ROOT
from tools.site import navigation, stage

# Making a site takes half a minute, and several times that beside other tests.
pytestmark = pytest.mark.timeout(300)

_WITH_A_DEAD_LINK = """
import sys, tools.site
from pathlib import Path
stage = tools.site.stage
def with_a_dead_link(folder):
    stage(folder)
    (folder / "docs" / "why.md").write_text("# Why\\n\\n[gone](gone.md) and [no heading](kafka.md#nowhere)\\n")
tools.site.stage = with_a_dead_link
sys.exit(tools.site.main([sys.argv[1]]))
"""


def _made(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *words], cwd=ROOT, capture_output=True, text=True, timeout=280, check=False)


@pytest.mark.long
def test_the_site_has_every_page_and_no_dead_link(tmp_path: Path) -> None:
    made = _made("-m", "tools.site", str(tmp_path / "site"))

    assert (made.returncode, made.stderr) == (0, "")
    for page in ("index.html", "docs/why.html", "docs/guide/index.html", "schemas/index.html"):
        assert (tmp_path / "site" / page).exists()
    # No page needs another server.
    assert "https://fonts" not in (tmp_path / "site" / "index.html").read_text()


@pytest.mark.long
def test_dead_links_and_anchors_end_with_1_and_are_named(tmp_path: Path) -> None:
    made = _made("-c", _WITH_A_DEAD_LINK, str(tmp_path / "site"))

    assert made.returncode == 1
    assert "gone.md" in made.stderr
    assert "nowhere" in made.stderr


def test_every_page_of_the_docs_is_in_a_section_of_the_site(tmp_path: Path) -> None:
    stage(tmp_path)

    sections, lost = navigation(tmp_path)

    assert lost == []
    assert "docs/dashboard.md" in sections[0]["Start"]
