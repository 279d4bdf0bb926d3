"""Compile expressions into closures over a frame, with fast paths for the most common cases."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Generic, NamedTuple, NoReturn, Protocol, TypeVar, cast

from afl.core.values import Refused, check_json
from afl.engine.errors import EvaluationError, ValueTooDeep, ValueTooLarge
from afl.engine.expressions.nodes import Node, entries_of, expression_text, kind_of, links_of, part, parts, path_of
from afl.engine.limits import MAX_EXPRESSION_DEPTH, MAX_INTEGER_BITS, MAX_VALUE_DEPTH
from afl.engine.types import Value
from afl.engine.values.operators import (
    BARE_ARITHMETIC,
    BARE_EQUALITY,
    BARE_ORDERING,
    BINARY_OPERATORS,
    UNARY_OPERATORS,
    Operation,
    OperationError,
    condition,
    indexed,
    rendered,
)
from afl.engine.values.rendering import type_name
from afl.engine.values.sizes import TooDeep, bytes_of, counting

F = TypeVar("F")

#: Integers that cannot be too long; for larger ones the operator itself checks.
_FAST, _LEAST_FAST = 1 << 64, -(1 << 64)
F_contra = TypeVar("F_contra", contravariant=True)

_SCALARS: Final[frozenset[type]] = frozenset({bool, int, float, str, type(None)})
_ORDERED: Final[frozenset[type]] = frozenset({int, float, str})


class References(Protocol[F_contra]):
    """Compiler of references; it decides what a frame is and how values are found in it.

    Both methods are called while an expression is compiled and return a function that reads the reference's value from
    a frame. That function raises `ReferenceError` when the reference cannot be resolved.
    """

    def input_reference(self, path: tuple[str, ...]) -> Callable[[F_contra], Value]:
        """Compile `$.a.b`, path ("a", "b")."""

    def step_reference(self, path: tuple[str, ...]) -> Callable[[F_contra], Value]:
        """Compile `s.a.b`, path ("s", "a", "b"); a bare step or loop variable has a path of one."""


def compile_expression(node: object, references: References[F]) -> Callable[[F], Value]:
    """Compile an expression node into a function of a frame.

    Literal values may stand in the place of nodes, and a bare list for an array literal. Calling the result raises
    `EvaluationError` or `ReferenceError`. Compiling raises `EvaluationError` for nodes that expressions do not have and
    for nesting deeper than `MAX_EXPRESSION_DEPTH`.
    """
    run, is_constant, value = _Compiler(references).compile(node)
    if _gives_number(node):
        run.gives_number = True  # type: ignore[attr-defined]  # functions take attributes, and this one is our own
    if is_constant and type(value) is not int:
        run.gives_exact_double = True  # type: ignore[attr-defined]  # as above
    return run


def gives_number(expression: Callable[..., Value]) -> bool:
    """Say whether a compiled expression only gives numbers, Booleans or null: values whose size cannot grow."""
    return getattr(expression, "gives_number", False)


def gives_exact_double(expression: Callable[..., Value]) -> bool:
    """Say whether a compiled expression is a constant that is not an integer, so that a Double can always hold it."""
    return getattr(expression, "gives_exact_double", False)


def compile_default(node: object, references: References[F]) -> Callable[[F], Value]:
    """Compile a parameter's default, which, unlike other expressions, may also be a bare map of plain values."""
    if isinstance(node, Mapping) and "type" not in node:
        node = {"type": "MapLiteral", "entries": [{"key": key, "value": value} for key, value in node.items()]}
    return compile_expression(node, references)


class _Code(NamedTuple, Generic[F]):
    """A compiled expression; with `constant` it is a scalar that no frame can change, and `value` is that scalar."""

    run: Callable[[F], Value]
    constant: bool = False
    value: Value = None


def _constant(value: Value) -> _Code[Any]:
    return _Code(lambda _: value, constant=True, value=value)


def _fail(node: object, error: OperationError) -> NoReturn:
    raise EvaluationError(expression_text(node), str(error)) from None


def _checked(node: Node, operation: Operation) -> Operation:
    """Return the operation with its errors naming the expression, whose text is made only then."""

    def apply(left: Value, right: Value) -> Value:
        try:
            return operation(left, right)
        except OperationError as error:
            _fail(node, error)

    return apply


