"""Programs of a trial: few steps that meet often, and their right outcomes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from afl.compiled.program import CompiledProgram
from afl.compiler import compile_text
from afl.engine.types import Value

SOURCE: Final = """
namespace stress {
    event facet Draw(n: Long) => (m: Long)
    event facet Add(m: Long) => (total: Long)

    workflow Fan(items: [Long]) => (totals: [Long]) andThen foreach item in $.items {
        drawn = Draw(n = $.item)
        added = Add(m = drawn.m)
        yield Fan(totals = [added.total])
    }
    workflow Pair(n: Long) => (total: Long) andThen {
        left = Draw(n = $.n)
        right = Draw(n = $.n + 1)
        yield Pair(total = left.m + right.m)
    }
}
"""

#: Both shapes come to four events: pollers are always in each other's way, and hundreds of trials take minutes.
ITEMS: Final = 2
PAIRS: Final = 2


def program() -> CompiledProgram:
    """Return the program of all trials."""
    return CompiledProgram(compile_text(SOURCE).program_json)


def draw(payload: dict[str, Any]) -> dict[str, Any]:
    return {"m": payload["n"] * 10}


def add(payload: dict[str, Any]) -> dict[str, Any]:
    return {"total": payload["m"] + 1}


#: What answers the facets.
HANDLERS: Final = {"stress.Draw": draw, "stress.Add": add}


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One workflow of a trial."""

    id: str
    workflow: str
    inputs: dict[str, Value]
    outputs: dict[str, Value]
    #: How many events it has in all.
    events: int


def one_workflow(name: str) -> list[Run]:
    """Return a single workflow in which all pollers meet."""
    items = list(range(ITEMS))
    totals: list[Value] = [item * 10 + 1 for item in items]
    return [
        Run(
            id=name,
            workflow="stress.Fan",
            inputs={"items": list[Value](items)},
            outputs={"totals": totals},
            events=2 * ITEMS,
        )
    ]


def many_workflows(name: str) -> list[Run]:
    """Return some workflows beside each other."""
    return [
        Run(
            id=f"{name}.{n}",
            workflow="stress.Pair",
            inputs={"n": n},
            outputs={"total": n * 10 + (n + 1) * 10},
            events=2,
        )
        for n in range(PAIRS)
    ]


SHAPES: Final = {"one": one_workflow, "many": many_workflows}
