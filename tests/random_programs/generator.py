"""Random AFL programs: valid text, small, and sure to end; the same seed gives the same program.

A program has one namespace of facets and one with workflows that use it. Every declaration calls only those above it,
so that nothing recurs, and the number of steps is bounded as the text is made. Most programs succeed; some divide by
zero, read what has no value, or index past an end.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random

from tests.random_programs.expression_writer import ARRAYS, MOST_ELEMENTS, TYPES, ExpressionWriter, Readable
from tests.random_programs.expressions import Value

#: Most steps that one run of a generated workflow may take.
MAX_STEPS = 150


@dataclass(frozen=True, slots=True, kw_only=True)
class RandomProgram:
    """A program and the run to try: the workflow's qualified name, and its inputs."""

    seed: int
    text: str
    workflow: str
    inputs: dict[str, Value]


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """A parameter or return. Without `default` and without an argument it has no value."""

    name: str
    type: str
    default: str | None = None

    def __str__(self) -> str:
        return f"{self.name}: {self.type}" + (f" = {self.default}" if self.default is not None else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Callee:
    """Something that a step may call."""

    kind: str
    namespace: str
    name: str
    params: tuple[Slot, ...]
    returns: tuple[Slot, ...] = ()
    #: Returns that have a value after every run that succeeds.
    certain: frozenset[str] = frozenset()
    #: Upper bound of the steps that a call makes, itself included.
    cost: int = 1
    #: Signature mixins with an alias: the alias, and the facet.
    aliased: tuple[tuple[str, "Callee"], ...] = ()
    #: Params that something other than the call or a default gives.
    given: frozenset[str] = frozenset()
    #: What stands between the head and the body.
    mixin_text: str = ""

    def attribute_names(self) -> frozenset[str]:
        """Names that `$` has in the body of a step that calls this."""
        return frozenset(slot.name for slot in (*self.params, *self.returns)) | {alias for alias, _ in self.aliased}


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """What the statements of a block see, and whom they may yield to."""

    readable: tuple[Readable, ...]
    targets: tuple[Callee, ...]
    depth: int = 0
    #: The block's yields are made several times over.
    repeated: bool = False

    def with_readable(self, more: Sequence[Readable]) -> "Scope":
        return replace(self, readable=(*self.readable, *more))

    def without_inputs(self, names: frozenset[str]) -> "Scope":
        """Hide `$.name` of the outside for names that an inner scope has."""
        hidden = tuple(f"$.{name}." for name in names)
        return replace(self, readable=tuple(r for r in self.readable if not f"{r.text}.".startswith(hidden)))


@dataclass(slots=True)
class Budget:
    """Steps that may still be made, where the text stands now."""

    left: int
    #: How often what stands here runs at most.
    times: int = 1

    def can_afford(self, cost: int) -> bool:
        return cost * self.times <= self.left

    def spend(self, cost: int) -> None:
        self.left -= cost * self.times


def generate(seed: int) -> RandomProgram:
    """Return the program of a seed."""
    return Generator(seed).program(seed)


class Generator:
    """Writes declarations one after the other, and remembers what the next ones may call."""

    def __init__(self, seed: int) -> None:
        self.random = Random(f"afl-{seed}")
        risk = 0.04 if self.random.random() < 0.25 else 0.0
        self._write = ExpressionWriter(self.random, risk)
        self.callees: list[Callee] = []

    # Declarations

    def program(self, seed: int) -> RandomProgram:
        library = [self._record("R1"), self._event("E1"), self._event("E2"), self._schema("S1")]
        library += [self._composite("facet", "lib", f"F{n}", 12 * n) for n in range(1, self.random.randint(2, 4))]
        workflows = [self._composite("facet", "app.main", "Local", 20)] if self._chance(0.4) else []
        if self._chance(0.4):
            workflows.append(self._composite("workflow", "app.main", "Part", 30))
        main = self._composite("workflow", "app.main", "Main", MAX_STEPS)
        callee = self.callees[-1]
        inputs = {
            p.name: self._write.json_value(p.type) for p in callee.params if p.default is None or self._chance(0.5)
        }
        text = f"namespace lib {{\n{''.join(library)}}}\n"
        text += f"namespace app.main {{\n    use lib\n{''.join(workflows)}{main}}}\n"
        return RandomProgram(seed=seed, text=text, workflow="app.main.Main", inputs=inputs)

    def _record(self, name: str) -> str:
        callee = Callee(kind="facet", namespace="lib", name=name, params=self._params())
        return self._declare(callee, "")

    def _event(self, name: str) -> str:
        returns = self._slots("r", 2)
        certain = frozenset(slot.name for slot in returns)
        callee = Callee(
            kind="event facet", namespace="lib", name=name, params=self._params(), returns=returns, certain=certain
        )
        return self._declare(callee, "")

    def _schema(self, name: str) -> str:
        fields = self._slots("f", 3)
        self.callees.append(Callee(kind="schema", namespace="lib", name=name, params=fields))
        return f"    schema {name} {{ {', '.join(str(slot) for slot in fields)} }}\n"

    def _composite(self, kind: str, namespace: str, name: str, most_steps: int) -> str:
        """Return a facet or workflow with blocks."""
        params = (*self._params(), Slot(name="items", type=self.random.choice(ARRAYS)))
        returns = tuple(
            replace(slot, default=self._write.literal(slot.type)) if self._chance(0.4) else slot
            for slot in self._slots("r", 3)
        )
        if self._chance(0.1):
            returns = (*returns, replace(params[0], default=None))
        callee = Callee(kind=kind, namespace=namespace, name=name, params=params, returns=returns)
        budget = Budget(most_steps)
        scope = Scope(readable=tuple(Readable(f"$.{p.name}", p.type) for p in params), targets=(callee,))
        certain = {slot.name for slot in returns if slot.default is not None}
        clauses = []
        for _ in range(self.random.choice([1, 1, 2, 3])):
            text, given = self._clause(scope, budget)
            clauses.append(text)
            certain |= given.get(name, set())
        callee = replace(callee, certain=frozenset(certain), cost=1 + most_steps - budget.left)
        return self._declare(callee, " " + " ".join(clauses))

    def _declare(self, callee: Callee, body: str) -> str:
        self.callees.append(callee)
        returns = f" => ({', '.join(str(slot) for slot in callee.returns)})" if callee.returns else ""
        params = ", ".join(str(slot) for slot in callee.params)
        return f"    {callee.kind} {callee.name}({params}){returns}{callee.mixin_text}{body}\n"

    def _params(self) -> tuple[Slot, ...]:
        return tuple(
            replace(slot, default=self._write.literal(slot.type)) if self._chance(0.3) else slot
            for slot in self._slots("p", 3)
        )

    def _slots(self, letter: str, most: int) -> tuple[Slot, ...]:
        count = self.random.randint(1, most)
        return tuple(Slot(name=f"{letter}{n}", type=self.random.choice(TYPES)) for n in range(count))

    # Blocks

    def _clause(self, scope: Scope, budget: Budget) -> tuple[str, dict[str, set[str]]]:
        """Return an andThen clause, and the fields that it is sure to give, by the name of their target."""
        sources = [r for r in scope.readable if r.type in ARRAYS]
        block, indent = replace(scope, depth=scope.depth + 1), "    " * (scope.depth + 1)
        if not sources or not self._chance(0.4) or not budget.can_afford(MOST_ELEMENTS):
            text, given = self._block(block, budget)
            return f"andThen {{\n{text}{indent}}}", given
        source = self.random.choice(sources)
        variable = f"v{block.depth}"
        forms = [Readable(f"$.{variable}", source.type[1:-1]), Readable(variable, source.type[1:-1])]
        inner = replace(block.with_readable(forms[: self.random.randint(1, 2)]), repeated=True)
        budget.times *= MOST_ELEMENTS
        text, _ = self._block(inner, budget)
        budget.times //= MOST_ELEMENTS
        return f"andThen foreach {variable} in {source.text} {{\n{text}{indent}}}", {}

    def _block(self, scope: Scope, budget: Budget) -> tuple[str, dict[str, set[str]]]:
        lines: list[str] = []
        given: dict[str, set[str]] = {}
        indent = "    " * (scope.depth + 1)
        for n in range(self.random.randint(0, 4)):
            affordable = [c for c in self.callees if budget.can_afford(c.cost)]
            if not affordable:
                break
            callee = self.random.choice(affordable)
            budget.spend(callee.cost)
            name = f"{'abcdefgh'[scope.depth]}{n}"
            text, attributes, inner = self._statement(name, callee, scope, budget)
            lines.append(f"{indent}{text}\n")
            scope = scope.with_readable([Readable(f"{name}.{slot.name}", slot.type) for slot in attributes])
            for target, fields in inner.items():
                given.setdefault(target, set()).update(fields)
        if self.random.random() < 0.9:
            for receiver in self._yield_targets(scope):
                text, fields = self._yield(receiver, scope)
                lines.append(f"{indent}{text}\n")
                given.setdefault(receiver.name, set()).update(fields)
        return "".join(lines), given

    def _statement(
        self, name: str, callee: Callee, scope: Scope, budget: Budget
    ) -> tuple[str, list[Slot], dict[str, set[str]]]:
        """Return a step: its text, the attributes that are sure to have a value, and what its body gives to others."""
        supplied = [p for p in callee.params if (p.default is None and not self._risky()) or self._chance(0.5)]
        arguments = ", ".join(f"{p.name} = {self._write.argument(p.type, scope.readable)}" for p in supplied)
        in_scope_of_use = scope.targets[-1].namespace == callee.namespace or self._chance(0.5)
        target = callee.name if in_scope_of_use else f"{callee.namespace}.{callee.name}"
        call = f"{name} = {target}({arguments})"
        known = {p.name for p in supplied} | {p.name for p in callee.params if p.default is not None}
        if callee.kind == "schema":
            return call, [p for p in callee.params if p.name in {s.name for s in supplied}], {}
        if scope.depth >= 3 or not self._chance(0.25):
            return call, self._attributes(callee, known, callee.certain), {}
        text, given = self._statement_body(name, callee, known, scope, budget)
        own = given.pop(callee.name, set()) if callee.kind != "event facet" else set()
        defaulted = {slot.name for slot in callee.returns if slot.default is not None}
        certain = callee.certain if callee.kind == "event facet" else frozenset(own | defaulted)
        return f"{call} {text}", self._attributes(callee, known, certain), given

    def _statement_body(
        self, name: str, callee: Callee, known: set[str], scope: Scope, budget: Budget
    ) -> tuple[str, dict[str, set[str]]]:
        slots = [p for p in callee.params if p.name in known]
        if callee.kind == "event facet":
            slots += callee.returns
        hidden = callee.attribute_names()
        readable = [Readable(f"$.{slot.name}", slot.type) for slot in slots]
        readable += [Readable(f"{name}.{slot.name}", slot.type) for slot in slots if self._is_static(callee, slot)]
        targets = scope.targets if callee.kind == "event facet" or not callee.returns else (callee, *scope.targets)
        inner = replace(scope.without_inputs(hidden).with_readable(readable), targets=targets)
        texts, given = [], dict[str, set[str]]()
        for _ in range(self.random.choice([1, 1, 2])):
            text, fields = self._clause(inner, budget)
            texts.append(text)
            for target, names in fields.items():
                given.setdefault(target, set()).update(names)
        return " ".join(texts), given

    @staticmethod
    def _is_static(callee: Callee, slot: Slot) -> bool:
        """Whether `step.slot` passes the compiler: only returns may be read where a callee declares some."""
        return not callee.returns or slot in callee.returns

    def _attributes(self, callee: Callee, known: set[str], certain: frozenset[str]) -> list[Slot]:
        """Return what a later statement may read: what has a value for sure, or, where risks are taken, anything."""
        slots = callee.returns or callee.params
        return [s for s in slots if s.name in (certain if callee.returns else known) or self._risky()]

    def _yield_targets(self, scope: Scope) -> list[Callee]:
        innermost: dict[str, Callee] = {}
        for target in scope.targets:
            innermost.setdefault(target.name, target)
        candidates = [target for target in innermost.values() if target.returns]
        return [target for n, target in enumerate(candidates) if n == 0 or self._chance(0.5)]

    def _yield(self, target: Callee, scope: Scope) -> tuple[str, set[str]]:
        slots = [slot for slot in target.returns if self._chance(0.8)]
        values = []
        for slot in slots:
            one_element = slot.type in ARRAYS and (scope.repeated or self._chance(0.5))
            values.append(
                f"[{self._write.expression(slot.type[1:-1], scope.readable, 2)}]"
                if one_element
                else self._write.argument(slot.type, scope.readable)
            )
        arguments = ", ".join(f"{slot.name} = {value}" for slot, value in zip(slots, values, strict=True))
        return f"yield {target.name}({arguments})", {slot.name for slot in slots}

    def _chance(self, probability: float) -> bool:
        return self._write.chance(probability)

    def _risky(self) -> bool:
        return self._write.risky()
