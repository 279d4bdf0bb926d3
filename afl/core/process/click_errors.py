"""Errors of a command line, shown without terminal control characters and without secrets."""

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
    """Write what is wrong with a call to standard error, as click does, with the typed words made printable."""
    from click.exceptions import NoArgsIsHelpError

    # The call had no words at all: the message is our own help, which has several lines.
    fit = printable_lines if isinstance(error, NoArgsIsHelpError) else printable
    error.message = fit(secrets_of_environment().masked(error.message))  # type: ignore[misc]  # `show` reads it
    # Written to the stream itself: click writes UTF-8 to a stream that declares ASCII.
    error.show(sys.stderr)


@contextmanager
def broken_pipes_raised() -> Iterator[None]:
    """Raise BrokenPipeError when the reader went away; click would turn it into SystemExit(1), like an error."""
    streams = sys.stdout, sys.stderr
    try:
        yield
    except SystemExit as error:
        # After that error click replaces the streams by ones that cannot be flushed.
        if (sys.stdout, sys.stderr) == streams:
            raise
        sys.stdout, sys.stderr = streams
        raise BrokenPipeError from error
