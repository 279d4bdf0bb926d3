"""Several evaluator processes of one command: who has which part of the store, and the process that watches them."""

from __future__ import annotations

import json
import sys
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from afl.core.process.children import Child, Children, RestartRule
from afl.core.process.signals import draining
from afl.core.process.stopping import StopFlag
from afl_stream.commands.evaluators.deaths import noted_deaths
from afl_stream.commands.idleness import DRAIN_LIMIT_S
from afl_stream.commands.invocation import Invocation, described_store
from afl_stream.commands.refusals import CommandRefused
from afl_stream.exit_codes import ExitCode
from afl_stream.limits import MAX_STORE_FILES
from afl_stream.settings.store_parts import StorePart, StoreParts, part_path, parts_of, write_parts

if TYPE_CHECKING:
    from afl.core.process.children import Death
    from afl_stream.commands.terminal import Terminal
    from afl_stream.evaluator.parts.own_part import OwnPart
    from afl_stream.settings.config import StreamConfig
    from afl_stream.transport import Transport

#: What a child may take to end beyond what its own drain may: its imports, a store that is being opened.
_END_S: Final = DRAIN_LIMIT_S + 10.0


def run_processes(invocation: Invocation, count: int, *, one_file: bool, until_idle: bool) -> ExitCode:
    """Run so many evaluators until they are told to end, and return the exit code of the command."""
    config, terminal = invocation.settings(), invocation.terminal()
    _check_count(config, count)
    if _has_parts(config, one_file):
        _prepare_parts(invocation, config, count)
    elif config.store.url is None and (divided := parts_of(config.store_path)) is not None:
        raise CommandRefused(_needs_processes(invocation, divided, 1, who="--one-file"))
    words = [sys.executable, "-m", "afl_stream", *sys.argv[1:]]
    again = [word for word in words if word != "--new-store"]
    family, has_parts = str(uuid.uuid4()), _has_parts(config, one_file)
    parts = [StorePart(number, count) for number in range(1, count + 1)]
    options = [["--process", part.as_option, "--family", family] for part in parts]
    terminal.remark(f"{count} evaluators of group {config.evaluator_group}")
    terminal.remark(described_store(config))
    stop = StopFlag()
    with noted_deaths(config, family, lambda number: parts[number - 1] if has_parts else None) as note_death:
        children = _children(terminal, words, again, options, until_idle=until_idle, on_death=note_death)
        with draining(stop.set, children.remaining, limit_s=_END_S + 5.0, limit_code=ExitCode.UNAVAILABLE):
            code = children.run(stop)
    if terminal.as_json:
        terminal.document(summed(document for text in children.written() if (document := _document_in(text))))
    return ExitCode(code) if code in ExitCode._value2member_map_ else ExitCode.UNAVAILABLE


def _children(
    terminal: Terminal,
    words: Sequence[str],
    again: Sequence[str],
    options: Sequence[Sequence[str]],
    *,
    until_idle: bool,
    on_death: Callable[[Death], None],
) -> Children:
    """Return the processes, one for each of the options; `again` are the words of one that is started again."""
    count = len(options)
    return Children(
        [
            Child(name=f"{number} of {count}", words=[*words, *own], again=[*again, *own])
            for number, own in enumerate(options, 1)
        ],
        RestartRule(final_codes=frozenset({ExitCode.BAD_INPUT}), ends_by_itself=until_idle),
        terminal.warn,
        drain_s=_END_S,
        on_death=on_death,
    )


