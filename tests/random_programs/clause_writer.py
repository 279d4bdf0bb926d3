"""Writes the clauses and statements of random programs of the whole language."""

from collections.abc import Sequence
from dataclasses import replace

from tests.random_programs.expression_writer import BOOLEAN, JSON, MOST_ELEMENTS, STRING, TYPES, Readable
from tests.random_programs.generator import Budget, Callee, Generator, Scope, Slot

Given = dict[str, set[str]]


class ClauseWriter(Generator):
    """Knows `when`, catch, sys statements, scripts as blocks, mixins of calls, and steps as values."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        #: Whose blocks are being written.
        self.container: Callee | None = None
        #: Begins the names of the steps of a declaration's own blocks, one letter for each block.
        self.prefix = ""
        #: What the last plain block has made: its steps as later blocks may read them.
        self.made: list[Readable] = []
        self._caught = 0
        #: Facets made to be mixed in.
        self.mixins: list[Callee] = []

    # Clauses

    def _clause(self, scope: Scope, budget: Budget) -> tuple[str, Given]:
        if self.container is not None and self.container.returns and self._chance(0.1):
            return self._script(self.container), {}
        if scope.depth > 0 and self._chance(0.25):
            return self._when("andThen when", scope, budget)
        if self._chance(0.1) and budget.can_afford(MOST_ELEMENTS) and any(r.type == JSON for r in scope.readable):
            return self._foreach_of_any(scope, budget), {}
        return super()._clause(scope, budget)

    def _foreach_of_any(self, scope: Scope, budget: Budget) -> str:
        """Over a map, null or an array, and now and then a value that cannot be iterated."""
        block, indent = replace(scope, depth=scope.depth + 1), "    " * (scope.depth + 1)
        sources = [r.text for r in scope.readable if r.type == JSON]
        forms = [Readable(f"$.v{block.depth}", JSON), Readable(f"v{block.depth}", JSON)]
        budget.times *= MOST_ELEMENTS
        text, _ = self._block(replace(block.with_readable(forms), repeated=True), budget)
        budget.times //= MOST_ELEMENTS
        return f"andThen foreach v{block.depth} in {self.random.choice(sources)} {{\n{text}{indent}}}"

    def _when(self, opening: str, scope: Scope, budget: Budget) -> tuple[str, Given]:
        """Return a `when` or `catch when`; what every way through it gives is sure."""
        indent = "    " * (scope.depth + 2)
        inner = replace(scope, depth=scope.depth + 2)
        cases: list[str] = []
        for _ in range(self.random.randint(0, 2)):
            condition = self._write.expression(BOOLEAN, scope.readable, self.random.randint(0, 2))
            text, _ = self._block(inner, budget)
            cases.append(f"{indent}case {condition} => {{\n{text}{indent}}}\n")
        text, given = self._block(inner, budget)
        cases.append(f"{indent}case _ => {{\n{text}{indent}}}\n")
        return f"{opening} {{\n{''.join(cases)}{indent[4:]}}}", given if len(cases) == 1 else {}

    def _catch(self, scope: Scope, budget: Budget) -> tuple[str, Given]:
        if self._chance(0.4):
            return self._when("catch when", scope, budget)
        inner = replace(scope, depth=scope.depth + 1)
        text, given = self._block(inner, budget)
        return f"catch {{\n{text}{'    ' * inner.depth}}}", given

    def _script(self, container: Callee) -> str:
        lines = [f'        result["{slot.name}"] = {self._python(slot.type, ())}\n' for slot in container.returns[:2]]
        if self._chance(0.3):
            texts = [slot.name for slot in container.returns if slot.type == STRING]
            lines += [f'        result["{name}"] = str(len(params))\n' for name in texts]
        if self._write.risky() or (self._caught and self._chance(0.3)):
            lines.append("        {}['nothing']\n")
        return f"andThen script {{\n{''.join(lines)}    }}"

    def _python(self, wanted: str, params: Sequence[Slot]) -> str:
        """Return a Python expression for a value of a type, from the params given in any case."""
        fitting = [f'params["{p.name}"]' for p in params if p.type == wanted]
        return self.random.choice([*fitting, repr(self._write.json_value(wanted))])

    # Blocks

    def _block(self, scope: Scope, budget: Budget) -> tuple[str, Given]:
        lines: list[str] = []
        given: Given = {}
        indent = "    " * (scope.depth + 1)
        outer, container = scope, self.container
        for n in range(self.random.randint(0, 4 if scope.depth < 3 else 2)):
            if self._chance(0.15):
                lines.append(f"{indent}{self._system(scope)}\n")
                continue
            callee = self._choose(scope, budget)
            if callee is None:
                break
            budget.spend(callee.cost)
            name = f"{self.prefix}{'abcdefghijklmnop'[scope.depth]}{n}"
            text, attributes, inner = self._statement(name, callee, scope, budget)
            self.container = container
            lines.append(f"{indent}{text}\n")
            made = [Readable(f"{name}.{slot.name}", slot.type) for slot in attributes]
            made.append(Readable(name, f"step {callee.name}"))
            scope = scope.with_readable(made)
            for target, fields in inner.items():
                given.setdefault(target, set()).update(fields)
        if self.random.random() < 0.9:
            for receiver in self._yield_targets(scope):
                text, fields = self._yield(receiver, scope)
                lines.append(f"{indent}{text}{self._yield_to_mixin(receiver, scope)}\n")
                given.setdefault(receiver.name, set()).update(fields)
        self.made = list(scope.readable[len(outer.readable) :])
        return "".join(lines), given

    def _choose(self, scope: Scope, budget: Budget) -> Callee | None:
        """Something to call: it costs no more than may be spent, and the step that it wants is there."""
        steps = {r.type for r in scope.readable}
        affordable = [
            c
            for c in self.callees
            if budget.can_afford(c.cost) and all(p.type in TYPES or f"step {p.type}" in steps for p in c.params)
        ]
        if self._caught and self._chance(0.15):
            return next((c for c in affordable if c.name == "Moody"), None)
        wanting = [c for c in affordable if any(p.type not in TYPES for p in c.params)]
        if wanting and self._chance(0.5):
            return self.random.choice(wanting)
        return self.random.choice(affordable) if affordable else None

    def _system(self, scope: Scope) -> str:
        if self._chance(0.3):
            kind = self._write.any_type()
            return f"sys.log(it = {self._write.expression(kind, scope.readable, 1)})"
        if self._chance(0.5 if self._caught else 0.12):
            return f"sys.assert({self._write.expression(BOOLEAN, scope.readable, 1)})"
        kind = self._write.any_type()
        value = self._write.expression(kind, scope.readable, 0)
        return f"sys.assert({value} == {value})"

    # Statements

    def _statement(self, name: str, callee: Callee, scope: Scope, budget: Budget) -> tuple[str, list[Slot], Given]:
        """Return a step: its text, the attributes that are sure to have a value, and what its body gives to others."""
        mixins, mixed = self._mixins_of_call(callee, scope) if callee.kind != "schema" else ("", set())
        elsewhere = callee.given | mixed
        supplied = [
            p
            for p in callee.params
            if (p.default is None and p.name not in elsewhere and not self._risky())
            or p.type not in TYPES
            or self._chance(0.4)
        ]
        arguments = ", ".join(f"{p.name} = {self._argument(p, scope)}" for p in supplied)
        in_scope_of_use = scope.targets[-1].namespace == callee.namespace or self._chance(0.5)
        target = callee.name if in_scope_of_use else f"{callee.namespace}.{callee.name}"
        call = f"{name} = {target}({arguments}){mixins}"
        known = {p.name for p in supplied} | {p.name for p in callee.params if p.default is not None} | elsewhere
        if callee.kind == "schema":
            return call, [p for p in callee.params if p.name in {s.name for s in supplied}], {}
        with_catch = scope.depth < 4 and self._chance(0.6 if callee.name == "Moody" else 0.15)
        self._caught += with_catch
        certain, given = callee.certain, Given()
        if scope.depth < 3 and self._chance(0.25):
            self.container = callee
            text, given = self._statement_body(name, callee, known, scope, budget)
            call = f"{call} {text}"
            if callee.kind != "event facet":
                own = given.pop(callee.name, set())
                certain = frozenset(own | {slot.name for slot in callee.returns if slot.default is not None})
                # A catch of the declaration may have come instead.
                certain &= callee.certain | own if callee.certain else certain
        self._caught -= with_catch
        if with_catch:
            text, rescued = self._catch_of_statement(name, callee, scope, budget)
            call = f"{call} {text}"
            defaulted = {slot.name for slot in callee.returns if slot.default is not None}
            certain &= rescued.get(callee.name, set()) | defaulted
            given = {target: fields & rescued.get(target, set()) for target, fields in given.items()}
        return call, self._attributes(callee, known, certain), given

    def _argument(self, param: Slot, scope: Scope) -> str:
        if param.type not in TYPES:
            return self.random.choice([r.text for r in scope.readable if r.type == f"step {param.type}"])
        objects = [r.text for r in scope.readable if r.type.startswith("step S")]
        if param.type == JSON and objects and self._chance(0.5):
            return self.random.choice(objects)
        return self._write.argument(param.type, scope.readable)

    def _mixins_of_call(self, callee: Callee, scope: Scope) -> tuple[str, set[str]]:
        """Mixins on a call, and the params that they give."""
        if not self._chance(0.15):
            return "", set()
        mixin = self.random.choice(self.mixins)
        types = {slot.name: slot.type for slot in callee.params}
        fitting = [p for p in mixin.params if types.get(p.name, p.type) == p.type]
        arguments = ", ".join(f"{p.name} = {self._write.argument(p.type, scope.readable)}" for p in fitting)
        if self._chance(0.3):
            alias = self.random.choice(["own", *(alias for alias, _ in callee.aliased)])
            return f" with {mixin.name}({arguments}) as {alias}", set()
        return f" with {mixin.name}({arguments})", {p.name for p in fitting} & types.keys()

    def _catch_of_statement(self, name: str, callee: Callee, scope: Scope, budget: Budget) -> tuple[str, Given]:
        hidden = callee.attribute_names()
        readable = [Readable(f"{name}.error_type", STRING), Readable(f'({name}.error == "")', BOOLEAN)]
        targets = (callee, *scope.targets) if callee.returns else scope.targets
        inner = replace(scope.without_inputs(hidden).with_readable(readable), targets=targets, depth=scope.depth + 1)
        return self._catch(inner, budget)

    def _yield_to_mixin(self, receiver: Callee, scope: Scope) -> str:
        """`with alias(...)` after a yield to the declaration itself."""
        if receiver is not scope.targets[-1] or not self._chance(0.4):
            return ""
        texts = []
        for alias, mixin in receiver.aliased:
            values = [f"{s.name} = {self._write.argument(s.type, scope.readable)}" for s in mixin.returns[:1]]
            if values:
                texts.append(f" with {alias}({', '.join(values)})")
        return "".join(texts)
