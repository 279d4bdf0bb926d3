"""Spoils programs: texts and compiled trees that are almost right."""

import copy
from random import Random
from typing import Any

_TEXTS = [
    '"', "\\", "{", "}", "(", ")", "[", "]", "#{", "/*", "*/", "//", "/**", "$", "$.", ".", ",", ";", ":",
    "=", "=>", "++", "-", "!",
    "\n", "\r", "\x00", "\ufeff", "\u2028", "é", "🎈", "_", "0", "9" * 5000, "1.0e999", "1e5", "'''", '"""', "#",
    "\\u12", "\\xZ",
    " andThen ", " script ", " script {", " catch ", " when ", " case _ => ", " yield ", " foreach ", " in ", " not ",
    " sys.log(",
    " namespace ", " use ", " implicit ", " prompt {", " with ", " as ", " schema ", " event facet ", " null ",
    "(" * 300, "[" * 300,
    "-" * 300, "!" * 300, "{" * 50, "a." * 300,
]  # fmt: skip
_BYTES = (b"\xff", b"\xc3", b"\xed\xa0\x80", b"\x00", b"\xef\xbb\xbf", b"\x80")
#: Keys that make another thing of a node.
_KEYS = ("type", "name", "when", "script", "foreach", "catch", "default", "mixins", "path")
_VALUES: list[Any] = [None, True, 0, -1, 1.5, "", "x", "a.b", [], {}, [None], [[]], {"type": "Int"}, 10**30]


def mutated_bytes(text: str, random: Random) -> bytes:
    """Return a text after some accidents, perhaps no UTF-8 any more."""
    for _ in range(random.choice([1, 1, 2, 5])):
        text = _mutated(text, random)
    content = text.encode("utf-8", "replace")
    for _ in range(random.choice([0, 0, 0, 1, 3])):
        at = random.randrange(len(content) + 1)
        match random.randrange(3):
            case 0:
                content = content[:at] + random.choice(_BYTES) + content[at:]
            case 1:
                content = content[:at] + content[at + 1 :]
            case 2:
                content = content[:at] + bytes([random.randrange(256)]) + content[at + 1 :]
    return content


def _mutated(text: str, random: Random) -> str:
    at, other = random.randrange(len(text) + 1), random.randrange(len(text) + 1)
    start, end = min(at, other), max(at, other)
    length = random.choice([1, 2, 5, 30])
    match random.randrange(8):
        case 0:
            return text[:at] + random.choice(_TEXTS) + text[at:]
        case 1:
            return text[:at] + random.choice(_TEXTS) + text[at + length :]
        case 2:
            return text[:at] + text[at + length :]
        case 3:
            return text[:at] + text[at : at + length] * 2 + text[at + length :]
        case 4:
            return text[:at] + text[other : other + length] + text[at:]
        case 5:
            return text[:at]
        case 6:
            return text[:start] + text[end:]
    return text[:at] + chr(random.randrange(random.choice([32, 128, 0xD7FF]))) + text[at:]


def mutated_tree(tree: dict[str, Any], random: Random) -> Any:
    """Return a compiled program in which some nodes are gone, changed, or in the place of others."""
    spoilt: Any = copy.deepcopy(tree)
    for _ in range(random.choice([1, 1, 2, 4])):
        places = [(holder, key) for holder in _holders(spoilt) for key in _keys(holder)]
        if not places:
            return spoilt
        holder, key = random.choice(places)
        match random.randrange(6):
            case 0:
                del holder[key]
            case 1:
                holder[key] = copy.deepcopy(random.choice(_VALUES))
            case 2 | 3:
                giver, taken = random.choice(places)
                if taken in _keys(giver):
                    holder[key] = copy.deepcopy(giver[taken])
            case 4:
                holder[key] = [holder[key], copy.deepcopy(holder[key])]
            case 5 if isinstance(holder, dict):
                holder[random.choice(_KEYS)] = holder.pop(key)
    return spoilt


def deepened(tree: dict[str, Any], random: Random) -> Any:
    """Return a compiled program with an expression far deeper than any compiler lets through."""
    spoilt = copy.deepcopy(tree)
    arguments = [h for h in _holders(spoilt) if isinstance(h, dict) and "value" in h and "name" in h]
    deep: Any = {"type": "Int", "value": 1}
    for _ in range(random.choice([500, 5_000])):
        deep = {"type": "UnaryExpr", "operator": "-", "operand": deep}
    if arguments:
        random.choice(arguments)["value"] = deep
    return spoilt


def _holders(tree: Any) -> list[Any]:
    """All dicts and lists of a tree."""
    found, waiting = [], [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict | list):
            found.append(node)
            waiting += node.values() if isinstance(node, dict) else node
    return found


def _keys(holder: Any) -> list[Any]:
    return list(holder) if isinstance(holder, dict) else list(range(len(holder)))
