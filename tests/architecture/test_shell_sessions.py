"""A page that is typed: what it exports and starts stays to its end, and what it says otherwise than it is fails."""

import os
from pathlib import Path

import pytest

from tests.architecture.shell_sessions import type_page


def page(*commands: str, shown: str = "") -> str:
    shell = "".join(f"{command}\n" for command in commands)
    return f"```sh\n{shell}```\n" + (f"\n```text\n{shown}\n```\n" if shown else "")


def typed(text: str, folder: Path) -> None:
    type_page(text, folder, environment={"SAID": "before"}, in_place_of={}, timeout_s=60)


def test_what_is_exported_stays_and_what_is_printed_is_found_whatever_varies(tmp_path: Path) -> None:
    typed(page("export SAID=after", "echo $SAID in 3.7 s", shown="after in 0.1 s"), tmp_path)


def test_what_is_left_in_the_background_is_ended_with_the_page(tmp_path: Path) -> None:
    typed(page("sleep 1000 &", "echo $! > pid"), tmp_path)

    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


@pytest.mark.parametrize(
    "text",
    [
        page("false"),
        page("true # exits with 3"),
        page("no-such-command"),
        page("echo one", shown="two"),
        page("exit 0", "echo never typed"),
    ],
)
def test_a_page_that_is_wrong_fails(text: str, tmp_path: Path) -> None:
    with pytest.raises(AssertionError):
        typed(text, tmp_path)


def test_an_expected_exit_code_and_a_command_that_is_not_typed_are_as_the_page_says(tmp_path: Path) -> None:
    typed(page("(exit 3) # exits with 3", "touch made # takes minutes"), tmp_path)

    assert not (tmp_path / "made").exists()
