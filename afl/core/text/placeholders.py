"""Placeholders of prompts: the form that the compiler checks and that a prompt is filled by."""

from __future__ import annotations

import re
from typing import Final

#: A doubled brace, which means a literal one, or a placeholder, whose name is the group.
PLACEHOLDER: Final = re.compile(r"\{\{|\}\}|\{([A-Za-z_][A-Za-z0-9_]*)\}")
