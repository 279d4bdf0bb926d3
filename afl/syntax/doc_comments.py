"""Read doc comments: a description, a text for each name that the tags name, and which names are sensitive."""

from __future__ import annotations

import re

from afl import ast

_TAG = re.compile(r"@(param|returns?|sensitive)\s+([A-Za-z_][A-Za-z0-9_]*)(?:\s+(.*))?$")


def read_doc(comment: str, line: int = 1, column: int = 1, source_id: str | None = None) -> ast.Doc:
    """Return the content of a doc comment, given with its marks and its place. Names in tags are not checked here."""
    described: list[str] = []
    tagged: dict[str, list[ast.DocEntry]] = {"param": [], "return": [], "sensitive": []}
    lines = comment.split("\n")
    for number, text in enumerate(lines):
        begin = 3 if number == 0 else 0
        stop = len(text) - 2 if number == len(lines) - 1 else len(text)
        kept = text[begin:stop].strip()
        if kept.startswith("*"):
            kept = kept[1:].removeprefix(" ")
        tag = _TAG.match(kept.strip())
        if tag:
            at = text.index(tag[0]) + (column if number == 0 else 1)
            place = ast.SourceLocation(line + number, at, line + number, at + len(tag[0]), source_id)
            tagged[tag[1].removesuffix("s")].append(ast.DocEntry(tag[2], (tag[3] or "").strip(), location=place))
        else:
            described.append(kept)
    end = (len(lines[-1]) + 1) if len(lines) > 1 else column + len(comment)
    return ast.Doc(
        "\n".join(described).strip(),
        tagged["param"],
        tagged["return"],
        tagged["sensitive"],
        location=ast.SourceLocation(line, column, line + len(lines) - 1, end, source_id),
    )
