"""Options that commands of `afl` and of `afl-stream` share, with one meaning in both."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import click

from afl.core.strictness import Strictness

_F = TypeVar("_F", bound=Callable[..., Any])


def strictness_options(command: _F) -> _F:
    """Add `--lenient` and `--strict` to a command, which gets the result as `strictness`."""

    @click.option("--strict", is_flag=True, help="Treat every warning as an error.")
    @click.option(
        "--lenient",
        is_flag=True,
        help="Take unknown facets, missing arguments and unknown fields of a program for warnings, as in a library.",
    )
    @functools.wraps(command)
    def call(*args: Any, lenient: bool, strict: bool, **options: Any) -> Any:
        if lenient and strict:
            raise click.UsageError("--lenient and --strict exclude each other")
        strictness = Strictness.STRICT if strict else Strictness.LENIENT if lenient else Strictness.PROGRAM
        return command(*args, strictness=strictness, **options)

    return call  # type: ignore[return-value]  # click's decorators keep what they are given
