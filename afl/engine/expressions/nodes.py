"""The nodes of compiled expressions: their types, their parts, and their source text."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, Literal

from afl.compiled.chains import hung
from afl.engine.errors import EvaluationError

#: A node of the compiled JSON.
Node = Mapping[str, object]
#: The starting point of a reference, and its path.
Reference = tuple[Literal["input", "step"], tuple[str, ...]]

#: The length at which expressions in messages are cut: a literal may be megabytes long.
_TEXT_LIMIT: Final = 300

#: The precedence of the operators; atoms bind strongest.
_PRECEDENCE: Final[Mapping[str, int]] = {
    "||": 1,
    "&&": 2,
    **dict.fromkeys(("==", "!=", "<", "<=", ">", ">=", "in", "not in", "contains", "startsWith", "endsWith"), 3),
    "++": 4,
    "+": 5,
    "-": 5,
    "*": 6,
    "/": 6,
    "%": 6,
}
#: A name for this type: `list | tuple` in a check would make a new type each time.
_LISTS: Final = (list, tuple)
_COMPARISON: Final = 3
_CONCAT: Final = 4
_UNARY: Final = 7
_INDEX: Final = 8
_ATOM: Final = 9


def kind_of(node: Node) -> str:
    """Return a node's type. Raises EvaluationError for a missing type, and for one that expressions do not have."""
    kind = node.get("type")
    if isinstance(kind, str) and kind in CHILDREN:
        return kind
    found = "without a type" if kind is None else f"of unknown type {kind}"
    raise EvaluationError(_cut(json.dumps(node, ensure_ascii=False, default=repr)), f"expression node {found}")


def part(node: Node, key: str) -> object:
    """Return a required part of a node. Raises EvaluationError when it is missing."""
    try:
        return node[key]
    except KeyError:
        raise EvaluationError(str(node.get("type")), f"expression node without its {key!r}") from None


def parts(node: Node, key: str) -> Sequence[object]:
    """Return the list that a node holds under a key, empty if left out. Raises EvaluationError for anything else."""
    found = node.get(key)
    if isinstance(found, _LISTS):
        return found
    if found is None:
        return ()
    raise EvaluationError(str(node.get("type")), f"expression node whose {key!r} is not a list")


def path_of(node: Node) -> tuple[str, ...]:
    """Return the path of a reference."""
    return tuple(map(str, parts(node, "path")))


def entries_of(node: Node) -> list[tuple[str, object]]:
    """Return the keys and value nodes of a map literal, in source order."""
    entries = []
    for entry in parts(node, "entries"):
        if not isinstance(entry, Mapping):
            raise EvaluationError("MapLiteral", "map entry that is not an object with key and value")
        entries.append((str(part(entry, "key")), part(entry, "value")))
    return entries


def _no_children(_: Node) -> Sequence[object]:
    return ()


#: The operand nodes of each node type, in source order. Every expression node has a row: compiling an expression and
#: finding its references both use this table, so that neither can miss a node that the other knows.
CHILDREN: Final[Mapping[str, Callable[[Node], Sequence[object]]]] = {
    "String": _no_children,
    "Int": _no_children,
    "Double": _no_children,
    "Boolean": _no_children,
    "Null": _no_children,
    "InputRef": _no_children,
    "StepRef": _no_children,
    "BinaryExpr": lambda node: (part(node, "left"), part(node, "right")),
    "UnaryExpr": lambda node: (part(node, "operand"),),
    "ConcatExpr": lambda node: parts(node, "operands"),
    "ArrayLiteral": lambda node: parts(node, "elements"),
    "MapLiteral": lambda node: [value for _, value in entries_of(node)],
    "IndexExpr": lambda node: (part(node, "target"), part(node, "index")),
    "ChainExpr": lambda node: parts(node, "operands"),
}

#: The binary operators, which nest to the left in chains of any length.
LINKS: Final = frozenset({"BinaryExpr", "IndexExpr", "ChainExpr"})


