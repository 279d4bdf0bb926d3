"""Write compiled expressions as a program spells them, for titles."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from afl.compiled.chains import hung

#: The longest piece of an expression in a title, in characters.
LONGEST = 36

#: The precedence of operators, as in the grammar; a looser one gets parentheses.
_TIGHTNESS = {"||": 1, "&&": 2, "++": 4, "+": 5, "-": 5, "*": 6, "/": 6, "%": 6}
_RELATION, _UNARY, _ATOM = 3, 7, 8
#: Binary operators.
_LINKS = ("BinaryExpr", "IndexExpr", "ChainExpr")


def short(text: str) -> str:
    """Return the text, cut when it is long."""
    return text if len(text) <= LONGEST else text[: LONGEST - 1].rstrip() + "…"


def expression(node: Mapping[str, Any]) -> str:
    """Return the text of an expression."""
    return _write(node)[0]


def _write(node: Mapping[str, Any]) -> tuple[str, int]:
    """Return the text of an expression, and the precedence of its outermost operator."""
    kind = node["type"]
    if kind == "InputRef":
        return "$." + ".".join(node["path"]), _ATOM
    if kind == "StepRef":
        return ".".join(node["path"]), _ATOM
    if kind in _LINKS:
        return _chain(node)
    if kind == "ConcatExpr":
        return " ++ ".join(_inside(operand, 5) for operand in node["operands"]), 4
    if kind == "UnaryExpr":
        return node["operator"] + _inside(node["operand"], _UNARY), _UNARY
    if kind == "ArrayLiteral":
        return f"[{', '.join(expression(item) for item in node['elements'])}]", _ATOM
    if kind == "MapLiteral":
        pairs = (f"{_quoted(item['key'])}: {expression(item['value'])}" for item in node["entries"])
        return f"#{{{', '.join(pairs)}}}", _ATOM
    return _quoted(node.get("value")), _ATOM


def _chain(node: Mapping[str, Any]) -> tuple[str, int]:
    """Return the text of left-nested operators, in a loop: a chain may have any length."""
    links: list[Mapping[str, Any]] = []
    while (kind := node["type"]) in _LINKS:
        if kind == "ChainExpr":
            node = hung(node["operators"], node["operands"])
        else:
            links.append(node)
            node = node["left" if kind == "BinaryExpr" else "target"]
    text, own = _write(node)
    opening, pieces = 0, [text]
    for link in reversed(links):
        is_binary = link["type"] == "BinaryExpr"
        tightness = _TIGHTNESS.get(link["operator"], _RELATION) if is_binary else _ATOM
        if own < tightness:
            opening += 1
            pieces.append(")")
        if is_binary:
            pieces.append(f" {link['operator']} {_inside(link['right'], tightness + 1)}")
        else:
            pieces.append(f"[{expression(link['index'])}]")
        own = tightness
    return "(" * opening + "".join(pieces), own


def _inside(node: Mapping[str, Any], tightness: int) -> str:
    text, own = _write(node)
    return text if own >= tightness else f"({text})"


def _quoted(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