class _Compiler(Generic[F]):
    """Compiler of one expression, bottom up, folding constants."""

    def __init__(self, references: References[F]) -> None:
        self._references = references
        #: The depth of the node that is being compiled, and the call depth of its evaluation: each link of a chain is
        #: one call.
        self._depth = self._calls = 0

    def compile(self, node: object) -> _Code[F]:
        """Compile a node, a literal value or a bare list."""
        if type(node) is dict:
            pass  # Nearly always true: checking for any other mapping costs as much as the rest of this.
        elif isinstance(node, list | tuple):
            return self._array(node)
        elif not isinstance(node, Mapping):
            return _constant(_plain(node, node))
        kind = kind_of(node)
        if self._depth >= MAX_EXPRESSION_DEPTH:
            raise EvaluationError(kind, f"expression nested deeper than {MAX_EXPRESSION_DEPTH} levels")
        self._depth += 1
        self._calls += 1
        code = _COMPILERS[kind](self, node)
        self._depth -= 1
        self._calls -= 1
        return code

    def literal(self, node: Node) -> _Code[F]:
        return _constant(_literal_value(node))

    def input_reference(self, node: Node) -> _Code[F]:
        return _Code(self._references.input_reference(path_of(node)))

    def step_reference(self, node: Node) -> _Code[F]:
        return _Code(self._references.step_reference(path_of(node)))

    def array(self, node: Node) -> _Code[F]:
        return self._array(parts(node, "elements"))

    def _array(self, elements: Sequence[object]) -> _Code[F]:
        codes = [self.compile(element) for element in elements]
        if all(code.constant for code in codes):
            # A copy each time: two steps must not hold the same list.
            template = [code.value for code in codes]
            return _Code(lambda _: template[:])
        runs = [code.run for code in codes]
        if all(map(_gives_number, elements)):
            return _Code(lambda frame: [run(frame) for run in runs])
        return _Code(lambda frame: _bounded([run(frame) for run in runs], elements))

    def map(self, node: Node) -> _Code[F]:
        codes = {key: self.compile(value) for key, value in entries_of(node)}
        if all(code.constant for code in codes.values()):
            template = {key: code.value for key, code in codes.items()}
            return _Code(lambda _: template.copy())
        runs = [(key, code.run) for key, code in codes.items()]
        if all(_gives_number(value) for _, value in entries_of(node)):
            return _Code(lambda frame: {key: run(frame) for key, run in runs})
        return _Code(lambda frame: _bounded({key: run(frame) for key, run in runs}, node))

    def concatenation(self, node: Node) -> _Code[F]:
        def written(value: Value) -> str:
            try:
                return rendered(value)
            except OperationError as error:
                _fail(node, error)

        # Each piece is the constant text in front of an operand, and the operand.
        pieces: list[tuple[str, Callable[[F], Value]]] = []
        text = ""
        for code in map(self.compile, parts(node, "operands")):
            if code.constant:
                text += written(code.value)
            else:
                pieces.append((text, code.run))
                text = ""
        if not pieces:
            return _constant(text)
        tail = text

        def run(frame: F) -> Value:
            result = ""
            for before, operand in pieces:
                value = operand(frame)
                result += before
                result += value if type(value) is str else written(value)
                if len(result) > _LONG_TEXT:
                    _bounded(result, node)
            return result + tail

        return _Code(run)

    def unary(self, node: Node) -> _Code[F]:
        operation = UNARY_OPERATORS.get(str(node.get("operator")))
        if operation is None:
            raise EvaluationError(expression_text(node), f"unknown operator: {node.get('operator')}")
        operand = self.compile(part(node, "operand"))
        evaluate, apply = operand.run, operation

        def run(frame: F) -> Value:
            value = evaluate(frame)
            try:
                return apply(value)
            except OperationError as error:
                _fail(node, error)

        return self._folded(run, operand)

    def chain(self, node: Node) -> _Code[F]:
        """Compile left-nested operators: as nested calls, or as a loop where those would be too deep."""
        first, links = links_of(node)
        outside, count = self._calls, len(links)
        is_short = outside + count <= MAX_EXPRESSION_DEPTH
        self._calls = outside + (count if is_short else 1)
        code = self.compile(first)
        steps: list[Callable[[Value, F], Value]] = []
        for number, link in enumerate(links):
            self._calls = outside + (count - number if is_short else 1)
            right = self.compile(part(link, "index" if link["type"] == "IndexExpr" else "right"))
            if is_short or (code.constant and not steps):
                code = self._linked(link, code, right)
            else:
                steps.append(_step(link, right.run))
        self._calls = outside
        if not steps:
            return code
        begin = code.run

        def run(frame: F) -> Value:
            value = begin(frame)
            for step in steps:
                value = step(value, frame)
            return value

        return _Code(run)

    def _linked(self, node: Node, left: _Code[F], right: _Code[F]) -> _Code[F]:
        if node["type"] == "IndexExpr":
            return _Code(_index(node, left.run, right.run))
        symbol = _symbol_of(node)
        if symbol in ("&&", "||"):
            return self._folded(_logic(node, symbol, left.run, right.run), left, right)
        slow = _checked(node, BINARY_OPERATORS[symbol])
        if symbol in ("+", "-", "*"):
            run = _integer_first(BARE_ARITHMETIC[symbol], slow, left, right)
        elif symbol in BARE_ORDERING:
            run = _same_kind_first(_ORDERED, BARE_ORDERING[symbol], slow, left, right)
        elif symbol in BARE_EQUALITY:
            run = _same_kind_first(_SCALARS, BARE_EQUALITY[symbol], slow, left, right)
        else:
            run = _always(slow, left, right)
        return self._folded(run, left, right)

    def _folded(self, run: Callable[[F], Value], *operands: _Code[F]) -> _Code[F]:
        """Return a constant when all operands are constant, unless evaluating fails: then the run reports it."""
        for operand in operands:
            if not operand.constant:
                return _Code(run)
        try:
            # No operand reads the frame, so there need not be one.
            value = run(cast(F, None))
        except EvaluationError:
            return _Code(run)
        return _constant(value) if type(value) in _SCALARS else _Code(run)


