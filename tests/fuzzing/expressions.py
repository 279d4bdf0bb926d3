"""Writes the tokens of expressions that the validator has nothing against."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

from tests.fuzzing.words import Words

#: What is known of a value before it is there. Of ANY nothing is; it may stand everywhere.
ANY, NUMBER, STRING, BOOLEAN, ARRAY, MAP, OTHER = "any", "number", "string", "boolean", "array", "map", "other"
Tokens = list[str]


@dataclass(frozen=True, slots=True)
class Reference:
    """Something that can be read: its tokens and what is known of its value."""

    tokens: tuple[str, ...]
    kind: str


@dataclass(slots=True)
class Expressions:
    """Makes expressions of every form, some of them deep."""

    words: Words
    random: Random = field(init=False)

    def __post_init__(self) -> None:
        self.random = self.words.random

    def of(self, kind: str, readable: Sequence[Reference] = (), depth: int | None = None) -> Tokens:
        """Return an expression that may stand where a value of the kind is wanted."""
        depth = self.random.choice([0, 0, 1, 2, 4]) if depth is None else depth
        if depth <= 0 or self.random.random() < 0.15:
            return self._leaf(kind, readable)
        choice = self.random.random()
        if choice < 0.12:
            return ["(", *self.of(kind, readable, depth - 1), ")"]
        if choice < 0.2:
            return self._indexed(readable, depth - 1)
        return self._compound(kind, readable, depth - 1)

    def _compound(self, kind: str, readable: Sequence[Reference], depth: int) -> Tokens:
        match kind:
            case "number":
                return self._arithmetic(readable, depth)
            case "string":
                count = self.random.randint(2, 4)
                return self._joined([self._tight(self.any_kind(), readable, depth) for _ in range(count)], "++")
            case "boolean":
                return self._condition(readable, depth)
            case "array":
                items = [self.of(ANY, readable, depth - 1) for _ in range(self.random.randint(0, 3))]
                return ["[", *self.listed(items), "]"]
            case "map":
                return self._map(readable, depth)
        return self.of(self.any_kind(), readable, depth)

    def _arithmetic(self, readable: Sequence[Reference], depth: int) -> Tokens:
        if self.random.random() < 0.3:
            return [self.random.choice("+-"), *self._atom(NUMBER, readable, depth)]
        count = self.random.randint(2, 3)
        parts = [self._atom(NUMBER, readable, depth) for _ in range(count)]
        tokens = list(parts[0])
        for part in parts[1:]:
            tokens += [self.random.choice("+-*/%"), *part]
        return tokens

    def _condition(self, readable: Sequence[Reference], depth: int) -> Tokens:
        def some(kind: str) -> Tokens:
            return self._tight(kind, readable, depth)

        pick = self.random.choice
        match self.random.randrange(8):
            case 0:
                return self._joined([some(BOOLEAN) for _ in range(self.random.randint(2, 3))], pick(["&&", "||"]))
            case 1:
                return ["!", *self._atom(BOOLEAN, readable, depth)]
            case 2:
                return [*some(self.any_kind()), pick(["==", "!="]), *some(self.any_kind())]
            case 3:
                kind = pick([NUMBER, STRING])
                return [*some(kind), pick(["<", "<=", ">", ">="]), *some(kind)]
            case 4:
                return [*some(self.any_kind()), *pick([["in"], ["not", "in"]]), *some(pick([ARRAY, MAP]))]
            case 5:
                return [*some(pick([ARRAY, MAP])), "contains", *some(self.any_kind())]
            case 6:
                return [*some(STRING), pick(["startsWith", "endsWith", "in", "contains"]), *some(STRING)]
        return [*some(BOOLEAN), "&&", *some(BOOLEAN), "||", *some(BOOLEAN)]

    def _map(self, readable: Sequence[Reference], depth: int) -> Tokens:
        taken: set[str] = set()
        pairs = []
        for _ in range(self.random.randint(0, 3)):
            key = self.words.string() if self.random.random() < 0.4 else self.words.name(taken)
            pairs.append([key, ":", *self.of(ANY, readable, depth - 1)])
        return ["#{", *self.listed(pairs), "}"]

    def _indexed(self, readable: Sequence[Reference], depth: int) -> Tokens:
        """Return an element of something unknown is unknown."""
        unknown = [r for r in readable if r.kind == ANY]
        target = list(self.random.choice(unknown).tokens) if unknown else ["#{", "a", ":", "1", "}"]
        index = self.of(NUMBER if unknown else STRING, readable, depth)
        return [*target, "[", *index, "]"]

    def _tight(self, kind: str, readable: Sequence[Reference], depth: int) -> Tokens:
        """Return an operand: in brackets unless it is one piece."""
        return self._atom(kind, readable, depth)

    def _atom(self, kind: str, readable: Sequence[Reference], depth: int) -> Tokens:
        tokens = self.of(kind, readable, depth)
        whole = len(tokens) == 1 or (tokens[0] in ("$", "[", "#{") and _is_one(tokens))
        return tokens if whole else ["(", *tokens, ")"]

    def _leaf(self, kind: str, readable: Sequence[Reference]) -> Tokens:
        if kind == ANY and self.random.random() < 0.5:
            kind = self.any_kind()
        fitting = [r for r in readable if r.kind in (kind, ANY) or (kind == ANY and r.kind != OTHER)]
        if fitting and self.random.random() < 0.6:
            return list(self.random.choice(fitting).tokens)
        match kind:
            case "number":
                return [self.words.number()]
            case "string":
                return [self.words.string()]
            case "boolean":
                return [self.random.choice(["true", "false"])]
            case "array":
                return ["[", "]"]
            case "map":
                return ["#{", "}"]
        return ["null"]

    def any_kind(self) -> str:
        return self.random.choice([NUMBER, STRING, BOOLEAN, ARRAY, MAP])

    def listed(self, items: Sequence[Tokens]) -> Tokens:
        """Items with commas between them, and perhaps one behind the last."""
        tokens: Tokens = []
        for n, item in enumerate(items):
            tokens += item
            if n < len(items) - 1 or self.random.random() < 0.2:
                tokens.append(",")
        return tokens

    @staticmethod
    def _joined(parts: Sequence[Tokens], operator: str) -> Tokens:
        tokens = list(parts[0])
        for part in parts[1:]:
            tokens += [operator, *part]
        return tokens


def references(prefix: Sequence[str], names: Mapping[str, str]) -> list[Reference]:
    """`prefix . name` for each name, and for what may be a map something deeper in it."""
    found = [Reference((*prefix, ".", name), kind) for name, kind in names.items()]
    return found + [Reference((*r.tokens, ".", "in", ".", "deep"), ANY) for r in found if r.kind == ANY]


def _is_one(tokens: Sequence[str]) -> bool:
    """Whether the first bracket is closed by the last token, or nothing but a reference is there."""
    if tokens[0] == "$":
        return all(n % 2 == 0 or token == "." for n, token in enumerate(tokens))
    depth = 0
    for n, token in enumerate(tokens):
        depth += (token in ("[", "#{", "(")) - (token in ("]", "}", ")"))
        if depth == 0:
            return n == len(tokens) - 1
    return False