def links_of(node: object) -> tuple[object, list[Node]]:
    """Return the first operand of an expression, and its links from left to right.

    There are no links if the expression is not a binary operator. A flat chain gives the nodes that it stands for.
    """
    links: list[Node] = []
    while isinstance(node, Mapping) and (kind := node.get("type")) in LINKS:
        if kind == "ChainExpr":
            node = _hung(node)
        else:
            links.append(node)
            node = part(node, "left" if kind == "BinaryExpr" else "target")
    links.reverse()
    return node, links


def _hung(node: Node) -> object:
    try:
        return hung([str(operator) for operator in parts(node, "operators")], parts(node, "operands"))
    except ValueError as error:
        raise EvaluationError("ChainExpr", str(error)) from None


def references_in(node: object) -> Iterator[Reference]:
    """Yield every reference in an expression, in source order: ("input", path) for `$.path`, ("step", path) for others.

    Literal values in the place of nodes, bare lists included, are walked like the nodes they stand for. Raises
    EvaluationError for a node of a type that expressions do not have.
    """
    # An own stack instead of recursion: a chain of operators may be longer than Python's stack is deep.
    pending: list[object] = [node]
    while pending:
        current = pending.pop()
        if isinstance(current, Mapping):
            kind = kind_of(current)
            if kind == "InputRef":
                yield "input", path_of(current)
            elif kind == "StepRef":
                yield "step", path_of(current)
            else:
                pending.extend(reversed(CHILDREN[kind](current)))
        elif isinstance(current, list | tuple):
            pending.extend(reversed(current))


def expression_text(node: object) -> str:
    """Return an expression as AFL source, shortened if it is long. For messages: it never raises."""
    try:
        return _cut(_source(node)[0])
    except (EvaluationError, RecursionError):
        kind = node.get("type") if isinstance(node, Mapping) else None
        return str(kind or "expression")


def _cut(text: str) -> str:
    return text if len(text) <= _TEXT_LIMIT else f"{text[:_TEXT_LIMIT]}..."


def _source(node: object) -> tuple[str, int]:
    """Return a node's source and the precedence of its outermost operator."""
    if isinstance(node, list | tuple):
        return _listed(node), _ATOM
    if not isinstance(node, Mapping):
        return _literal(node)
    kind = kind_of(node)
    match kind:
        case "InputRef":
            return ".".join(("$", *path_of(node))), _ATOM
        case "StepRef":
            return ".".join(path_of(node)), _ATOM
        case "BinaryExpr" | "IndexExpr" | "ChainExpr":
            return _chain(node)
        case "UnaryExpr":
            return f"{node.get('operator')}{_within(part(node, 'operand'), _UNARY)}", _UNARY
        case "ConcatExpr":
            return " ++ ".join(_within(each, _CONCAT + 1) for each in parts(node, "operands")), _CONCAT
        case "ArrayLiteral":
            return _listed(parts(node, "elements")), _ATOM
        case "MapLiteral":
            entries = (f"{json.dumps(key, ensure_ascii=False)}: {_source(value)[0]}" for key, value in entries_of(node))
            return f"#{{{', '.join(entries)}}}", _ATOM
        case _:
            return _literal(node.get("value"))


def _chain(node: Node) -> tuple[str, int]:
    first, links = links_of(node)
    text, own = _source(first)
    opening, pieces = 0, [text]
    for link in links:
        symbol = None if link["type"] == "IndexExpr" else str(link.get("operator"))
        strength = _INDEX if symbol is None else _PRECEDENCE.get(symbol, _COMPARISON)
        # Comparisons do not chain, so a comparison on their left needs parentheses too.
        if own < (strength + 1 if strength == _COMPARISON else strength):
            opening += 1
            pieces.append(")")
        if symbol is None:
            pieces.append(f"[{_source(part(link, 'index'))[0]}]")
        else:
            pieces.append(f" {symbol} {_within(part(link, 'right'), strength + 1)}")
        own = strength
    return "(" * opening + "".join(pieces), own


def _within(node: object, strength: int) -> str:
    text, own = _source(node)
    return text if own >= strength else f"({text})"


def _listed(elements: Sequence[object]) -> str:
    return f"[{', '.join(_source(element)[0] for element in elements)}]"


def _literal(value: object) -> tuple[str, int]:
    text = json.dumps(value, ensure_ascii=False, default=repr)
    return text, _UNARY if text.startswith("-") else _ATOM
