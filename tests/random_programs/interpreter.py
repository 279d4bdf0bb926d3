"""A recursive interpreter of compiled AFL: deliberately simple, and the judge of the engine's outputs.

It runs one thing after the other, in the order of the text: blocks, iterations, statements (the body of a statement
with it), then the block's yields. That is exactly the order in which yields are to be merged, whatever order an engine
works in. It knows the language without mixins, implicits, scripts, conditions and catch, and shares no code with afl.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from tests.random_programs.expressions import EVALUATION, Failure, Names, Node, Value, all_of, evaluate, failure, joined

#: Does an agent's work: qualified name of the event facet and its payload to the result. May raise `Failure`.
Answer = Callable[[str, Mapping[str, Value]], Mapping[str, Value]]

_CALLABLE = frozenset({"FacetDecl", "EventFacetDecl", "WorkflowDecl", "SchemaDecl"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """A facet, event facet, workflow or schema, and where its own names are looked up."""

    namespace: str
    uses: Sequence[str]
    node: Node

    @property
    def qualified_name(self) -> str:
        name = self.node["name"]
        return f"{self.namespace}.{name}" if self.namespace else name


@dataclass(slots=True, kw_only=True)
class Step:
    """A running step: its attributes, and the yields that it will capture, in merge order."""

    declaration: Declaration
    params: dict[str, Value] = field(default_factory=dict)
    returns: dict[str, Value] = field(default_factory=dict)
    captured: list[Mapping[str, Value]] = field(default_factory=list)

    def attributes(self) -> dict[str, Value]:
        """What readers of the step see: returns over params."""
        return self.params | self.returns

    def capture(self) -> None:
        """Merge the yields: the first value sets its field, arrays are joined, anything else is replaced."""
        merged: dict[str, Value] = {}
        for values in self.captured:
            for name, value in values.items():
                before = merged.get(name)
                merged[name] = before + value if isinstance(before, list) and isinstance(value, list) else value
        self.returns.update(merged)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a block runs: what its names mean, and the steps around it, innermost first."""

    declaration: Declaration
    names: Names
    enclosing: tuple[Step, ...]


