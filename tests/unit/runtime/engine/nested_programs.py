"""Random programs of bodies in bodies that read steps at every depth, most of them events: what waits for what, at its
worst. Hand-written JSON, statements in any order; no reference leads in a circle."""

from random import Random

from afl.compiled import Node

_DEEPEST = 3

_V: Node = {"type": "FacetDecl", "name": "V", "params": [{"name": "v", "type": "Json"}]}
_E: Node = {
    "type": "EventFacetDecl",
    "name": "E",
    "params": [{"name": "v", "type": "Json"}],
    "returns": [{"name": "r", "type": "Json"}],
}
_DIVISION_BY_ZERO: Node = {"type": "BinaryExpr", "operator": "/", "left": 1, "right": 0}


def nested_program(seed: int) -> Node:
    """The same seed gives the same program, with a workflow `W`."""
    writer = _Writer(Random(seed))
    workflow = {
        "type": "WorkflowDecl",
        "name": "W",
        "params": [{"name": "xs", "type": "Json", "default": [1, 2]}],
        "returns": [{"name": "r", "type": "Json"}],
        "body": writer.blocks((), 0),
    }
    return {"declarations": [_V, _E, workflow]}


class _Writer:
    def __init__(self, random: Random) -> None:
        self._random = random
        self._steps = 0

    def blocks(self, around: tuple[str, ...], depth: int) -> list[Node]:
        return [self._block(around, depth) for _ in range(self._random.randint(1, 2))]

    def _block(self, around: tuple[str, ...], depth: int) -> Node:
        random = self._random
        block: dict[str, object] = {}
        if random.random() < 0.25:
            source = self._read(around) if around and random.random() < 0.7 else {"type": "InputRef", "path": ["xs"]}
            block["foreach"] = {"variable": f"x{depth}", "iterable": source}
        visible, steps = around, []
        for _ in range(random.randint(1, 3)):
            steps.append(self._step(visible, depth))
            visible = (*visible, str(steps[-1]["name"]))
        random.shuffle(steps)
        block["steps"] = steps
        if random.random() < 0.6:
            args = [{"name": "r", "value": {"type": "ArrayLiteral", "elements": [self._read(visible)]}}]
            block["yields"] = [{"call": {"target": random.choice("WVE"), "args": args}}]
        return block

    def _step(self, visible: tuple[str, ...], depth: int) -> Node:
        random = self._random
        name = f"s{self._steps}"
        self._steps += 1
        read = [self._read(visible) for _ in range(random.randint(0, 2)) if visible]
        value: Node = {"type": "ArrayLiteral", "elements": [*read, 1]}
        if random.random() < 0.04:
            value = _DIVISION_BY_ZERO
        target = "E" if random.random() < 0.6 else "V"
        step = {"name": name, "call": {"target": target, "args": [{"name": "v", "value": value}]}}
        if depth < _DEEPEST and random.random() < 0.45:
            return {**step, "body": self.blocks((*visible, name), depth + 1)}
        return step

    def _read(self, visible: tuple[str, ...]) -> Node:
        return {"type": "StepRef", "path": [self._random.choice(visible), "v"]}
