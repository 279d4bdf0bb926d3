"""The sources of the params of the interpreter's steps."""

from collections.abc import Mapping, Sequence
from functools import partial

from tests.random_programs.declarations import Declaration, Declarations
from tests.random_programs.expressions import Failure, Names, Node, Undecided, Value, all_of, evaluate
from tests.random_programs.running_steps import Step


class Binding:
    """Fills the params of steps: the call, mixins of the call, mixins of the signature, implicits, defaults."""

    def __init__(self, declarations: Declarations) -> None:
        self._declarations = declarations

    def bind_root(self, step: Step, inputs: Mapping[str, Value]) -> None:
        """Bind a started workflow's parameters: its inputs, and nothing from implicits."""
        self._bind(step, dict(inputs), {}, {})

    def bind(self, step: Step, arguments: Mapping[str, Value], *, caller: Declaration) -> None:
        """Bind the parameters of a mixin's sub-step."""
        self._bind(step, dict(arguments), {}, self._implicit_values(step, caller))

    def bind_call(self, step: Step, call: Node, names: Names, *, caller: Declaration) -> None:
        """Bind the parameters of a step that a statement calls."""
        params = arguments_of(call, names)
        aliased: dict[str, dict[str, Value]] = {}
        for mixin in call.get("mixins", []):
            if "alias" in mixin:
                aliased[mixin["alias"]] = arguments_of(mixin, names)
            else:
                params = self._plain_arguments(mixin, names, params) | params
        self._bind(step, params, aliased, self._implicit_values(step, caller))

    def _implicit_values(self, step: Step, caller: Declaration) -> dict[str, Value]:
        call = self._declarations.implicit(step.declaration, caller)
        return arguments_of(call, Names([], {})) if call is not None else {}

    def _bind(
        self,
        step: Step,
        params: dict[str, Value],
        aliased: Mapping[str, dict[str, Value]],
        implicit: Mapping[str, Value],
    ) -> None:
        step.params = params
        plain = [mixin for mixin in step.declaration.mixins if "alias" not in mixin]
        named = [argument["name"] for mixin in plain for argument in mixin.get("args", [])]
        declared = [slot["name"] for slot in step.declaration.params]
        for name in declared:
            if name in implicit and name not in params and name not in named:
                params[name] = implicit[name]
        self.fill_defaults([slot for slot in step.declaration.params if slot["name"] not in named], params, params)
        scope = dict(params)
        for mixin in plain:
            for name, value in self._plain_arguments(mixin, Names([scope], {}), params).items():
                params.setdefault(name, value)
        own_aliases = {mixin["alias"] for mixin in step.declaration.mixins if "alias" in mixin}
        step.mixin_arguments = self.mixin_arguments(step)
        step.given_by_call = {alias: values for alias, values in aliased.items() if alias in own_aliases}
        params.update({alias: dict(values) for alias, values in aliased.items()})

    @staticmethod
    def mixin_arguments(step: Step) -> dict[str, dict[str, Value]]:
        """Return the arguments of the mixins with an alias, worked out from the step's params."""
        names = Names([step.params], {})
        return {mixin["alias"]: arguments_of(mixin, names) for mixin in step.declaration.mixins if "alias" in mixin}

    @staticmethod
    def _plain_arguments(mixin: Node, names: Names, params: Mapping[str, Value]) -> dict[str, Value]:
        """Return a plain mixin's arguments. An unused one may be evaluated or not, so it must not fail."""
        try:
            return arguments_of(mixin, names)
        except Failure:
            if all(argument["name"] not in params for argument in mixin["args"]):
                raise
            raise Undecided from None

    @staticmethod
    def fill_defaults(slots: Sequence[Node], into: dict[str, Value], params: Mapping[str, Value]) -> None:
        """Give each slot without a value its default, worked out from the parameters."""
        for slot in slots:
            if slot["name"] not in into and "default" in slot:
                into[slot["name"]] = evaluate(slot["default"], Names([params], {}))


def arguments_of(call: Node, names: Names) -> dict[str, Value]:
    """Return the arguments of a call, mixin or sys.log; all are evaluated, whatever is wrong with one."""
    arguments = call.get("args", [])
    values = all_of([partial(evaluate, argument["value"], names) for argument in arguments])
    return {argument["name"]: value for argument, value in zip(arguments, values, strict=True)}
