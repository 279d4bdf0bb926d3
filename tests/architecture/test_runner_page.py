"""The page about runners holds: its settings are the code's."""

import dataclasses
import re
import socket
from pathlib import Path

from afl.workers.service.settings import RunnerConfig

_PAGE = (Path(__file__).parents[2] / "docs" / "runners.md").read_text()
_ROW = re.compile(r"^\| (`\w+`(?:, `\w+`)*) \| (.+?) \|", re.MULTILINE)
#: Defaults that stand in words.
_IN_WORDS = {"all": [], "the host's name": socket.gethostname()}


def test_every_setting_of_a_runner_stands_there_with_its_default() -> None:
    reported: dict[str, object] = {}
    for names, defaults in _ROW.findall(_PAGE.partition("## Settings")[2]):
        values = re.findall(r"`([^`]+)`", defaults) or [defaults]
        reported |= dict(zip(re.findall(r"\w+", names), values, strict=True))

    config = RunnerConfig()
    own = {setting.name: getattr(config, setting.name) for setting in dataclasses.fields(config)}
    assert {name: _IN_WORDS.get(str(value), value) for name, value in reported.items()} == {
        name: str(value) if isinstance(value, int) else value for name, value in own.items()
    }
