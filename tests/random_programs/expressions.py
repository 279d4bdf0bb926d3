"""The values of AFL expressions: the interpreter's arithmetic, rendering and references."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

Value: TypeAlias = "bool | int | float | str | list[Value] | dict[str, Value] | None"
#: A node of the compiled program, as JSON gives it.
Node: TypeAlias = dict[str, Any]

EVALUATION, REFERENCE = "EvaluationError", "ReferenceError"


class Undecided(Exception):
    """What the program does from here on, the language leaves to the engine."""


class Failure(Exception):
    """The run fails. `causes` are all errors that could be the first: the name of the class, and of the step.

    Where parts of a program run side by side, the first error is not determined: any of them is right. The step
    is the innermost that has a name; an empty name stands for any.
    """

    def __init__(self, causes: frozenset[tuple[str, str]], message: str) -> None:
        super().__init__(message)
        self.causes = causes

    @property
    def types(self) -> frozenset[str]:
        return frozenset(name for name, _ in self.causes)

    def at(self, step: str) -> "Failure":
        """Return the same failure, of this step where it is of none yet."""
        return Failure(frozenset((name, place or step) for name, place in self.causes), str(self))


def failure(error_type: str, message: str) -> Failure:
    """One error, of one type."""
    return Failure(frozenset({(error_type, "")}), message)


def all_of(parts: Sequence[Callable[[], Value]]) -> list[Value]:
    """Evaluate every part; when some fail, fail with everything that was wrong."""
    values: list[Value] = []
    failures: list[Failure] = []
    for part in parts:
        try:
            values.append(part())
        except Failure as error:
            failures.append(error)
    if failures:
        raise joined(failures)
    return values


def joined(failures: Sequence[Failure]) -> Failure:
    """Several failures as one."""
    causes = frozenset[tuple[str, str]]().union(*(f.causes for f in failures))
    return Failure(causes, "; ".join(str(f) for f in failures))


class Unknown:
    """An attribute of which only the engine knows whether it has a value, and which."""


UNKNOWN: Any = Unknown()


class StepView(Protocol):
    """A complete step, as others see it. It may be a value itself."""

    @property
    def is_schema(self) -> bool: ...

    def attributes(self) -> "dict[str, Value]": ...

    def member(self, name: str) -> Value:
        """Return what `reference.name` is where the step is a value: its mixin, return or param."""


class Names:
    """What references mean in one place: scopes of `$` and steps, innermost first.

    A step that failed stands for its failure: reading it fails in the same way.
    """

    def __init__(self, scopes: Sequence[Mapping[str, Value]], steps: Mapping[str, StepView | Failure]) -> None:
        self.scopes = tuple(scopes)
        self.steps = dict(steps)

    def input(self, path: Sequence[str]) -> Value:
        """`$.a.b`."""
        for scope in self.scopes:
            if path[0] in scope:
                return walk(scope[path[0]], path[1:])
        raise failure(REFERENCE, f"$.{path[0]} has no value")

    def step(self, path: Sequence[str]) -> Value:
        """`s.a.b`, or a loop variable written without its `$`; `s` alone is the step itself, or a schema's object."""
        found = self.steps.get(path[0])
        if found is None:
            return self.input(path)
        if isinstance(found, Failure):
            raise found
        if len(path) == 1:
            whole: Any = found.attributes() if found.is_schema else found
            return known(whole)
        attributes = found.attributes()
        if path[1] not in attributes:
            raise failure(REFERENCE, f"{path[0]}.{path[1]} has no value")
        return walk(attributes[path[1]], path[2:])


def known(value: Value) -> Value:
    """Return the value, unless it is not determined."""
    if value is UNKNOWN:
        raise Undecided
    return value


def walk(value: Any, path: Sequence[str]) -> Value:
    """Go down into maps and steps."""
    for part in path:
        known(value)
        if hasattr(value, "member"):
            value = value.member(part)
        elif isinstance(value, dict) and part in value:
            value = value[part]
        else:
            raise failure(REFERENCE, f"no member {part}")
    return known(value)


