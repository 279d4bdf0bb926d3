"""What shells complete arguments with: ids of runs, names of workflows, files.

A person waits while these run, and has no use for a message: they read a store's file on this machine and nothing that
may be slow, and whatever goes wrong is no completion.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from afl_stream.settings.config import StreamConfig

    Completions = list[CompletionItem[object]]

#: Ids that are offered: more are no help.
_MOST_IDS: Final = 50


def run_ids(ctx: click.Context, _param: click.Parameter, incomplete: str) -> Completions:
    """Return the ids of runs that begin so, each with its workflow and status; of all runs the newest."""

    def found() -> Iterator[CompletionItem[object]]:
        from click.shell_completion import CompletionItem

        from afl_stream.commands.invocation import open_store
        from afl_stream.commands.run_status import shown_status

        config = _settings(ctx)
        if not _is_at_hand(config):
            return
        with open_store(config) as store:
            if incomplete:
                # The ids in order: those that begin so follow each other, the text itself first.
                ids = [incomplete, *store.workflow_ids(after=incomplete, limit=_MOST_IDS)]
                rows = store.load_workflows([one for one in ids if one.startswith(incomplete)])
            else:
                rows = store.list_workflows(limit=_MOST_IDS)
            for row in rows:
                yield CompletionItem(row.id, help=f"{row.name}, {shown_status(row.status)}")

    return _quietly(found)


def workflow_names(ctx: click.Context, _param: click.Parameter, incomplete: str) -> Completions:
    """Return names of workflows that begin so, in full or their last part; before the first run those deployed."""

    def found() -> Iterator[CompletionItem[object]]:
        from click.shell_completion import CompletionItem

        names = sorted(_names(_settings(ctx)))
        short = [name.rpartition(".")[2] for name in names]
        for name in dict.fromkeys([*names, *short]):
            if name.startswith(incomplete):
                yield CompletionItem(name)

    return _quietly(found)


def files(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> Completions:
    """Let the shell complete files."""
    from click.shell_completion import CompletionItem

    return [CompletionItem(incomplete, type="file")]


def _names(config: StreamConfig) -> set[str]:
    from afl_stream.commands.invocation import open_store, open_transport
    from afl_stream.settings.store_files import is_store_at
    from afl_stream.visibility.programs import list_programs

    if _is_at_hand(config) and is_store_at(config.store_file.path):
        with open_store(config) as store:
            return {name for version in list_programs(store) for name in version.workflows}
    if config.is_kafka or not config.log_path.exists():
        return set()
    from afl_stream.client.client import Client

    # Before the first evaluator has made a store, nothing else has the log.
    with open_transport(config) as transport, Client(config, transport) as client:
        client.definitions.refresh()
        return set(client.definitions.workflows())


def _is_at_hand(config: StreamConfig) -> bool:
    """Return whether the store is a file of this machine: a server may not answer in time."""
    return config.store.url is None


def _settings(ctx: click.Context) -> StreamConfig:
    """Return the settings by the options that stand on the line already."""
    from afl_stream.commands.invocation import Invocation

    given = ctx.params
    return Invocation(
        config_file=given.get("config_file"),
        prefix=given.get("prefix"),
        data_dir=given.get("data_dir"),
        bootstrap=given.get("bootstrap"),
    ).settings()


def _quietly(found: Callable[[], Iterator[CompletionItem[object]]]) -> Completions:
    """Return what is found, and nothing where that fails, with standard error shut: the cursor stands on that line."""
    import logging

    logging.disable(logging.CRITICAL)
    before = os.dup(2)
    null = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(null, 2)
        return list(found())
    except Exception:  # noqa: BLE001 - the one place of a completion
        return []
    finally:
        os.dup2(before, 2)
        os.close(before)
        os.close(null)
        logging.disable(logging.NOTSET)
