"""Check the Python code of scripts.

The modules that read Python are imported only when there is a script: other programs must be checked quickly.
"""

from __future__ import annotations

from afl.ast import ScriptBlock, SourceLocation
from afl.core.text.patterns import lazy_pattern
from afl.validation.findings import Findings, name_place

_WORD = lazy_pattern(r"\w+")


def check_script(script: ScriptBlock, findings: Findings) -> tuple[frozenset[str], bool]:
    """Report what is wrong with a script.

    Returns the names that it sets by `result["name"] = ...`, and whether it may set others as well.
    """
    if script.language != "python":
        findings.report("SCRIPT_UNSUPPORTED_LANGUAGE", name_place(script.location, "script"), language=script.language)
        return frozenset(), True
    if not script.code.strip():
        findings.report("SCRIPT_EMPTY", name_place(script.location, "script"))
        # The missing code might have set a name.
        return frozenset(), True
    from afl.scripts.check import ProblemKind
    from afl.scripts.check import check_script as read

    found = read(script.code)
    for problem in found.problems:
        if problem.kind is ProblemKind.SYNTAX:
            rule = "SCRIPT_SYNTAX"
        else:
            rule = "SCRIPT_NOT_ALLOWED" if problem.refuses else "SCRIPT_UNKNOWN_BUILTIN"
        findings.report(rule, _place(script, problem.line, problem.column), problem=problem.message)
    return found.assigned, found.result_is_open


def _place(script: ScriptBlock, line: int, column: int) -> SourceLocation | None:
    """Return the place in the source of a line and column of the code.

    Escapes in a quoted script move the text behind them; a place that lands outside becomes that of the whole script.
    """
    block = script.location
    if block is None or not script.code_line:
        return block
    lines = script.code.split("\n")
    text = lines[line - 1] if line <= len(lines) else ""
    word = _WORD.match(text, column - 1)
    length = len(word.group()) if word else 1
    at_line = script.code_line + line - 1
    at_column = (script.code_column if line == 1 else script.indent + 1) + column - 1
    if (at_line, at_column) >= (block.end_line or block.line, block.end_column or block.column):
        return name_place(block, "script")
    return block._replace(line=at_line, column=at_column, end_line=at_line, end_column=at_column + length)
