"""Write findings as SARIF 2.1.0, which CI systems read and show beside the code."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from afl.diagnostics import Diagnostic, display_name

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def sarif_log(diagnostics: Sequence[Diagnostic], tool_version: str) -> dict[str, Any]:
    """Return a log of one run. Columns count characters, which the log declares."""
    codes = sorted({diagnostic.code for diagnostic in diagnostics})
    driver = {"name": "afl", "version": tool_version, "rules": [{"id": code} for code in codes]}
    results = [_result(diagnostic, codes.index(diagnostic.code)) for diagnostic in diagnostics]
    run = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _result(diagnostic: Diagnostic, rule_index: int) -> dict[str, Any]:
    message = diagnostic.message + (f" ({diagnostic.hint})" if diagnostic.hint else "")
    place: dict[str, Any] = {
        # A relative reference must not look like one with a scheme, and must not hold blanks.
        "artifactLocation": {"uri": quote(display_name(diagnostic.source_id).replace("\\", "/"))}
    }
    region = {
        "startLine": diagnostic.line,
        "startColumn": diagnostic.column,
        "endLine": diagnostic.end_line,
        "endColumn": diagnostic.end_column,
    }
    known = {name: value for name, value in region.items() if value is not None}
    if "startLine" in known:
        place["region"] = known
    return {
        "ruleId": diagnostic.code,
        "ruleIndex": rule_index,
        "level": diagnostic.severity.value,
        "message": {"text": message},
        "locations": [{"physicalLocation": place}],
    }
