"""What commands show of the values of runs: by default everything but the sensitive ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import click

from afl_stream.commands.invocation import open_store

if TYPE_CHECKING:
    from afl.compiled.program import CompiledProgram
    from afl.stores.public.persistence import EngineStore
    from afl_stream.evaluator.runs import Ending
    from afl_stream.settings.config import StreamConfig

F = TypeVar("F", bound=Callable[..., Any])


def reveal_option(command: F) -> F:
    """Add --reveal to a command that shows values."""
    return click.option(
        "--reveal", is_flag=True, help="Show sensitive values too; encrypted ones with the keys (keys.path)."
    )(command)


@contextmanager
def open_shown_store(config: StreamConfig, *, reveal: bool = False) -> Iterator[EngineStore]:
    """Open the deployment's store for reading, as a person may see it; close it at the end.

    With `reveal` it is shown as it is, and decrypted where the keys are at hand. Raises as `open_store`, and what keeps
    the keys from being used.
    """
    from afl_stream.evaluator.sensitive.redacted_store import redacted
    from afl_stream.evaluator.sensitive.sealed_store import sealed
    from afl_stream.sensitive.deployment import deployment_sealer

    patterns = config.sensitive.patterns
    with open_store(config) as store:
        plain = sealed(store, deployment_sealer(config), patterns) if reveal else store
        yield redacted(plain, patterns, reveals=reveal)


def shown_ending(config: StreamConfig, ending: Ending, program: CompiledProgram) -> Ending:
    """Return how a run ended, or what it waits for, as a person may see it."""
    from afl.compiled.sensitive import sensitive_marks
    from afl_stream.evaluator.sensitive.sealed_store import names_of_step
    from afl_stream.sensitive.redaction import Redaction

    marks, redaction = sensitive_marks(program, config.sensitive.patterns), Redaction(config.sensitive.patterns)
    row = ending.row
    if row is not None and row.outputs:
        row = row._replace(outputs=redaction.of(row.name, row.outputs, marks.returns_of(row.name)))
    waiting = tuple(
        replace(step, payload=redaction.of(step.facet, step.payload, names_of_step(marks, step.facet)))
        for step in ending.waiting
    )
    return replace(ending, row=row, waiting=waiting)
