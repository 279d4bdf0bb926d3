"""Random programs of facets that mix one another in, with events at every depth, yields to aliases, and steps that are
read through references. Hand-written JSON; no facet is mixed into itself.
"""

from random import Random

from afl.compiled.program import Node

_FACETS = 4

_V: Node = {"type": "FacetDecl", "name": "V", "params": [{"name": "v", "type": "Json"}]}
_JSON = [{"name": "r", "type": "Json"}]


def mixed_program(seed: int) -> Node:
    """Return the same seed gives the same program, with a workflow `W`."""
    writer = _Writer(Random(seed))
    facets = [writer.facet(number) for number in range(_FACETS)]
    return {"declarations": [_V, *facets, writer.reader(), writer.workflow(), _implicit()]}


def _implicit() -> Node:
    return {"type": "ImplicitDecl", "name": "i", "call": {"target": "F0", "args": [_arg("w", 7)]}}


def _arg(name: str, value: object) -> Node:
    return {"name": name, "value": value}


def _input(*path: str) -> Node:
    return {"type": "InputRef", "path": list(path)}


def _step(*path: str) -> Node:
    return {"type": "StepRef", "path": list(path)}


def _array(*elements: object) -> Node:
    return {"type": "ArrayLiteral", "elements": list(elements)}


class _Writer:
    def __init__(self, random: Random) -> None:
        self._random = random
        #: The aliases of each facet, which is called F and its number.
        self._aliases: list[list[str]] = []

    def facet(self, number: int) -> Node:
        random = self._random
        mixed = [other for other in range(number) if random.random() < 0.6]
        self._aliases.append([f"a{other}" for other in mixed])
        facet: dict[str, object] = {
            "type": random.choice(["FacetDecl", "EventFacetDecl"]),
            "name": f"F{number}",
            "params": [{"name": "v", "type": "Json", "default": number}, {"name": "w", "type": "Json", "default": 0}],
            "returns": _JSON,
            "mixins": [self._mixin(other) for other in mixed],
        }
        if random.random() < 0.3:
            facet["mixins"] = [*facet["mixins"], {"target": "V", "args": [_arg("w", _input("v"))]}]  # type: ignore[misc]
        if random.random() < 0.6:
            facet["body"] = self._body(number)
        if random.random() < 0.3:
            facet["catch"] = {"yield": {"call": {"target": f"F{number}", "args": [_arg("r", _array("caught"))]}}}
        return facet

    def _mixin(self, other: int) -> Node:
        random = self._random
        value: object = _input("v")
        if random.random() < 0.04:
            value = {"type": "BinaryExpr", "operator": "/", "left": 1, "right": 0}
        args = [_arg("v", value)] if random.random() < 0.6 else []
        return {"type": "MixinSig", "target": f"F{other}", "alias": f"a{other}", "args": args}

    def _body(self, number: int) -> Node:
        random, aliases = self._random, self._aliases[number]
        steps: list[Node] = []
        for index in range(random.randint(1, 2)):
            read = _input(random.choice(aliases)) if aliases else _input("w")
            callee = f"F{random.randrange(number)}" if number and random.random() < 0.6 else "V"
            call: dict[str, object] = {"target": callee, "args": [_arg("v", _array(read))]}
            if random.random() < 0.3:
                call["mixins"] = [{"target": "V", "alias": "extra", "args": [_arg("k", _input("v"))]}]
            steps.append({"name": f"s{index}", "call": call})
        own = {"call": {"target": f"F{number}", "args": [_arg("r", _array(_step("s0", "v")))]}}
        to_alias = [
            {"call": {"target": alias, "args": [_arg("r", _array(_input("v")))]}}
            for alias in aliases
            if random.random() < 0.5
        ]
        return {"steps": steps, "yields": [own, *to_alias]}

    def reader(self) -> Node:
        last = self._aliases[-1]
        alias = [_input("of", self._random.choice(last), "v")] if last else []
        return {
            "type": "FacetDecl",
            "name": "R",
            "params": [{"name": "of", "type": f"F{_FACETS - 1}"}],
            "returns": _JSON,
            "body": {
                "steps": [{"name": "s", "call": {"target": "F0", "args": [_arg("v", _input("of", "v"))]}}],
                "yield": {"call": {"target": "R", "args": [_arg("r", _array(_input("of", "w"), *alias))]}},
            },
        }

    def workflow(self) -> Node:
        made = {"name": "made", "call": {"target": f"F{_FACETS - 1}", "args": [_arg("v", _input("x"))]}}
        read = {"name": "read", "call": {"target": "R", "args": [_arg("of", _step("made"))]}}
        return {
            "type": "WorkflowDecl",
            "name": "W",
            "params": [{"name": "xs", "type": "Json", "default": [1, 2]}],
            "returns": _JSON,
            "mixins": [{"target": "F1", "alias": "first"}] if self._random.random() < 0.5 else [],
            "body": {
                "foreach": {"variable": "x", "iterable": _input("xs")},
                "steps": [read, made],
                "yield": {"call": {"target": "W", "args": [_arg("r", _array(_step("read", "r")))]}},
            },
        }
