"""Characters that make a text look different from how it is read: in code, comments and strings."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

from afl.ast import SourceLocation
from afl.core.text.line_ends import with_line_feeds
from afl.diagnostics import Diagnostic
from afl.validation.findings import Findings

#: Unicode's Bidi_Control characters: marks, embeddings and overrides, isolates.
_BIDI_CONTROLS: Final = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
#: The most findings for one text. More of them would not help to understand it.
_MOST: Final = 50


def check_characters(text: str, source_id: str | None) -> list[Diagnostic]:
    """Return a warning for each bidirectional control of a text, in its order."""
    if text.isascii():
        return []
    findings = Findings()
    lines = with_line_feeds(text)
    line, line_start = 1, 0
    for match in _BIDI_CONTROLS.finditer(text):
        if len(findings.diagnostics) == _MOST:
            break
        at = match.start()
        line += lines.count("\n", line_start, at)
        line_start = max(line_start, lines.rfind("\n", line_start, at) + 1)
        column = at - line_start + 1
        place = SourceLocation(line, column, line, column + 1, source_id)
        character = match[0]
        findings.report(
            "BIDI_CONTROL", place, code=f"U+{ord(character):04X}", name=unicodedata.name(character, "unnamed")
        )
    return findings.diagnostics
