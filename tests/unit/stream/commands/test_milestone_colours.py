"""The colours of milestones: on a terminal only, and none where NO_COLOR asks for none."""

from __future__ import annotations

import io

import pytest

from afl_stream.commands.terminal import Terminal
from afl_stream.commands.watching.milestone_lines import colour_of
from afl_stream.wire.messages import Lifecycle

RED, GREEN, YELLOW = "\x1b[31m", "\x1b[32m", "\x1b[33m"


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def terminal_of_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR", "COLORTERM"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")


def written(out: io.StringIO, kind: str) -> str:
    milestone = Lifecycle(workflow_id="w1", kind=kind, at=1)
    Terminal(out, io.StringIO(), as_json=False).coloured(("08:15  ", ""), (kind, colour_of(milestone)), ("  [x]", ""))
    return out.getvalue()


@pytest.mark.parametrize(
    ("kind", "colour"),
    [
        ("workflow.error", RED),
        ("step.failed", RED),
        ("workflow.completed", GREEN),
        ("workflow.paused", YELLOW),
        ("step.retrying", YELLOW),
        ("workflow.started", ""),
    ],
)
def test_a_kind_has_the_colour_of_its_state_on_a_terminal(kind: str, colour: str) -> None:
    end = "\x1b[0m" if colour else ""

    assert written(Screen(), kind) == f"08:15  {colour}{kind}{end}  [x]\n"


def test_a_pipe_has_no_colours() -> None:
    assert written(io.StringIO(), "workflow.error") == "08:15  workflow.error  [x]\n"


def test_no_color_is_respected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")

    assert written(Screen(), "workflow.error") == "08:15  workflow.error  [x]\n"
