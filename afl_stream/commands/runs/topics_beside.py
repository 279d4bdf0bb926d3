"""The topics beside the store: read where they can be reached, and left out, with the reason, where not."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

import click

from afl.core.errors import AFLError
from afl_stream.commands.invocation import Invocation, open_transport

if TYPE_CHECKING:
    from afl_stream.settings.config import StreamConfig
    from afl_stream.visibility.records import RunRecordReader

topics_option = click.option(
    "--topics/--no-topics",
    "with_topics",
    default=True,
    show_default=True,
    help="Also read what the topics hold of the run: who answered, and when.",
)


@contextmanager
def record_reader(
    invocation: Invocation, config: StreamConfig, *, with_topics: bool = True
) -> Iterator[RunRecordReader | None]:
    """Open the deployment's topics for looking back; None where they are not wanted, or cannot be reached."""
    if not with_topics:
        yield None
        return
    with ExitStack() as opened:
        reader: RunRecordReader | None = None
        try:
            transport = opened.enter_context(open_transport(config))
        except AFLError as error:
            invocation.terminal().remark(f"the topics were not read: {error}")
        else:
            from afl_stream.visibility.records import RunRecordReader as Reader

            reader = Reader(config, transport)
        yield reader
