"""Placeholders of prompts: the form that the compiler checks and that a prompt is filled by."""

from __future__ import annotations

from typing import Final

from afl.core.text.patterns import lazy_pattern

#: A doubled brace, which means a literal one, or a placeholder, whose name is the group.
PLACEHOLDER: Final = lazy_pattern(r"\{\{|\}\}|\{([A-Za-z_][A-Za-z0-9_]*)\}")