def _symbol_of(node: Node) -> str:
    symbol = str(node.get("operator"))
    if symbol not in BINARY_OPERATORS and symbol not in ("&&", "||"):
        raise EvaluationError(expression_text(node), f"unknown operator: {symbol}")
    return symbol


def _step(node: Node, right: Callable[[F], Value]) -> Callable[[Value, F], Value]:
    """Return the function for one link of a long chain, applied to the value on its left."""
    symbol = "" if node["type"] == "IndexExpr" else _symbol_of(node)
    if symbol in ("&&", "||"):
        deciding = symbol == "||"

        def decide(left: Value, frame: F) -> Value:
            try:
                first = condition(symbol, left)
                return first if first is deciding else condition(symbol, right(frame))
            except OperationError as error:
                _fail(node, error)

        return decide
    operation = _checked(node, BINARY_OPERATORS[symbol] if symbol else indexed)
    return lambda left, frame: operation(left, right(frame))


def _index(node: Node, target: Callable[[F], Value], position: Callable[[F], Value]) -> Callable[[F], Value]:
    slow = _checked(node, indexed)

    def run(frame: F) -> Value:
        container, key = target(frame), position(frame)
        if type(container) is dict and type(key) is str and key in container:
            return container[key]
        return slow(container, key)

    return run


def _integer_first(fast: Operation, slow: Operation, left: _Code[F], right: _Code[F]) -> Callable[[F], Value]:
    """Combine two integers directly, anything else by the general rule."""
    first, second = left.run, right.run
    if right.constant and type(right.value) is int:
        literal = right.value

        def run_with_literal(frame: F) -> Value:
            x = first(frame)
            if type(x) is int and _LEAST_FAST < (result := fast(x, literal)) < _FAST:  # type: ignore[operator]  # integers
                return result
            return slow(x, literal)

        return run_with_literal

    def run(frame: F) -> Value:
        x, y = first(frame), second(frame)
        if type(x) is int and type(y) is int and _LEAST_FAST < (result := fast(x, y)) < _FAST:  # type: ignore[operator]
            return result
        return slow(x, y)

    return run


