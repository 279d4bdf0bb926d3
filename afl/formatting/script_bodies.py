"""Moves a script in braces to another place of the page without changing its code."""

from __future__ import annotations

from afl.grammar.script_bodies import script_code


def moved_body(body: str, outer: str, inner: str) -> str:
    """Return the body with its lines behind the margin `inner` and its brace behind `outer`.

    A body stays as it is where that would change the code, as a line of its own does to blanks beside a brace.
    """
    code = script_code(body)
    if "\n" not in body or not code:
        return f"{{ {code} }}" if code else "{ }"
    lines = "\n".join(inner + line if line else "" for line in code.split("\n"))
    moved = f"{{\n{lines}\n{outer}}}"
    return moved if script_code(moved) == code else body
