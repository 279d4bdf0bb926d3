"""Ids that a store may not have, where its server is away: a hint is not worth a long wait."""

from __future__ import annotations

import dataclasses
import io
import time
from contextlib import closing

from afl_stream.commands.runs.unknown_ids import meant_here, unknown_ids
from afl_stream.commands.terminal import Terminal
from afl_stream.embedded.transport import EmbeddedTransport
from afl_stream.settings.config import StreamConfig
from afl_stream.settings.sections import StoreSettings

#: Far less than a server is waited for where a command needs the store.
_PATIENCE_S = 15


def test_a_server_that_is_away_costs_a_hint_and_little_time() -> None:
    store = StoreSettings(url="mongodb://127.0.0.1:1/orders")
    config = dataclasses.replace(StreamConfig(), store=store)
    terminal = Terminal(io.StringIO(), io.StringIO(), as_json=False)
    began_s = time.monotonic()

    with closing(EmbeddedTransport()) as transport:
        assert unknown_ids(config, transport, ["order-71"]) == []
        assert meant_here(config, transport, terminal, "01936d00") == "01936d00"
        assert meant_here(config, transport, terminal, "order-71") == "order-71"

    assert time.monotonic() - began_s < _PATIENCE_S
