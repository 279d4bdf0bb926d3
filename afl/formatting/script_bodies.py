"""The code of a script in braces, free of the indentation that its place in the file gave it."""

from __future__ import annotations


def script_code(body: str) -> str:
    """Return the Python code of a body, braces included in what is given."""
    lines = [line.removesuffix("\r") for line in body[1:-1].split("\n")]
    if len(lines) == 1:
        return lines[0].strip()
    first, rest = lines[0], lines[1:]
    if rest and not rest[-1].strip():
        rest.pop()
    margin = shared_margin(rest)
    return "\n".join([*([first.lstrip()] if first.strip() else []), *(line[len(margin) :] for line in rest)])


def moved_body(body: str, outer: str, inner: str) -> str:
    """Return the body with its lines behind the margin `inner` and its brace behind `outer`.

    A body stays as it is where a move could change the code: code beside a brace, or lines of nothing but blanks,
    which may be part of a string.
    """
    first, *lines = body[1:-1].split("\n")
    if not lines:
        return f"{{ {first.strip()} }}" if first.strip() else "{ }"
    last = lines.pop()
    code = [line.removesuffix("\r") for line in lines]
    if first.strip() or last.strip() or any(line and not line.strip() for line in code) or not any(code):
        return body
    margin = shared_margin(code)
    return "\n".join(["{", *(inner + line[len(margin) :] if line else "" for line in code), outer + "}"])


def shared_margin(lines: list[str]) -> str:
    """Return the white space that all lines with more than that begin with."""
    margins = [line[: len(line) - len(line.lstrip())] for line in lines if line.strip()]
    shared = min(margins, key=len, default="")
    while not all(margin.startswith(shared) for margin in margins):
        shared = shared[:-1]
    return shared
