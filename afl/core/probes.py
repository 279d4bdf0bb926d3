"""Probes: what a crash-sensitive part calls between its numbered steps, so that a test can end it there."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

#: Takes the name of the step that was just taken. What it raises leaves the part as a crash would.
Probe: TypeAlias = Callable[[str], None]


def no_probe(step: str) -> None:
    """Let every step pass: the probe outside of tests."""
