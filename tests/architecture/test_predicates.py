"""A question has no effect: what is named like one, or is a property that says yes or no, changes nothing."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

_ROOT = Path(__file__).parents[2]
_PACKAGES = ("afl/engine", "afl/stores", "afl/evaluation")

_QUESTION = re.compile(r"_*(is|are|was|has|have|had|can|may|must|should|needs|takes|does|all_have|any_has)(_|$)")
_CHANGES = frozenset(
    {
        *("add", "append", "appendleft", "clear", "discard", "extend", "insert", "move_to_end", "pop", "popitem"),
        *("popleft", "put", "remove", "reverse", "set", "setdefault", "sort", "touch", "update", "wake"),
    }
)


Function = ast.FunctionDef | ast.AsyncFunctionDef


def _says_yes_or_no(function: Function) -> bool:
    if not (isinstance(function.returns, ast.Name) and function.returns.id == "bool"):
        return False
    names = {each.id for each in function.decorator_list if isinstance(each, ast.Name)}
    return "property" in names or _QUESTION.match(function.name) is not None


def _effects(function: Function) -> Iterator[str]:
    """Return what a function sets or changes besides variables of its own."""
    own = {node.id for node in ast.walk(function) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    for node in ast.walk(function):
        if isinstance(node, ast.Attribute | ast.Subscript) and not isinstance(node.ctx, ast.Load):
            if not (isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and node.value.id in own):
                yield ast.unparse(node)
        elif isinstance(node, ast.Global | ast.Nonlocal):
            yield ast.unparse(node)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _CHANGES:
            receiver = node.func.value
            if not (isinstance(receiver, ast.Name) and receiver.id in own):
                yield ast.unparse(node.func)


def _found(text: str) -> Iterator[tuple[Function, list[str]]]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, Function) and _says_yes_or_no(node) and (effects := list(_effects(node))):
            yield node, effects


def test_a_question_changes_nothing() -> None:
    found = [
        f"{path.relative_to(_ROOT)}:{function.lineno} {function.name}: {', '.join(effects)}"
        for package in _PACKAGES
        for path in sorted((_ROOT / package).rglob("*.py"))
        for function, effects in _found(path.read_text())
    ]

    assert found == []


def test_an_effect_of_a_question_is_found() -> None:
    texts = {
        "def may_go(self) -> bool:\n    self.asked = True\n    return True": ["self.asked"],
        "def is_known(self, key: str) -> bool:\n    return self.keys.pop(key, None) is not None": ["self.keys.pop"],
        "def has_room(counts) -> bool:\n    counts['asked'] += 1\n    return True": ["counts['asked']"],
        "@property\ndef open(self) -> bool:\n    self.asked += 1\n    return True": ["self.asked"],
        "def is_odd(n) -> bool:\n    seen = []\n    seen.append(n)\n    return bool(n % 2)": [],
        "def take(self) -> bool:\n    self.taken = True\n    return True": [],
    }

    found = {text: [effect for _, effects in _found(text) for effect in effects] for text in texts}

    assert found == texts
