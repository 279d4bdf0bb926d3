"""Random AFL expressions of a wanted type, as text."""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from tests.random_programs.expressions import Value

INT, LONG, DOUBLE, STRING, BOOLEAN, JSON = "Int", "Long", "Double", "String", "Boolean", "Json"
ARRAYS = ("[Int]", "[String]", "[[Int]]")
#: What a slot may be declared as; the more often it stands here, the likelier.
TYPES = (INT, INT, LONG, DOUBLE, STRING, BOOLEAN, JSON, "[Int]", *ARRAYS)

#: Most elements of an array that is made here or given as input.
MOST_ELEMENTS = 3


@dataclass(frozen=True, slots=True)
class Readable:
    """Something that an expression may read: its text, and its type."""

    text: str
    type: str


@dataclass(frozen=True, slots=True)
class ExpressionWriter:
    """Writes expressions that stay small: numbers that were worked out are taken modulo something."""

    random: Random
    #: How likely a choice is one that may fail when it runs.
    risk: float

    def argument(self, wanted: str, readable: Sequence[Readable]) -> str:
        """Return an expression of a type. Computed numbers are kept small, however long the chain of steps."""
        text = self.expression(wanted, readable, self.random.randint(0, 3))
        return f"({text}) % 997" if wanted in (INT, LONG, DOUBLE) and " " in text else text

    def expression(self, wanted: str, readable: Sequence[Readable], depth: int) -> str:
        if depth == 0:
            return self._leaf(wanted, readable)
        if wanted == BOOLEAN:
            return self._condition(readable, depth - 1)
        if wanted in (INT, LONG, DOUBLE):
            return self._number(wanted, readable, depth - 1)
        if wanted == STRING:
            return self._text(readable, depth - 1)
        if wanted == JSON:
            entries = (
                f"k{n}: {self.expression(self.any_type(), readable, depth - 1)}"
                for n in range(self.random.randint(0, 3))
            )
            return f"#{{{', '.join(entries)}}}"
        count = self.random.randint(0, MOST_ELEMENTS)
        return f"[{', '.join(self.expression(wanted[1:-1], readable, depth - 1) for _ in range(count))}]"

    def _number(self, wanted: str, readable: Sequence[Readable], depth: int) -> str:
        left, right = self.expression(wanted, readable, depth), self.expression(wanted, readable, depth)
        choices = [f"{left} + {right}", f"({left}) - ({right})", f"(({left}) * ({right})) % 101", f"-({left})"]
        choices.append(f"[{left}, {right}][{self.random.choice(['0', '1', '-1'])}]")
        choices.append(f'#{{"n": {left}}}["n"]')
        if wanted == DOUBLE:
            choices += [f"({left}) / {self.random.choice(['2', '4.0', '-8'])}", self.expression(INT, readable, depth)]
        if self.risky():
            choices = [f"({left}) % ({right})", f"[{left}][{self.random.randint(-2, 2)}]"]
            choices += [f"({left}) / ({right})"] if wanted == DOUBLE else []
        return self.random.choice(choices)

    def _condition(self, readable: Sequence[Readable], depth: int) -> str:
        """Return a Boolean, from any of the operators that give one."""

        def some(wanted: str) -> str:
            text = self.expression(wanted, readable, depth)
            return f"({text})" if wanted == BOOLEAN and " " in text else text

        pick = self.random.choice
        kind, other, element = self.any_type(), self.any_type(), pick([INT, STRING])
        comparable, array = pick([INT, LONG, DOUBLE, STRING]), f"[{element}]"
        choices = [
            lambda: f"{some(BOOLEAN)} {pick(['&&', '||'])} {some(BOOLEAN)}",
            lambda: f"!{some(BOOLEAN)}",
            lambda: f"{some(kind)} {pick(['==', '!='])} {some(kind)}",
            lambda: f"{some(kind)} {pick(['==', '!='])} {some(other)}",
            lambda: f"{some(comparable)} {pick(['<', '<=', '>', '>='])} {some(comparable)}",
            lambda: f"{some(element)} {pick(['in', 'not in'])} {some(array)}",
            lambda: f"{some(array)} contains {some(element)}",
            lambda: f"{some(STRING)} {pick(['in', 'not in'])} {self._map_of(readable, depth)}",
            lambda: f"{some(STRING)} {pick(['in', 'contains', 'startsWith', 'endsWith'])} {some(STRING)}",
            # The right side is only worth something where it is not looked at.
            lambda: f"{pick(['false &&', 'true ||'])} [{some(INT)}][7] == 0",
        ]
        if self.risky():
            choices = [
                lambda: f"{some(JSON)} {pick(['<', '>='])} {some(comparable)}",
                lambda: f"{some(element)} in {some(JSON)}",
                lambda: f"{some(INT)} not in {some(STRING)}",
                lambda: f'{some(BOOLEAN)} && #{{k: {some(kind)}}}["k"]',
            ]
        return pick(choices)()

    def _map_of(self, readable: Sequence[Readable], depth: int) -> str:
        keys = self.random.sample(["a", "b c", "ü", "n"], self.random.randint(0, 3))
        entries = (f'"{key}": {self.expression(INT, readable, depth)}' for key in keys)
        return f"#{{{', '.join(entries)}}}"

    def _text(self, readable: Sequence[Readable], depth: int) -> str:
        parts = [self.expression(self.any_type(), readable, depth) for _ in range(self.random.randint(1, 2))]
        return " ++ ".join([self.literal(STRING), *(f"({part})" for part in parts)])

    def _leaf(self, wanted: str, readable: Sequence[Readable]) -> str:
        fitting = [r.text for r in readable if r.type == wanted or {r.type, wanted} == {INT, LONG}]
        if wanted == DOUBLE:
            fitting += [r.text for r in readable if r.type == INT]
        if wanted in (INT, LONG):
            # Steps and inputs of type Json are maps with an `n`, unless the program itself made them.
            fitting += [f'{r.text}["n"]' for r in readable if r.type == JSON and self.risky()]
        if fitting and self.chance(0.8):
            return self.random.choice(fitting)
        return self.literal(wanted)

    def literal(self, wanted: str) -> str:
        match wanted:
            case "Int" | "Long":
                return str(self.random.randint(0, 9))
            case "Double":
                return str(self.random.randint(0, 40) / 4)
            case "String":
                return self.random.choice(['""', '"a"', '"b c"', '"ü"', '"tab\\t"', '"quote \\" "'])
            case "Boolean":
                return self.random.choice(["true", "false"])
            case "Json":
                return self.random.choice(["null", '"text"', "[1, 2]", '#{"n": 1}', '#{n: 2, "list": [1, 2.5, null]}'])
        return f"[{', '.join(self.literal(wanted[1:-1]) for _ in range(self.random.randint(0, MOST_ELEMENTS)))}]"

    def json_value(self, wanted: str) -> Value:
        """Return an input of a type."""
        match wanted:
            case "Int" | "Long":
                return self.random.randint(-9, 9)
            case "Double":
                return self.random.randint(-40, 40) / 4
            case "String":
                return self.random.choice(["", "in", "two words", "ß"])
            case "Boolean":
                return self.random.choice([True, False])
            case "Json":
                return {"n": self.random.randint(0, 9), "deep": {"list": [1, "x", None]}}
        return [self.json_value(wanted[1:-1]) for _ in range(self.random.randint(0, MOST_ELEMENTS))]

    def any_type(self) -> str:
        return self.random.choice(TYPES)

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def risky(self) -> bool:
        return self.chance(self.risk)
