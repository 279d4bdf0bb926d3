"""The program of the measured loop: a workflow that is a chain of event steps."""

from collections.abc import Mapping
from typing import Final

WORKFLOW: Final = "benchmark.Chain"
FACET: Final = "benchmark.Work"
INPUTS: Final[Mapping[str, object]] = {"count": 0, "text": "some text to carry", "share": 0.25}


def source(steps: int) -> str:
    """Return an AFL program whose workflow is a chain of event steps, each asked with the answer before it."""
    parameters = "count: Long, text: String, share: Double"
    lines = [f"namespace benchmark {{\n    event facet Work({parameters}) => ({parameters})\n"]
    lines.append(f"    workflow Chain({parameters}) => ({parameters}) andThen {{")
    before = "$"
    for step in (f"s{number}" for number in range(steps)):
        lines.append(f"        {step} = Work({_copied(before)})")
        before = step
    lines.append(f"        yield Chain({_copied(before)})\n    }}\n}}\n")
    return "\n".join(lines)


def _copied(before: str) -> str:
    return ", ".join(f"{name} = {before}.{name}" for name in ("count", "text", "share"))
