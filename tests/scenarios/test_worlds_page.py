"""The scenario that docs/testing.md shows holds in every world."""

from __future__ import annotations

import re
from pathlib import Path

from tests.worlds.world import World
from tests.worlds.worlds import EVERYWHERE

WORLDS = EVERYWHERE

PAGE = Path(__file__).parents[2] / "docs" / "testing.md"


def test_the_scenario_of_the_page_runs_in_every_world(world: World) -> None:
    (block,) = re.findall(r"^```python\n(from tests\.worlds.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    shown: dict[str, object] = {}
    exec(compile(block, str(PAGE), "exec"), shown)
    (scenario,) = [value for name, value in shown.items() if name.startswith("test_")]

    assert callable(scenario)
    scenario(world)