class Interpreter:
    """Runs the workflows of one compiled program."""

    def __init__(self, program: Node, answer: Answer) -> None:
        self._declarations = {d.qualified_name: d for d in _declarations(program)}
        self._answer = answer

    def run(self, workflow: str, inputs: Mapping[str, Value]) -> dict[str, Value]:
        """The outputs of a workflow, given by its qualified name. Raises `Failure` when the run fails."""
        step = Step(declaration=self._declarations[workflow], params=dict(inputs))
        self._run_step(step, partial(self._run_callee_blocks, step))
        declared = {slot["name"] for slot in step.declaration.node.get("returns", [])}
        return {name: value for name, value in step.returns.items() if name in declared}

    def _run_step(self, step: Step, run_blocks: Callable[[], None]) -> None:
        """Take a step that has its arguments through its life."""
        node = step.declaration.node
        if node["type"] == "SchemaDecl":
            step.params, step.returns = {}, step.params
            return
        _fill_defaults(node.get("params", []), step.params, step.params)
        if node["type"] == "EventFacetDecl":
            step.returns.update(self._answer(step.declaration.qualified_name, step.params))
        run_blocks()
        step.capture()
        _fill_defaults(node.get("returns", []), step.returns, step.params)

    def _run_callee_blocks(self, step: Step) -> None:
        """The blocks of the declaration: they see its parameters and nothing of the caller."""
        names = Names([step.params], {})
        self._run_blocks(
            _as_list(step.declaration.node.get("body")),
            Place(declaration=step.declaration, names=names, enclosing=(step,)),
        )

    def _run_statement_blocks(self, step: Step, statement: Node, place: Place) -> None:
        """The statement's own blocks: they see the step's attributes first, then all that the statement sees."""
        attributes = step.attributes()
        names = Names([attributes, *place.names.scopes], {**place.names.steps, statement["name"]: attributes})
        self._run_blocks(
            _as_list(statement["body"]),
            Place(declaration=place.declaration, names=names, enclosing=(step, *place.enclosing)),
        )

    def _run_blocks(self, blocks: Sequence[Node], place: Place) -> None:
        _run_each([partial(self._run_block, block, place) for block in blocks])

    def _run_block(self, block: Node, place: Place) -> None:
        clause = block.get("foreach")
        if clause is None:
            self._run_statements(block, place)
            return
        elements = _elements(evaluate(clause["iterable"], place.names))
        _run_each([partial(self._run_iteration, block, place, {clause["variable"]: element}) for element in elements])

    def _run_iteration(self, block: Node, place: Place, variable: Mapping[str, Value]) -> None:
        names = Names([variable, *place.names.scopes], place.names.steps)
        self._run_statements(block, Place(declaration=place.declaration, names=names, enclosing=place.enclosing))

    def _run_statements(self, block: Node, place: Place) -> None:
        """Run the statements, then the yields; a failed statement stops those that read it, and the yields."""
        names = Names(place.names.scopes, place.names.steps)
        here = Place(declaration=place.declaration, names=names, enclosing=place.enclosing)
        failures: list[Failure] = []
        for statement in block.get("steps", []):
            try:
                names.steps[statement["name"]] = self._run_statement(statement, here)
            except Failure as error:
                failures.append(error)
                names.steps[statement["name"]] = error
        if failures:
            raise joined(failures)
        _run_each([partial(self._run_yield, give, here) for give in _yields(block)])

    def _run_statement(self, statement: Node, place: Place) -> dict[str, Value]:
        call = statement["call"]
        step = Step(declaration=self._resolve(call["target"], place.declaration), params=_arguments(call, place.names))
        if "body" in statement:
            self._run_step(step, partial(self._run_statement_blocks, step, statement, place))
        else:
            self._run_step(step, partial(self._run_callee_blocks, step))
        return step.attributes()

    def _run_yield(self, give: Node, place: Place) -> None:
        """Hand the values to the innermost enclosing step of that name."""
        target = give["call"]["target"].rpartition(".")[2]
        values = _arguments(give["call"], place.names)
        for step in place.enclosing:
            if step.declaration.node["name"] == target:
                step.captured.append(values)
                return

    def _resolve(self, target: str, user: Declaration) -> Declaration:
        """A callee: by its full name, from its user's namespace, from those it uses, or the only one of that name."""
        if "." in target:
            return self._declarations[target]
        for names in ([user.namespace], [*user.uses, ""], [d.namespace for d in self._declarations.values()]):
            found = {f"{name}.{target}".lstrip(".") for name in names} & self._declarations.keys()
            if len(found) == 1:
                return self._declarations[found.pop()]
        raise LookupError(f"{target} is not one declaration")


def _declarations(program: Node) -> Iterator[Declaration]:
    for node in program.get("declarations", []):
        if node["type"] == "Namespace":
            for inner in node.get("declarations", []):
                if inner["type"] in _CALLABLE:
                    yield Declaration(namespace=node["name"], uses=node.get("uses", []), node=inner)
        elif node["type"] in _CALLABLE:
            yield Declaration(namespace="", uses=[], node=node)


def _as_list(body: Any) -> list[Node]:
    """The blocks of a body: it has none, one, or a list of them."""
    if body is None:
        return []
    return list(body) if isinstance(body, list) else [body]


def _yields(block: Node) -> list[Node]:
    return list(block.get("yields", [block["yield"]] if "yield" in block else []))


def _elements(source: Value) -> list[Value]:
    """What a foreach goes through."""
    if source is None:
        return []
    if isinstance(source, list | dict):
        return list(source)
    raise failure(EVALUATION, f"foreach cannot go through {source!r}")


def _arguments(call: Node, names: Names) -> dict[str, Value]:
    arguments = call.get("args", [])
    values = all_of([partial(evaluate, argument["value"], names) for argument in arguments])
    return {argument["name"]: value for argument, value in zip(arguments, values, strict=True)}


def _fill_defaults(slots: Sequence[Node], into: dict[str, Value], params: Mapping[str, Value]) -> None:
    """Give each slot without a value its default, worked out from the parameters."""
    for slot in slots:
        if slot["name"] not in into and "default" in slot:
            into[slot["name"]] = evaluate(slot["default"], Names([params], {}))


def _run_each(parts: Sequence[Callable[[], None]]) -> None:
    """Run all parts, the ones after a failed one too; then fail if one did."""
    failures: list[Failure] = []
    for part in parts:
        try:
            part()
        except Failure as error:
            failures.append(error)
    if failures:
        raise joined(failures)
