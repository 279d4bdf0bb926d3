"""The settings of the lifecycle topic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from afl_stream.settings.sections import choice

#: What subscribers learn of steps that ask agents.
STEP_MILESTONES: Final = ("off", "on", "results")


@dataclass(frozen=True, slots=True, kw_only=True)
class LifecycleSettings:
    """The milestones that evaluators write for subscribers. Those of runs are always written."""

    steps: str = choice(
        "off",
        STEP_MILESTONES,
        "milestones of the steps that ask agents: `off`; `on`: started, completed and failed; or `results`, with the "
        "results of those that completed",
    )
