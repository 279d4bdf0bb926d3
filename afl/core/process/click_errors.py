"""Mistakes on a command line, shown without what a terminal would obey, and without secrets."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from afl.core.text.masking import secrets_of_environment
from afl.core.text.printable import printable, printable_lines

if TYPE_CHECKING:
    from click import ClickException


def show_usage_error(error: ClickException) -> None:
    """Write what is wrong with a call to standard error, as click does; it quotes what was typed."""
    from click.exceptions import NoArgsIsHelpError

    # Called with no words at all: the message is the help, which is ours and has lines.
    fit = printable_lines if isinstance(error, NoArgsIsHelpError) else printable
    error.message = fit(secrets_of_environment().masked(error.message))  # type: ignore[misc]  # `show` reads it
    # To the stream itself: click writes UTF-8 to one that says it takes ASCII.
    error.show(sys.stderr)


@contextmanager
def broken_pipes_raised() -> Iterator[None]:
    """Raise BrokenPipeError for a reader that went away; click makes SystemExit with 1 of it, as of mistakes."""
    streams = sys.stdout, sys.stderr
    try:
        yield
    except SystemExit as error:
        # Only then does click put streams in their place that let nothing be flushed.
        if (sys.stdout, sys.stderr) == streams:
            raise
        sys.stdout, sys.stderr = streams
        raise BrokenPipeError from error
