"""Each page about a decision has one form: a number, a status, the decision, and the option that lost."""

import re
from pathlib import Path

import pytest

_FOLDER = Path(__file__).parents[2] / "docs" / "decisions"
_PAGES = sorted(_FOLDER.glob("[0-9]*.md"))
_LINK = r"\[(\d{4})\]\(([a-z0-9-]+\.md)\)"
#: A status: the decision holds, in whole or but for what another page replaced, or another page has replaced it.
_STATUS = re.compile(rf"Status: (?:proposed|accepted(?:; [^\[\]\n]+ superseded by {_LINK})?|superseded by {_LINK})")
_ROW = re.compile(r"^\| \[(\d{4})\]\(([^)]+)\) \| (.+?) \| (.+) \|$", re.MULTILINE)


def _number(page: Path) -> str:
    return page.name[:4]


@pytest.mark.parametrize("page", _PAGES, ids=_number)
def test_a_page_has_its_number_a_status_the_decision_and_what_was_not_taken(page: Path) -> None:
    text = page.read_text()
    title, blank, status, *_ = text.splitlines()

    assert re.fullmatch(rf"# {_number(page)} \S.*[^.]", title)
    assert blank == ""
    assert _STATUS.fullmatch(status)
    assert text.count("**Decision.**") == 1
    assert text.count("**Not taken.**") == 1
    lost = text.split("**Not taken.**", 1)[1].split("\n**", 1)[0]
    assert re.search(r"\*[^*\n]+(?:\n[^*\n]+)?\*\S*?[^:]*: ?\S", lost), "an option is named in italics, and why it lost"


@pytest.mark.parametrize("page", _PAGES, ids=_number)
def test_a_superseded_page_names_one_that_is_there_and_newer(page: Path) -> None:
    for number, name in re.findall(_LINK, page.read_text().splitlines()[2]):
        assert name.startswith(number)
        assert (_FOLDER / name).is_file()
        assert number > _number(page)


def test_a_number_is_given_once() -> None:
    numbers = [_number(page) for page in _PAGES]

    assert len(numbers) == len(set(numbers))
    assert len(numbers) > 40


def test_the_index_has_every_page_in_order_with_title_and_status() -> None:
    listed = _ROW.findall((_FOLDER / "README.md").read_text())
    there = [
        (
            _number(page),
            page.name,
            page.read_text().splitlines()[0].removeprefix(f"# {_number(page)} "),
            page.read_text().splitlines()[2].removeprefix("Status: "),
        )
        for page in _PAGES
    ]

    assert listed == there
