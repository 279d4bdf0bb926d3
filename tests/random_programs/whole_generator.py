"""Random programs of the whole language: on top of the plain ones `when`, catch, sys statements, mixins, implicits,
scripts and steps as values.
"""

from collections.abc import Sequence
from dataclasses import replace

from tests.random_programs.clause_writer import ClauseWriter
from tests.random_programs.expression_writer import ARRAYS, BOOLEAN, INT, JSON, STRING, TYPES, Readable
from tests.random_programs.generator import MAX_STEPS, Budget, Callee, RandomProgram, Scope, Slot


def generate_whole(seed: int) -> RandomProgram:
    """Return the program of a seed."""
    return _WholeGenerator(seed).program(seed)


class _WholeGenerator(ClauseWriter):
    """Writes declarations one after the other, and remembers what the next ones may call and mix in."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.random.seed(f"whole-{seed}")
        self._write = replace(self._write, risk=0.03 if self.random.random() < 0.4 else 0.0)

    def program(self, seed: int) -> RandomProgram:
        library = [self._record("R1"), self._event("E1"), self._event("Moody"), self._schema("S1")]
        library += [self._mixin(f"M{n}") for n in (1, 2, 3)]
        library += [self._composite("facet", "lib", f"F{n}", 10 * n) for n in range(1, self.random.randint(2, 4))]
        library += [self._composite("event facet", "lib", "E2", 12)] if self._chance(0.5) else []
        library += [self._reader("T1")] if self._chance(0.6) else []
        local = [self._implicit(namespace) for namespace in ("lib", "app.main", "", "other")]
        workflows = [self._composite("facet", "app.main", "Local", 20)] if self._chance(0.4) else []
        if self._chance(0.4):
            workflows.append(self._composite("workflow", "app.main", "Part", 30))
        main = self._composite("workflow", "app.main", "Main", MAX_STEPS)
        callee = self.callees[-1]
        inputs = {
            p.name: self._write.json_value(p.type)
            for p in callee.params
            if (p.default is None and p.name not in callee.given) or self._chance(0.5)
        }
        text = f"namespace other {{\n    use lib\n{local[3]}}}\nnamespace lib {{\n{''.join(library)}{local[0]}}}\n"
        text += f"{local[2]}namespace app.main {{\n    use lib\n{local[1]}{''.join(workflows)}{main}}}\n"
        return RandomProgram(seed=seed, text=text, workflow="app.main.Main", inputs=inputs)

    # Declarations

    def _mixin(self, name: str) -> str:
        """Return a facet to mix in: a record, one with a block or script, or an event facet."""
        kind = self.random.choice(["record", "facet", "script", "event facet"])
        params = tuple(replace(slot, default=self._write.literal(slot.type)) for slot in self._params())
        returns = () if kind == "record" else self._slots("r", 2)
        given = frozenset(slot.name for slot in returns)
        callee = Callee(
            kind="event facet" if kind == "event facet" else "facet",
            namespace="lib",
            name=name,
            params=params,
            returns=returns,
            certain=given,
            cost=3,
        )
        body = ""
        if kind == "facet":
            readable = [Readable(f"$.{p.name}", p.type) for p in params]
            values = ", ".join(f"{r.name} = {self._write.argument(r.type, readable)}" for r in returns)
            body = f" andThen {{ yield {name}({values}) }}"
        elif kind == "script":
            lines = "\n".join(f'        result["{r.name}"] = {self._python(r.type, params)}' for r in returns)
            body = f" script {{\n{lines}\n    }}"
        text = self._declare(callee, body)
        self.mixins.append(callee)
        return text

    def _reader(self, name: str) -> str:
        """Return a facet that takes a step as its value."""
        candidates = [c for c in self.callees if c.kind == "facet" and c.name.startswith("F")]
        target = self.random.choice(candidates)
        readable = [Readable(f"$.of.{s.name}", s.type) for s in target.returns if s.name in target.certain]
        for alias, mixin in target.aliased:
            readable += [Readable(f"$.of.{alias}.{s.name}", s.type) for s in (*mixin.returns, *mixin.params)]
        returns = (*self._slots("r", 3), Slot(name="seen", type=STRING))
        params = (*self._params(), Slot(name="of", type=target.name))
        readable += [Readable(f"$.{p.name}", p.type) for p in params[:-1]]
        everything = " ++ ".join(['""', *(f"({r.text})" for r in readable)])
        values = [f"{r.name} = {self._write.argument(r.type, readable)}" for r in returns[:-1]]
        body = f" andThen {{ yield {name}({', '.join([*values, f'seen = {everything}'])}) }}"
        callee = Callee(
            kind="facet",
            namespace="lib",
            name=name,
            params=params,
            returns=returns,
            certain=frozenset(r.name for r in returns),
            cost=2,
        )
        return self._declare(callee, body)

    def _implicit(self, namespace: str) -> str:
        """Return an implicit of a namespace, for a facet whose implicits all give the same params."""
        if not self._chance(0.5):
            return ""
        candidates = [c for c in self.callees if c.kind != "schema" and not c.name.startswith(("M", "T"))]
        if self._chance(0.7):
            candidates = candidates[:1]
        callee = self.random.choice(candidates)
        names = sorted(callee.given) or [p.name for p in callee.params if p.type in TYPES and p.name != "items"][:2]
        if not callee.given and callee in self.callees:
            self.callees[self.callees.index(callee)] = replace(callee, given=frozenset(names))
        params = {p.name: p for p in callee.params}
        # What a plain mixin of the signature gives is given before any implicit is asked.
        values = ", ".join(f"{n} = {self._write.literal(params[n].type)}" for n in names if n in params)
        indent = "    " if namespace else ""
        return f"{indent}implicit i{len(namespace)} = lib.{callee.name}({values})\n"

    def _composite(self, kind: str, namespace: str, name: str, most_steps: int) -> str:
        """Return a declaration with mixins, a script in front, blocks and a catch, each of them perhaps."""
        params = (*self._params(), Slot(name="items", type=self.random.choice(ARRAYS)))
        returns = tuple(
            replace(slot, default=self._write.literal(slot.type)) if self._chance(0.4) else slot
            for slot in self._slots("r", 3)
        )
        callee = self._with_mixins(
            Callee(kind=kind, namespace=namespace, name=name, params=params, returns=returns), most_steps
        )
        budget = Budget(most_steps)
        readable = [Readable(f"$.{p.name}", p.type) for p in params]
        script, entries = self._pre_script(callee) if self._chance(0.25) else ("", [])
        readable += entries
        for alias, mixin in callee.aliased:
            readable += [Readable(f"$.{alias}.{s.name}", s.type) for s in (*mixin.returns, *mixin.params)]
        scope = Scope(readable=tuple(readable), targets=(callee,))
        certain = {slot.name for slot in returns if slot.default is not None}
        rescue, rescued = "", set[str]()
        with_catch = self._chance(0.3)
        self._caught += with_catch
        text, fields = self._clauses_of(callee, scope, budget, [1, 1, 2, 3] if kind != "event facet" else [0, 1])
        self._caught -= with_catch
        certain |= {s.name for s in returns} if kind == "event facet" else fields.get(name, set())
        if with_catch:
            rescue, rescued = self._catch_of_declaration(callee, budget)
            certain &= rescued | {slot.name for slot in returns if slot.default is not None}
        callee = replace(callee, certain=frozenset(certain), cost=callee.cost + 1 + most_steps - budget.left)
        return self._declare(callee, f"{script}{text}{rescue}")

    def _clauses_of(
        self, callee: Callee, scope: Scope, budget: Budget, counts: Sequence[int]
    ) -> tuple[str, dict[str, set[str]]]:
        """Return the declaration's clauses; a `when` reads the steps of plain blocks before it."""
        texts, given, earlier = [""], dict[str, set[str]](), list[Readable]()
        self.container = callee
        for n in range(self.random.choice(counts)):
            self.prefix = "xyz"[n]
            if self._chance(0.3):
                text, fields = self._when("andThen when", scope.with_readable(earlier), budget)
            else:
                text, fields = self._clause(scope, budget)
                earlier += self.made if text.startswith("andThen {") else []
            texts.append(text)
            for target, names in fields.items():
                given.setdefault(target, set()).update(names)
        self.prefix = ""
        return " ".join(texts), given

    def _with_mixins(self, callee: Callee, most_steps: int) -> Callee:
        """Return the signature with mixins: as sub-steps under an alias, or plain, filling params."""
        if most_steps < 10 or not self._chance(0.4):
            return callee
        # Only what every caller gives may be read where the arguments of mixins are worked out.
        sure = [Readable(f"$.{p.name}", p.type) for p in callee.params if p.default is None]
        texts: list[str] = []
        aliased: list[tuple[str, Callee]] = []
        given: set[str] = set()
        for n, mixin in enumerate(self.random.sample(self.mixins, self.random.randint(1, 2))):
            if self._chance(0.6):
                arguments = ", ".join(
                    f"{p.name} = {self._write.argument(p.type, sure)}" for p in mixin.params if self._chance(0.5)
                )
                texts.append(f" with {mixin.name}({arguments}) as x{n}")
                aliased.append((f"x{n}", mixin))
            else:
                fitting = self._fitting(mixin, callee)
                texts.append(
                    f" with {mixin.name}({', '.join(f'{p.name} = {self._write.literal(p.type)}' for p in fitting)})"
                )
                given |= {p.name for p in fitting} & {p.name for p in callee.params}
        return replace(
            callee,
            aliased=tuple(aliased),
            given=frozenset(given),
            mixin_text="".join(texts),
            cost=callee.cost + 3 * len(aliased),
        )

    def _fitting(self, mixin: Callee, callee: Callee) -> list[Slot]:
        """Params of a mixin that the callee has with the same type, or not at all."""
        types = {slot.name: slot.type for slot in callee.params}
        return [p for p in mixin.params if types.get(p.name, p.type) == p.type and self._chance(0.7)]

    def _pre_script(self, callee: Callee) -> tuple[str, list[Readable]]:
        """Return a script in front of the blocks, and what it gives them."""
        always = tuple(p for p in callee.params if p.default is None and p.name not in callee.given)
        entries = [Readable("$.k0", INT), Readable("$.k1", STRING), Readable("$.k2", JSON)]
        lines = [
            'result["k0"] = len(params)',
            'result["k1"] = "-".join(sorted(params))',
            f'result["k2"] = {{"n": {self._python(INT, always)}}}',
        ]
        # An entry takes the place of a param, and is the value of a return that nothing else gives.
        for slot in (*callee.params[:1], *callee.returns[:1]):
            if self._chance(0.4):
                lines.append(f'result["{slot.name}"] = {self._python(slot.type, always)}')
        if self._write.risky() or self._write.risky():
            lines.append(self.random.choice(['raise ValueError("no")', 'result["k0"] = 1 // 0']))
        body = "\n".join(f"        {line}" for line in lines)
        return f" script {{\n{body}\n    }}", entries

    def _catch_of_declaration(self, callee: Callee, budget: Budget) -> tuple[str, set[str]]:
        """Return the catch of a declaration: it sees the error and the params."""
        readable = [Readable(f"$.{p.name}", p.type) for p in callee.params]
        readable += [Readable("$.error_type", STRING), Readable('($.error == "")', BOOLEAN)]
        text, given = self._catch(Scope(readable=tuple(readable), targets=(callee,)), budget)
        return f" {text}", given.get(callee.name, set())
