"""The lists of commands that `--help` shows: what a command does stands there in full, on one line of a terminal."""

from __future__ import annotations

import pytest

from afl_stream.cli import main


@pytest.mark.parametrize("group", [[], ["schedule"], ["topics"], ["handlers"], ["store"]], ids=" ".join)
def test_what_a_command_does_fits_on_its_line(
    group: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")

    assert main([*group, "--help"]) == 0

    listed = capsys.readouterr().out.partition("Commands:\n")[2].splitlines()
    assert listed
    assert [line for line in listed if line.endswith("...") or not line.endswith(".")] == []
