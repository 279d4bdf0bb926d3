"""Writes the tokens of clauses, blocks and statements."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random

from tests.fuzzing.expressions import ANY, ARRAY, BOOLEAN, NUMBER, OTHER, STRING, Expressions, Reference, Tokens
from tests.fuzzing.layout import SEPARATOR
from tests.fuzzing.signatures import Scope, Signature, Slot
from tests.fuzzing.words import KEYWORDS, NO_STEP, Words

_DEEPEST = 3
#: Python, and the names that it gives.
_SCRIPTS = [
    ('result["k"] = 1', ["k"]),
    ("result['in'] = params", ["in"]),
    ('# a brace } in a comment\nresult["k"] = "}"', ["k"]),
    ('result["k"] = {"a": {"b": [1, 2]}}  # {', ["k"]),
    ("x = '''{\n  {'''\nresult[\"k\"] = x", ["k"]),
    ('for n in range(3):\n    if n:\n        result["k"] = f"{n!r}"\n\nprint("é")', ["k"]),
    ("pass", []),
]


@dataclass(slots=True)
class BlockWriter:
    """Makes everything that stands behind a signature."""

    words: Words
    signatures: list[Signature]
    expressions: Expressions = field(init=False)
    random: Random = field(init=False)
    #: The steps of the block that was written last.
    made: dict[str, Signature] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.random = self.words.random
        self.expressions = Expressions(self.words)

    def scope_of(self, signature: Signature) -> Scope:
        """Return what the blocks of a declaration see."""
        inputs = {slot.name: slot.kind for slot in signature.params} | dict.fromkeys(signature.aliases, "other")
        return Scope(inputs=inputs, targets=(signature,))

    # Clauses

    def follows(self, scope: Scope, count: int) -> Tokens:
        """Return the clauses of a declaration: a `when` sees the steps of plain blocks before it."""
        tokens: Tokens = []
        earlier: dict[str, Signature] = {}
        for _ in range(count):
            clause = self.follow(scope, earlier)
            tokens += clause
            if clause[1] == "{":
                # A program should not have two steps of one name in sight.
                earlier.update({name: _unread() if name in earlier else step for name, step in self.made.items()})
        return tokens

    def follow(self, scope: Scope, seen_by_when: Mapping[str, Signature] | None = None) -> Tokens:
        match self.random.randrange(6):
            case 0:
                return ["andThen", *self._when(replace(scope, steps={**scope.steps, **(seen_by_when or {})}))]
            case 1:
                return ["andThen", *self.script()[0]]
            case 2 | 3 if sources := [r for r in scope.readable() if r.kind in (ANY, ARRAY)]:
                return self._foreach(scope, self.random.choice(sources))
        return ["andThen", *self._block(scope)]

    def _foreach(self, scope: Scope, source: Reference) -> Tokens:
        variable = self.random.choice([*KEYWORDS, "v", "item"])
        inner = scope.with_inputs({variable: source.kind if source.kind == ANY else OTHER})
        if source.kind == ANY and variable not in NO_STEP | scope.steps.keys():
            inner = replace(inner, loop_variables=(*inner.loop_variables, variable))
        return ["andThen", "foreach", variable, "in", *source.tokens, *self._block(inner)]

    def _when(self, scope: Scope) -> Tokens:
        tokens: Tokens = ["when", "{", SEPARATOR]
        for _ in range(self.random.randint(0, 2)):
            condition = self.expressions.of(BOOLEAN, scope.readable())
            tokens += ["case", *condition, "=>", *self._block(scope), SEPARATOR]
        return [*tokens, "case", "_", "=>", *self._block(scope), SEPARATOR, "}"]

    def _catch(self, scope: Scope) -> Tokens:
        return ["catch", *(self._when(scope) if self.random.random() < 0.4 else self._block(scope))]

    def catch_of_declaration(self, signature: Signature) -> Tokens:
        scope = self.scope_of(signature)
        scope = scope.with_inputs(
            {"error": STRING, "error_type": STRING} if not scope.inputs.keys() & {"error"} else {}
        )
        return self._catch(scope.deeper())

    def script(self) -> tuple[Tokens, list[str]]:
        """Return a script, quoted or raw, and the names that it gives."""
        code, names = self.random.choice(_SCRIPTS)
        dialect = self.random.choice([[], ["python"]])
        if self.random.random() < 0.4:
            quoted = json.dumps(code, ensure_ascii=False)
            return ["script", *dialect, quoted], names
        if "\n" not in code and "#" not in code and self.random.random() < 0.5:
            return ["script", *dialect, f"{{ {code} }}"], names
        margin = self.random.choice(["", "    ", "\t"]) if "'''" not in code else ""
        body = "\n".join(margin + line if line else line for line in code.split("\n"))
        return ["script", *dialect, f"{{\n{body}\n{self.random.choice(['', '  '])}}}"], names

    # Blocks

    def _block(self, outer: Scope) -> Tokens:
        scope = outer.deeper()
        tokens: Tokens = ["{", SEPARATOR]
        taken: set[str] = set()
        for _ in range(self.random.randint(0, 3 if scope.depth < _DEEPEST else 1)):
            if self.random.random() < 0.2:
                tokens += [*self._system(scope), SEPARATOR]
                continue
            # A step of a name that is there already would be another step to every reader.
            name = self.words.name(taken | scope.steps.keys() | set(scope.loop_variables), step=True)
            taken.add(name)
            statement, signature = self._statement(name, scope)
            tokens += [*statement, SEPARATOR]
            scope = scope.with_step(name, signature)
        self.made = {name: scope.steps[name] for name in taken if name in scope.steps}
        return [*tokens, *self._yields(scope), "}"]

    def _system(self, scope: Scope) -> Tokens:
        if self.random.random() < 0.5:
            return ["sys", ".", "assert", "(", *self.expressions.of(BOOLEAN, scope.readable()), ")"]
        taken: set[str] = set()
        items = [
            [self.words.name(taken), "=", *self.expressions.of(ANY, scope.readable())]
            for _ in range(self.random.randint(0, 3))
        ]
        return ["sys", ".", "log", "(", *self.expressions.listed(items), ")"]

    def _statement(self, name: str, scope: Scope) -> tuple[Tokens, Signature]:
        """Return a step, and what it calls; of an undeclared callee nothing may be read here."""
        if not self.signatures or self.random.random() < 0.1:
            items = [["in", "=", *self.expressions.of(ANY, scope.readable())]]
            return [name, "=", "Unheard", "(", *self.expressions.listed(items), ")"], _unread()
        callee = self.random.choice(self.signatures)
        call = [*callee.written(qualified=self.random.random() < 0.4), "(", *self.arguments(callee.params, scope), ")"]
        tokens = [name, "=", *call]
        if callee.kind == "schema":
            return tokens, callee
        tokens += self._call_mixins(callee, scope)
        inner = scope.with_inputs(callee.inputs())
        inner = replace(inner.with_step(name, callee), targets=(callee, *scope.targets))
        if scope.depth < _DEEPEST:
            for _ in range(self.random.choice([0, 0, 0, 1, 2])):
                tokens += self.follow(inner)
            if self.random.random() < 0.2:
                errors = [Reference((name, ".", attribute), STRING) for attribute in ("error", "error_type")]
                tokens += self._catch(inner.deeper(errors))
        return tokens, callee

    def arguments(self, slots: Sequence[Slot], scope: Scope, *, few: bool = False) -> Tokens:
        items = []
        for slot in slots:
            if self.random.random() < (0.5 if few else 0.8) and (value := self._value(slot, scope)):
                items.append([slot.name, "=", *value])
        self.random.shuffle(items)
        return self.expressions.listed(items)

    def _value(self, slot: Slot, scope: Scope) -> Tokens:
        """Return a value for a slot; nothing where there is none of its type."""
        if slot.kind.startswith("step "):
            steps = [name for name, signature in scope.steps.items() if f"step {signature.name}" == slot.kind]
            return [self.random.choice(steps)] if steps else []
        if slot.kind in (STRING, NUMBER, BOOLEAN, ARRAY, ANY):
            return self._typed(slot, scope.readable())
        unknown = [r for r in scope.readable() if r.kind == ANY]
        return list(self.random.choice(unknown).tokens) if unknown else []

    def _typed(self, slot: Slot, readable: Sequence[Reference]) -> Tokens:
        """Literal numbers, and elements of literal arrays, have to be of the very type."""
        if slot.kind == NUMBER and slot.type != ["Double"]:
            return [self.words.integer()]
        if slot.kind == ARRAY and slot.type != ["[", "Json", "]"]:
            return ["[", "]"]
        return self.expressions.of(slot.kind, readable)

    def default(self, slot: Slot, readable: Sequence[Reference]) -> Tokens:
        """Return a constant."""
        return self._typed(slot, readable)

    # Mixins

    def signature_mixins(self, signature: Signature) -> Tokens:
        """Mixins with and without alias; each facet at most once, so that yields know which is meant."""
        names = {slot.name for slot in [*signature.params, *(signature.returns or [])]}
        # An alias that is also another name would make a yield's target ambiguous.
        names |= {other.name for other in self.signatures}
        scope = Scope(inputs={slot.name: slot.kind for slot in signature.params})
        tokens: Tokens = []
        candidates = [s for s in self.signatures if s.kind in ("facet", "event") and s is not signature]
        for mixin in self.random.sample(candidates, min(len(candidates), self.random.choice([0, 0, 0, 1, 2]))):
            with_alias = self.random.random() < 0.5
            slots = [slot for slot in mixin.params if with_alias or slot.name not in names]
            tokens += ["with", *mixin.written(qualified=self.random.random() < 0.3), "("]
            tokens += [*self.arguments(slots, scope, few=True), ")"]
            if with_alias:
                alias = self.words.name(names)
                signature.aliases[alias] = mixin
                tokens += ["as", alias]
            else:
                signature.extras |= {slot.name for slot in slots}
        return tokens

    def _call_mixins(self, callee: Signature, scope: Scope) -> Tokens:
        tokens: Tokens = []
        candidates = [s for s in self.signatures if s.kind in ("facet", "event")]
        for mixin in self.random.sample(candidates, min(len(candidates), self.random.choice([0, 0, 0, 1, 2]))):
            with_alias = self.random.random() < 0.3
            # What the mixin gives hides what the surroundings have under the same name.
            names = callee.inputs().keys() | scope.inputs.keys()
            slots = [slot for slot in mixin.params if with_alias or slot.name not in names]
            tokens += ["with", *mixin.written(qualified=self.random.random() < 0.3), "("]
            tokens += [*self.arguments(slots, scope, few=True), ")"]
            if with_alias:
                tokens += ["as", self.words.name(set(names))]
        return tokens

    # Yields

    def _yields(self, scope: Scope) -> Tokens:
        """Return yields to some of those around, each once."""
        tokens: Tokens = []
        names: set[str] = set()
        for target in scope.targets:
            if target.name in names or self.random.random() < 0.5:
                continue
            names.add(target.name)
            written = target.written(qualified=self.random.random() < 0.2)
            tokens += ["yield", *written, "(", *self._fields(target.returns or [], scope), ")"]
            if target is scope.targets[-1]:
                for alias, mixin in target.aliases.items():
                    if alias not in names and mixin.name not in names and self.random.random() < 0.5:
                        names.add(alias)
                        slots = mixin.returns or mixin.params
                        tokens += ["with", alias, "(", *self._fields(slots, scope), ")"]
            tokens.append(SEPARATOR)
        return tokens

    def _fields(self, slots: Sequence[Slot], scope: Scope) -> Tokens:
        items = [[slot.name, "=", *value] for slot in slots if (value := self._value(slot, scope))]
        return self.expressions.listed(items)


def _unread() -> Signature:
    """Stands for a callee of which nothing is known."""
    return Signature(kind="facet", namespace=(), name="?", params=[], returns=[])