def _same_kind_first(
    kinds: frozenset[type], fast: Operation, slow: Operation, left: _Code[F], right: _Code[F]
) -> Callable[[F], Value]:
    """Combine two values of one of these kinds directly, anything else by the general rule."""
    first, second = left.run, right.run
    if right.constant and type(right.value) in kinds:
        literal, kind = right.value, type(right.value)

        def run_with_literal(frame: F) -> Value:
            x = first(frame)
            return fast(x, literal) if type(x) is kind else slow(x, literal)

        return run_with_literal

    def run(frame: F) -> Value:
        x, y = first(frame), second(frame)
        return fast(x, y) if type(x) is type(y) and type(x) in kinds else slow(x, y)

    return run


def _always(operation: Operation, left: _Code[F], right: _Code[F]) -> Callable[[F], Value]:
    first, second = left.run, right.run
    return lambda frame: operation(first(frame), second(frame))


def _logic(node: Node, symbol: str, left: Callable[[F], Value], right: Callable[[F], Value]) -> Callable[[F], Value]:
    """Compile `&&` or `||`: the right side is evaluated only if the left one does not decide."""
    deciding = symbol == "||"

    def run(frame: F) -> Value:
        try:
            first = condition(symbol, left(frame))
            return first if first is deciding else condition(symbol, right(frame))
        except OperationError as error:
            _fail(node, error)

    return run


#: The compiler of each type of node. Its keys are those of `expression_nodes.CHILDREN`.
_COMPILERS: Final[Mapping[str, Callable[[_Compiler[Any], Node], _Code[Any]]]] = {
    "String": _Compiler.literal,
    "Int": _Compiler.literal,
    "Double": _Compiler.literal,
    "Boolean": _Compiler.literal,
    "Null": _Compiler.literal,
    "InputRef": _Compiler.input_reference,
    "StepRef": _Compiler.step_reference,
    "BinaryExpr": _Compiler.chain,
    "UnaryExpr": _Compiler.unary,
    "ConcatExpr": _Compiler.concatenation,
    "ArrayLiteral": _Compiler.array,
    "MapLiteral": _Compiler.map,
    "IndexExpr": _Compiler.chain,
    "ChainExpr": _Compiler.chain,
}

#: Expressions that give a number, a Boolean or null, whatever their operands are.
_NUMBERS: Final = frozenset({"BinaryExpr", "UnaryExpr", "Int", "Double", "Boolean", "Null"})

#: The length at which growing texts are checked: shorter ones are as large as a program's own texts may be.
_LONG_TEXT: Final = 65_536


def _gives_number(node: object) -> bool:
    if isinstance(node, Mapping):
        return node.get("type") in _NUMBERS
    return not isinstance(node, str | list | tuple)


def _bounded(value: Value, node: object) -> Value:
    """Return the value of a literal or `++` after checking its size: only these make values larger and deeper.

    Raises ValueTooLarge or ValueTooDeep.
    """
    try:
        size = bytes_of(value)
    except TooDeep:
        raise ValueTooDeep(expression_text(node), MAX_VALUE_DEPTH) from None
    if size > counting.max_bytes:
        raise ValueTooLarge(expression_text(node), size, counting.max_bytes)
    return value


def _plain(value: object, written: object) -> Value:
    """Return a literal as an AFL value: hand-written trees may hold anything. Raises EvaluationError."""
    try:
        return cast(Value, check_json(value, 0, MAX_INTEGER_BITS))
    except Refused as refused:
        raise EvaluationError(f"{written!r:.60}", f"a literal is an AFL value, found {refused.found}") from None


_LITERAL_KINDS: Final[Mapping[str, Callable[[Any], Value]]] = {"String": str, "Int": int, "Double": float}


def _literal_value(node: Node) -> Value:
    """Return a literal's value in the kind of its type: hand-written JSON has Doubles with value 2."""
    kind = node["type"]
    if kind == "Null":
        return None
    value = part(node, "value")
    if kind == "Boolean":
        if isinstance(value, bool):
            return value
    elif kind == "Int" and isinstance(value, float) and not value.is_integer():
        pass
    else:
        try:
            return _plain(_LITERAL_KINDS[str(kind)](value), value)
        except (TypeError, ValueError, OverflowError):
            pass
    raise EvaluationError(repr(value), f"a {type_name(value)} is not a literal of type {kind}")
