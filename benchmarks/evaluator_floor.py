"""The least that a workflow's steps cost: evaluate, count down, collect, in plain Python and nothing else.

For each step: one argument and one return are worked out, the steps that wait for it are counted down, and its record
goes to the batch that a store would write. Tables of states, blocks, telemetry and errors are what an engine adds;
benchmarks.evaluator compares the two.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Literal, TypeAlias

Shape: TypeAlias = Literal["chain", "wide", "fan_in"]
SHAPES: Final[tuple[Shape, ...]] = ("chain", "wide", "fan_in")

#: How many states a step passes on its way from created to complete.
_STATES_PASSED: Final = 18


class Step:
    """What is kept of a step."""

    __slots__ = ("id", "params", "returns", "state", "statement", "version", "workflow_id")

    id: str
    workflow_id: str
    statement: "Statement"
    state: str
    params: Mapping[str, int]
    returns: Mapping[str, int]
    version: int


class Statement:
    """A step of the program: what it reads, what reads it, and how its argument and its return are worked out."""

    __slots__ = ("argument", "name", "reads", "result", "wakes")

    def __init__(self, name: str, reads: Sequence[int], argument: Callable[[Sequence[Step]], int]) -> None:
        self.name = name
        self.reads = reads
        self.wakes: list[int] = []
        self.argument = argument
        self.result: Callable[[Step], int] = lambda step: step.params["input"] + 1


def program(n: int, shape: Shape) -> list[Statement]:
    """`n` statements: each reads the one before it, or all read the first, or the last reads all others."""
    statements = [Statement(f"s{i}", reads, _argument(i, reads)) for i, reads in enumerate(_reads(n, shape))]
    for i, statement in enumerate(statements):
        for read in statement.reads:
            statements[read].wakes.append(i)
    return statements


def run(statements: Sequence[Statement]) -> list[Step]:
    """Run the program; return its steps in the order in which they became complete."""
    unmet = [len(statement.reads) for statement in statements]
    made: list[Step] = [None] * len(statements)  # type: ignore[list-item]  # filled before it is read
    complete: list[Step] = []
    ready = deque(i for i, count in enumerate(unmet) if not count)
    while ready:
        i = ready.popleft()
        statement = statements[i]
        step = made[i] = Step()
        step.id, step.workflow_id, step.statement = f"01890000-0000-7000-8000-{i:012x}", "workflow", statement
        step.params = {"input": statement.argument(made)}
        step.returns = {"value": statement.result(step)}
        step.state, step.version = "state.statement.Complete", _STATES_PASSED
        complete.append(step)
        for reader in statement.wakes:
            unmet[reader] -= 1
            if not unmet[reader]:
                ready.append(reader)
    return complete


def _reads(n: int, shape: Shape) -> list[Sequence[int]]:
    if shape == "chain":
        return [(i - 1,) if i else () for i in range(n)]
    if shape == "wide":
        return [(0,) if i else () for i in range(n)]
    return [range(n - 1) if i == n - 1 else () for i in range(n)]


def _argument(i: int, reads: Sequence[int]) -> Callable[[Sequence[Step]], int]:
    if not reads:
        return lambda _made: i
    if len(reads) == 1:
        only = reads[0]
        return lambda made: made[only].returns["value"] + 1
    return lambda made: sum(made[read].returns["value"] for read in reads)