@contextmanager
def part_of_store(
    invocation: Invocation, config: StreamConfig, transport: Transport, *, one_file: bool
) -> Iterator[OwnPart | None]:
    """Hold this process's part of the store; None: it has the whole store, alone or together with others."""
    process, base = invocation.process, config.store_path
    parts = parts_of(base) if config.store.url is None else None
    if process is None or not _has_parts(config, one_file):
        if parts is not None:
            raise CommandRefused(_needs_processes(invocation, parts, 1))
        yield None
        return
    if parts is None or parts.count != process.count:
        raise CommandRefused(_needs_processes(invocation, parts, process.count))
    from afl_stream.evaluator.parts.own_part import OwnPart
    from afl_stream.evaluator.parts.part_locks import held
    from afl_stream.evaluator.stores import open_configured_store
    from afl_stream.kafka.transport import KafkaTransport

    assert isinstance(transport, KafkaTransport)
    with held(part_path(base, process)):
        everything = open_configured_store(config, create=True)
        try:
            yield OwnPart(
                part=process,
                parts_id=parts.id,
                control_partitions=config.topics.control_partitions,
                everything=everything,
                join=transport.fixed_consumer,
            )
        finally:
            everything.close()


def summed(documents: Iterator[Mapping[str, Any]]) -> dict[str, Any]:
    """Return one document of the figures of several: numbers are added, lists joined, tables summed by key."""
    total: dict[str, Any] = {}
    for document in documents:
        for key, value in document.items():
            found = total.get(key)
            if isinstance(value, Mapping):
                total[key] = summed(iter([found or {}, value]))
            elif isinstance(value, list):
                total[key] = [*(found or []), *value]
            elif key == "next_at_ms":
                total[key] = min((at for at in (found, value) if at is not None), default=None)
            elif isinstance(value, int | float):
                total[key] = (found or 0) + value
            else:
                total[key] = value
    return total


def _document_in(text: str) -> Mapping[str, Any] | None:
    try:
        found = json.loads(text)
    except ValueError:
        return None
    return found if isinstance(found, dict) and "error" not in found else None


def _check_count(config: StreamConfig, count: int) -> None:
    if not config.is_kafka:
        raise CommandRefused("the embedded log has one evaluator: --processes is for Kafka (--bootstrap)")
    partitions = config.topics.control_partitions
    if count > min(partitions, MAX_STORE_FILES):
        raise CommandRefused(
            f"--processes {count}: found {partitions} control partitions, and each process needs one of its own; "
            "topics.control_partitions is the most"
        )


def _has_parts(config: StreamConfig, one_file: bool) -> bool:
    """Return whether each process has a file of its own; else all share a store, as members of a group."""
    return config.store.url is None and not (one_file or config.evaluator.one_file)


def _prepare_parts(invocation: Invocation, config: StreamConfig, count: int) -> None:
    """Check how the store is divided; divide a new one. Every part is made, so that each process finds all of them."""
    from afl.core.process.private_files import make_private_folder
    from afl_stream.evaluator.stores import open_configured_store

    dispatch = config.dispatch
    if dispatch.default == "task" or dispatch.task_facets:
        raise CommandRefused(
            "tasks are in one store, where pollers find them: with dispatch.default = task, or dispatch.task_facets, "
            "give --one-file, or a MongoDB (store.url)"
        )
    base = config.store_path
    parts = parts_of(base)
    if (parts is None and base.exists()) or (parts is not None and parts.count != count):
        raise CommandRefused(_needs_processes(invocation, parts, count))
    if parts is None:
        make_private_folder(base.parent)
        write_parts(base, StoreParts.new(count))
    open_configured_store(config, create=True).close()


def _needs_processes(invocation: Invocation, parts: StoreParts | None, count: int, who: str = "") -> str:
    """Return why a store does not fit so many processes, or what `who` names, and the commands that would help."""
    base, now = invocation.settings().store_path, 1 if parts is None else parts.count
    as_it_is = invocation.command_line("evaluator", *(["--processes", str(now)] if now > 1 else []))
    shared = (
        ""
        if now > 1
        else f"; {invocation.command_line('evaluator', '--processes', str(count), '--one-file')} shares it"
    )
    return (
        f"store {base} is {_files(now)}, and {who or _processes(count)} would need {_files(count)}: "
        f"{as_it_is} goes on as it is{shared}; {invocation.command_line('store', 'divide', str(count))} divides it "
        "anew, while no evaluator runs"
    )


def _processes(count: int) -> str:
    return f"{count} process{'es' * (count != 1)}"


def _files(count: int) -> str:
    return "one file" if count == 1 else f"{count} files"
