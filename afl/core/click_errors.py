"""Mistakes on a command line, shown without what a terminal would obey, and without secrets."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from afl.core.masking import secrets_of_environment
from afl.core.printable import printable

if TYPE_CHECKING:
    from click import ClickException


def show_usage_error(error: ClickException) -> None:
    """Write what is wrong with a call to standard error, as click does; it quotes what was typed."""
    error.message = printable(secrets_of_environment().masked(error.message))  # type: ignore[misc]  # `show` reads it
    # To the stream itself: click writes UTF-8 to one that says it takes ASCII.
    error.show(sys.stderr)
