"""Random programs of bodies in bodies that read steps at every depth, most of them events: what waits for what, at its
worst. Hand-written JSON, statements in any order; no reference leads in a circle.
"""

from random import Random

from afl.compiled.program import Node

_DEEPEST = 3
#: Steps after which a branching program has bodies no more.
_MANY_STEPS = 12

_V: Node = {"type": "FacetDecl", "name": "V", "params": [{"name": "v", "type": "Json"}]}
_E: Node = {
    "type": "EventFacetDecl",
    "name": "E",
    "params": [{"name": "v", "type": "Json"}],
    "returns": [{"name": "r", "type": "Json"}],
}
_DIVISION_BY_ZERO: Node = {"type": "BinaryExpr", "operator": "/", "left": 1, "right": 0}


def nested_program(seed: int) -> Node:
    """Return the same seed gives the same program, with a workflow `W`."""
    writer = _Writer(Random(seed))
    workflow = {
        "type": "WorkflowDecl",
        "name": "W",
        "params": [{"name": "xs", "type": "Json", "default": [1, 2]}],
        "returns": [{"name": "r", "type": "Json"}],
        "body": writer.blocks((), 0),
    }
    return {"declarations": [_V, _E, workflow]}


def branching_program(seed: int, *, faulty: bool = True) -> Node:
    """Return the same with `when`, catches, sys.log and sys.assert; `faulty`: some steps fail by themselves."""
    writer = _BranchingWriter(Random(seed), faulty=faulty)
    workflow: dict[str, object] = {
        "type": "WorkflowDecl",
        "name": "W",
        "params": [{"name": "xs", "type": "Json", "default": [1, 2]}],
        "returns": [{"name": "r", "type": "Json"}],
        "body": writer.blocks((), 0),
    }
    if faulty and seed % 3 == 0:
        workflow["catch"] = writer.catch((), 0, {"type": "InputRef", "path": ["error"]})
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


class _BranchingWriter(_Writer):
    def __init__(self, random: Random, *, faulty: bool) -> None:
        super().__init__(random)
        self._faulty = faulty

    def blocks(self, around: tuple[str, ...], depth: int) -> list[Node]:
        blocks: list[Node] = []
        seen = around
        for _ in range(self._random.randint(1, 3)):
            if self._random.random() < 0.4:
                # The first blocks are those of the declaration: a `when` there sees the plain ones before it.
                blocks.append({"when": self._when(seen if depth == 0 else around, depth)})
                continue
            blocks.append(self._block(around, depth))
            if "foreach" not in blocks[-1]:
                seen = (*seen, *(str(s["name"]) for s in blocks[-1]["steps"] if "name" in s))
        return blocks

    def catch(self, around: tuple[str, ...], depth: int, error: Node) -> Node:
        if self._random.random() < 0.4:
            when = self._when(around, depth)
            is_by_zero = {"type": "BinaryExpr", "operator": "contains", "left": error, "right": "zero"}
            return {"when": {"cases": [{**self._body(around, depth), "condition": is_by_zero}, *when["cases"]]}}
        return self._body(around, depth)

    def _when(self, visible: tuple[str, ...], depth: int) -> Node:
        cases = [
            {**self._body(visible, depth), "condition": self._condition(visible)}
            for _ in range(self._random.randint(0, 2))
        ]
        return {"cases": [*cases, {**self._body(visible, depth), "default": True}]}

    def _body(self, around: tuple[str, ...], depth: int) -> Node:
        # Two steps deeper than a block, so that programs stay small.
        body = dict(self._block(around, depth + 1))
        body.pop("foreach", None)
        return body

    def _condition(self, visible: tuple[str, ...]) -> object:
        read = self._read(visible) if visible else True
        return self._random.choice(
            (
                True,
                {"type": "BinaryExpr", "operator": "!=", "left": read, "right": 0},
                {"type": "BinaryExpr", "operator": "==", "left": read, "right": [1]},
                _DIVISION_BY_ZERO,
                read,
            )
        )

    def _block(self, around: tuple[str, ...], depth: int) -> Node:
        block = dict(super()._block(around, depth))
        if "foreach" in block and "steps" in block and not around:
            block["foreach"] = {**block["foreach"], "iterable": {"type": "InputRef", "path": ["xs"]}}
        visible = (*around, *(str(step["name"]) for step in block["steps"]))
        statements = list(block["steps"])
        if self._random.random() < 0.2:
            read = {"name": "read", "value": self._read(visible)}
            statements.append({"type": "SysLogStmt", "args": [read]})
        if self._random.random() < 0.2:
            holds: object = {"type": "BinaryExpr", "operator": "!=", "left": self._read(visible), "right": 0}
            if self._faulty and self._random.random() < 0.2:
                holds = {"type": "BinaryExpr", "operator": "==", "left": self._read(visible), "right": 0}
            statements.append({"type": "SysAssertStmt", "condition": holds})
        self._random.shuffle(statements)
        block["steps"] = statements
        return block

    def _step(self, visible: tuple[str, ...], depth: int) -> Node:
        if self._steps > _MANY_STEPS:
            depth = _DEEPEST
        step = dict(super()._step(visible, depth))
        name = str(step["name"])
        if not self._faulty and step["call"]["args"][0]["value"] is _DIVISION_BY_ZERO:
            step["call"] = {**step["call"], "args": [{"name": "v", "value": [1]}]}
        if self._random.random() < (0.35 if depth < _DEEPEST else 0.05):
            error = {"type": "StepRef", "path": [name, "error"]}
            step["catch"] = self.catch(visible, max(depth, _DEEPEST - 1), error)
        return step
