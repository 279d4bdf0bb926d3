"""A recursive interpreter of compiled AFL: deliberately simple, and the judge of the engine's outputs.

It runs one thing after the other, in the order of the text: blocks, iterations, statements (the body of a statement
with it), then the block's yields. That is exactly the order in which yields are to be merged, whatever order an engine
works in. It knows the whole language, and shares no code with afl. Where the language lets several things happen it
raises `Undecided`.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from tests.random_programs.binding import Binding, arguments_of
from tests.random_programs.declarations import Declarations, as_list, steps_named, yields_of
from tests.random_programs.expressions import (
    EVALUATION,
    Failure,
    Names,
    Node,
    Undecided,
    Value,
    all_of,
    boolean,
    canonical,
    evaluate,
    failure,
    joined,
)
from tests.random_programs.running_steps import FailedStep, Place, Step, error_attributes
from tests.random_programs.trusted_scripts import run_script

#: Does an agent's work: qualified name of the event facet and its payload to the result. May raise `Failure`.
Answer = Callable[[str, Mapping[str, Value]], Mapping[str, Value]]


class Interpreter:
    """Runs the workflows of one compiled program."""

    def __init__(self, program: Node, answer: Answer) -> None:
        self._declarations = Declarations(program)
        self._binding = Binding(self._declarations)
        self._answer = answer

    def run(self, workflow: str, inputs: Mapping[str, Value]) -> dict[str, Value]:
        """Return the outputs of a workflow, given by its qualified name. Raises `Failure` when the run fails."""
        step = Step(declaration=self._declarations[workflow])
        self._live(step, lambda: self._binding.bind_root(step, inputs), partial(self._run_callee_blocks, step))
        declared = {slot["name"] for slot in step.declaration.returns}
        return {name: value for name, value in step.returns.items() if name in declared}

    # A step's life

    def _live(
        self,
        step: Step,
        bind: Callable[[], None],
        run_blocks: Callable[[], None],
        own_catch: Callable[[Failure], None] | None = None,
    ) -> None:
        """Take a step through its life; `own_catch` is what its statement has instead of its declaration's catch."""
        try:
            self._bind(step, bind)
            if step.is_schema:
                step.params, step.returns = {}, step.params
            else:
                self._run_pre_script(step)
                self._run_mixins(step)
                if step.declaration.node["type"] == "EventFacetDecl":
                    step.returns.update(self._answer(step.declaration.qualified_name, step.params))
                run_blocks()
        except Failure as error:
            if own_catch is not None:
                own_catch(error)
            elif "catch" in step.declaration.node:
                self._run_catch_of_callee(step, error)
            else:
                raise
        step.capture()
        for slot in step.declaration.returns:
            if slot["name"] not in step.returns and slot["name"] in step.script_entries:
                step.returns[slot["name"]] = step.script_entries[slot["name"]]
        self._binding.fill_defaults(step.declaration.returns, step.returns, step.params)

    def _bind(self, step: Step, bind: Callable[[], None]) -> None:
        try:
            bind()
        except Failure:
            step.forget(also_params=True)
            raise

    def _run_pre_script(self, step: Step) -> None:
        script = step.declaration.node.get("pre_script")
        if script is not None:
            try:
                step.script_entries = run_script(script["code"], step.params)
            except Failure:
                step.forget(also_params=False)
                raise
            step.params.update(step.script_entries)
            # Whether the arguments of mixins were worked out before or after the script is not settled.
            if not equal_arguments(self._binding.mixin_arguments(step), step.mixin_arguments):
                raise Undecided

    def _run_mixins(self, step: Step) -> None:
        """Run the sub-steps of the signature; none of them sees anything but its own attributes."""
        mixins = [mixin for mixin in step.declaration.mixins if "alias" in mixin]
        try:
            run_each([partial(self._run_mixin, step, mixin) for mixin in mixins])
        except Failure:
            step.forget(also_params=False)
            raise

    def _run_mixin(self, step: Step, mixin: Node) -> None:
        declaration = self._declarations.resolve(mixin["target"], step.declaration)
        part, arguments = Step(declaration=declaration), step.mixin_arguments[mixin["alias"]]
        bind = partial(self._binding.bind, part, arguments, caller=step.declaration)
        try:
            self._live(part, bind, partial(self._run_callee_blocks, part))
        except Failure as error:
            raise error.at(mixin["alias"]) from error
        step.mixins[mixin["alias"]] = part
        step.params[mixin["alias"]] = part.attributes() | step.given_by_call.get(mixin["alias"], {})

    # Catch

    def _run_catch_of_callee(self, step: Step, error: Failure) -> None:
        """Run the declaration's catch: it sees the error and the params, and no steps of the blocks."""
        names = Names([error_attributes(error), step.params], {})
        place = Place(declaration=step.declaration, names=names, enclosing=(step,))
        self._run_block(step.declaration.node["catch"], place)

    def _run_catch_of_statement(self, step: Step, statement: Node, place: Place, error: Failure) -> None:
        steps = {statement["name"]: FailedStep(step, error)}
        self._run_block(statement["catch"], place.inside((step.attributes(),), steps, step))

    # Blocks

    def _run_callee_blocks(self, step: Step) -> None:
        """Run the blocks of the declaration: they see its params and nothing of the caller. A `when` sees the steps of
        the plain blocks before it, too.
        """
        place = Place(declaration=step.declaration, names=Names([step.params], {}), enclosing=(step,))
        visible: dict[str, Step | Failure] = {}
        of_failed: dict[str, Failure] = {}
        failures: list[Failure] = []
        for block in as_list(step.declaration.node.get("body")):
            here = place.inside((), visible) if "when" in block else place.inside()
            try:
                self._run_block(block, here)
                self._refuse_steps_of_failed(block, of_failed, here)
            except Failure as error:
                failures.append(error)
                if is_plain(block):
                    of_failed.update({s["name"]: error for s in block.get("steps", []) if "name" in s})
            if is_plain(block):
                names = {s["name"] for s in block.get("steps", []) if "name" in s}
                visible.update({name: here.names.steps[name] for name in names if name in here.names.steps})
        if failures:
            raise joined(failures)

    def _refuse_steps_of_failed(self, block: Node, of_failed: Mapping[str, Failure], place: Place) -> None:
        """Note that a failed block may or may not have made the steps that a later `when` waits for."""
        waited = [of_failed[name] for name in steps_named(block) if "when" in block and name in of_failed]
        if waited:
            place.enclosing[0].is_unsettled = True
            raise joined(waited)

    def _run_statement_blocks(self, step: Step, statement: Node, place: Place) -> None:
        """Run the statement's own blocks: they see the step's attributes first, then all that the statement sees."""
        inner = place.inside((step.attributes(),), {statement["name"]: step}, step)
        run_each([partial(self._run_block, block, inner.inside()) for block in as_list(statement["body"])])

    def _run_block(self, block: Node, place: Place) -> None:
        """Run a block of any form. A foreach and a `when` fail with one of their parts, and yet each iteration and each
        case is a block of its own (language reference, 4.3, 4.4): what the others yielded counts (4.7).
        """
        if "foreach" in block:
            self._run_foreach(block, place)
        elif "when" in block:
            self._run_when(block["when"], place)
        else:
            self._run_one_block(block, place)

    def _run_one_block(self, block: Node, place: Place) -> None:
        """Run a script or statements. What is yielded to the outside from within a block that fails is not settled."""
        before = [len(step.captured) for step in place.enclosing]
        try:
            if "script" in block:
                container = place.enclosing[0]
                values = run_script(block["script"]["code"], container.attributes())
                container.receive(container.declaration.name, values)
            else:
                self._run_statements(block, place)
        except Failure:
            for step, count in zip(place.enclosing, before, strict=True):
                step.is_unsettled = step.is_unsettled or len(step.captured) > count
            raise

    def _run_foreach(self, block: Node, place: Place) -> None:
        clause = block["foreach"]
        elements = elements_of(evaluate(clause["iterable"], place.names))
        variables: list[dict[str, Value]] = [{clause["variable"]: element} for element in elements]
        run_each([partial(self._run_one_block, block, place.inside((variable,))) for variable in variables])

    def _run_when(self, when: Node, place: Place) -> None:
        """Run every case whose condition is true; the default if none is."""
        refuse_failed([case.get("condition") for case in when["cases"]], place.names)
        chosen = [case for case in when["cases"] if "condition" in case and is_true(case["condition"], place.names)]
        if not chosen:
            chosen = [case for case in when["cases"] if "condition" not in case]
        run_each([partial(self._run_one_block, case, place.inside()) for case in chosen])

    # Statements

    def _run_statements(self, block: Node, place: Place) -> None:
        """Run the statements, then the yields; a failed statement stops those that read it, and the yields."""
        failures: list[Failure] = []
        for statement in block.get("steps", []):
            try:
                self._run_statement(statement, place)
            except Failure as error:
                located = error.at(statement.get("name", ""))
                failures.append(located)
                if "name" in statement:
                    place.names.steps[statement["name"]] = located
        if failures:
            raise joined(failures)
        run_each([partial(self._run_yield, give, place) for give in yields_of(block)])

    def _run_statement(self, statement: Node, place: Place) -> None:
        refuse_failed([statement.get(part) for part in ("call", "args", "condition")], place.names)
        match statement["type"]:
            case "SysLogStmt":
                arguments_of(statement, place.names)
            case "SysAssertStmt":
                if not boolean(evaluate(statement["condition"], place.names)):
                    raise failure("AssertionError", "asserted")
            case _:
                place.names.steps[statement["name"]] = self._run_step(statement, place)

    def _run_step(self, statement: Node, place: Place) -> Step:
        call = statement["call"]
        step = Step(declaration=self._declarations.resolve(call["target"], place.declaration))
        run_blocks = partial(self._run_callee_blocks, step)
        if "body" in statement:
            run_blocks = partial(self._run_statement_blocks, step, statement, place)
        own_catch = None
        if "catch" in statement:
            own_catch = partial(self._run_catch_of_statement, step, statement, place)
        bind = partial(self._binding.bind_call, step, call, place.names, caller=place.declaration)
        self._live(step, bind, run_blocks, own_catch)
        return step

    def _run_yield(self, give: Node, place: Place) -> None:
        """Hand the values to the innermost enclosing step that the target means."""
        target = give["call"]["target"].rpartition(".")[2]
        values = arguments_of(give["call"], place.names)
        for step in place.enclosing:
            if step.place_for(target) is not None:
                step.receive(target, values)
                return


def equal_arguments(one: Mapping[str, dict[str, Value]], other: Mapping[str, dict[str, Value]]) -> bool:
    return all(canonical(values) == canonical(other[alias]) for alias, values in one.items())


def is_plain(block: Node) -> bool:
    return not block.keys() & {"foreach", "when", "script"}


def is_true(condition: Node, names: Names) -> bool:
    """Whether a case's condition holds; one that cannot be evaluated does not."""
    try:
        return evaluate(condition, names) is True
    except Failure:
        return False


def refuse_failed(nodes: Sequence[object], names: Names) -> None:
    """Raise the failures of the steps named: what waits for them never starts."""
    failed = [found for name in steps_named(list(nodes)) if isinstance(found := names.steps.get(name), Failure)]
    if failed:
        raise joined(failed)


def elements_of(source: Value) -> list[Value]:
    """Return what a foreach goes through."""
    if source is None:
        return []
    if isinstance(source, list | dict):
        return list(source)
    raise failure(EVALUATION, f"foreach cannot go through {source!r}")


def run_each(parts: Sequence[Callable[[], None]]) -> None:
    """Run all parts, the ones after a failed one too; then fail if one did."""
    all_of(parts)


__all__ = ["Answer", "Interpreter", "Undecided"]