def evaluate(node: Node, names: Names) -> Value:
    """Return the value of an expression of the compiled program."""
    match node:
        case {"type": "String" | "Int" | "Double" | "Boolean", "value": str() | int() | float() as value}:
            return value
        case {"type": "Null"}:
            return None
        case {"type": "InputRef", "path": list(path)}:
            return names.input(path)
        case {"type": "StepRef", "path": list(path)}:
            return names.step(path)
        case {"type": "UnaryExpr", "operator": "-", "operand": operand}:
            return -number(evaluate(operand, names))
        case {"type": "UnaryExpr", "operator": "!", "operand": operand}:
            return not boolean(evaluate(operand, names))
        case {"type": "BinaryExpr", "operator": "&&", "left": left, "right": right}:
            return boolean(evaluate(left, names)) and boolean(evaluate(right, names))
        case {"type": "BinaryExpr", "operator": "||", "left": left, "right": right}:
            return boolean(evaluate(left, names)) or boolean(evaluate(right, names))
        case {"type": "BinaryExpr", "operator": str(operator), "left": left, "right": right}:
            a, b = all_of([lambda: evaluate(left, names), lambda: evaluate(right, names)])
            return binary(operator, a, b)
        case {"type": "ConcatExpr", "operands": list(operands)}:
            return "".join(render(value) for value in evaluate_each(operands, names))
        case {"type": "ArrayLiteral", "elements": list(elements)}:
            return evaluate_each(elements, names)
        case {"type": "MapLiteral", "entries": list(entries)}:
            values = evaluate_each([entry["value"] for entry in entries], names)
            return {entry["key"]: value for entry, value in zip(entries, values, strict=True)}
        case {"type": "IndexExpr", "target": target, "index": index}:
            container, key = all_of([lambda: evaluate(target, names), lambda: evaluate(index, names)])
            return element(container, key)
        case {"type": "ChainExpr", "operators": [*before, last], "operands": [*operands, right]}:
            left = {"type": "ChainExpr", "operators": before, "operands": operands}
            if last == "[]":
                return evaluate({"type": "IndexExpr", "target": left, "index": right}, names)
            return evaluate({"type": "BinaryExpr", "operator": last, "left": left, "right": right}, names)
        case {"type": "ChainExpr", "operators": [], "operands": [only]}:
            return evaluate(only, names)
    raise NotImplementedError(f"the interpreter knows no {node.get('type')} {node.get('operator', '')}")


def evaluate_each(nodes: Sequence[Node], names: Names) -> list[Value]:
    """Return the values of several expressions."""
    return all_of([lambda node=node: evaluate(node, names) for node in nodes])  # type: ignore[misc]  # node is bound per lambda


def boolean(value: Value) -> bool:
    """Return the value, if it is a Boolean."""
    if not isinstance(value, bool):
        raise failure(EVALUATION, f"{value!r} is no Boolean")
    return value


def binary(operator: str, a: Value, b: Value) -> Value:
    """Compute `a operator b`, for operators that always look at both."""
    match operator:
        case "==" | "!=":
            return equal(a, b) == (operator == "==")
        case "<" | "<=" | ">" | ">=":
            return ordered(operator, a, b)
        case "in" | "not in":
            return has(b, a) == (operator == "in")
        case "contains":
            return has(a, b)
        case "startsWith" | "endsWith":
            if not (isinstance(a, str) and isinstance(b, str)):
                raise failure(EVALUATION, f"{a!r} {operator} {b!r}")
            part = a[: len(b)] if operator == "startsWith" else a[max(len(a) - len(b), 0) :]
            return part == b
    return arithmetic(operator, number(a), number(b))


def equal(a: Value, b: Value) -> bool:
    """Whether two values are the same: JSON texts tell kinds apart, except that numbers count by their worth."""
    return canonical(a) == canonical(b)


def canonical(value: Value) -> str:
    """Return a text that equal values share and others do not."""

    def leveled(part: Value) -> Value:
        if isinstance(part, list):
            return [leveled(each) for each in part]
        if isinstance(part, dict):
            return {key: leveled(each) for key, each in part.items()}
        return int(part) if isinstance(part, float) and part.is_integer() else part

    return json.dumps(leveled(value), sort_keys=True)


def ordered(operator: str, a: Value, b: Value) -> bool:
    """Compute `a operator b` for two numbers, or two strings by their characters' numbers."""
    if isinstance(a, str) and isinstance(b, str):
        x, y = [ord(c) for c in a], [ord(c) for c in b]
        below, same = x < y, x == y
    else:
        below, same = number(a) < number(b), number(a) == number(b)
    return {"<": below, "<=": below or same, ">": not (below or same), ">=": not below}[operator]


def has(container: Value, sought: Value) -> bool:
    """Whether an array has an element, a map a key, or a string a part."""
    if isinstance(container, list):
        return any(equal(each, sought) for each in container)
    if isinstance(container, dict):
        return isinstance(sought, str) and sought in container
    if isinstance(container, str) and isinstance(sought, str):
        return any(container[n:].find(sought) == 0 for n in range(len(container) + 1))
    raise failure(EVALUATION, f"{sought!r} in {container!r}")


def number(value: Value) -> int | float:
    """Return the value, if it is a number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise failure(EVALUATION, f"{value!r} is no number")
    return value


def arithmetic(operator: str, a: int | float, b: int | float) -> int | float:
    """Compute `a operator b`: `/` always gives a Double, `%` has the sign of the divisor."""
    if operator in "/%" and b == 0:
        raise failure(EVALUATION, "division by zero")
    match operator:
        case "+":
            return a + b
        case "-":
            return a - b
        case "*":
            return a * b
        case "/":
            return a / b
        case "%":
            return a % b
    raise NotImplementedError(f"the interpreter knows no operator {operator}")


def element(container: Value, key: Value) -> Value:
    """`container[key]`; negative positions count from the end."""
    if isinstance(container, list | str) and isinstance(key, int) and not isinstance(key, bool):
        if -len(container) <= key < len(container):
            return container[key]
    elif isinstance(container, dict) and isinstance(key, str) and key in container:
        return container[key]
    raise failure(EVALUATION, f"no element {key!r}")


def render(value: Value) -> str:
    """How `++` writes a value: strings as they are, null as nothing, everything else as compact JSON."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
