"""The invocation of a command: the common options, and the settings that they lead to."""

from __future__ import annotations

import dataclasses
import logging
import os
import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from afl.core.errors import AFLError
from afl.core.process.private_files import make_private_folder
from afl.core.strictness import Strictness
from afl.core.text.log_lines import LOG_FORMAT, JsonLogFormatter, LogLineFormatter
from afl.core.text.masking import Secrets, secrets_of_environment, shown_url
from afl_stream.commands.refusals import CommandRefused
from afl_stream.settings.store_files import KAFKA_STORE_FILE, find_store_file, is_store_at
from afl_stream.settings.store_parts import StorePart, StorePartsUnreadable, parts_of, parts_pattern
from afl_stream.settings.variables import unknown_variables

if TYPE_CHECKING:
    from afl.stores.public.persistence import EngineStore
    from afl_stream.commands.terminal import Terminal
    from afl_stream.settings.config import StreamConfig
    from afl_stream.settings.logs import LoggingSettings
    from afl_stream.transport import Transport

_log = logging.getLogger(__name__)
_LEVELS = (logging.WARNING, logging.INFO, logging.DEBUG)


class NothingThere(AFLError):
    """A file of the deployment that a command needs does not exist yet."""

    def __init__(self, path: Path, what: str, remedy: str, reason: str = "") -> None:
        """Build the message. `reason` says why it would be this file."""
        super().__init__(f"there is no {what} {path}{f' ({reason})' if reason else ''}; {remedy}")
        self.path = path


@cache
def _tell_unknown(variable: str) -> None:
    """Tell once that nothing reads a variable, however often a command reads its settings."""
    _log.warning("environment %s: no such setting, ignored; `afl-stream config` lists all", variable)


@dataclass(frozen=True, slots=True, kw_only=True)
class Invocation:
    """The common options of one call."""

    config_file: str | None = None
    prefix: str | None = None
    data_dir: str | None = None
    bootstrap: str | None = None
    as_json: bool = False
    verbosity: int = 0
    #: Whether the embedded log carries the records, overruling the settings.
    is_embedded: bool = False
    #: Whether scripts are run, overruling the settings.
    allow_scripts: bool = False
    #: Whether an evaluator gives the deployment its store where that has another one.
    new_store: bool = False
    #: The port of metrics and health, overruling the settings.
    metrics_port: int | None = None
    #: The name of the process in its groups, overruling the settings.
    instance_id: str | None = None
    #: Which of the processes of one command this is; None: the only one, or the one that watches them.
    process: StorePart | None = None
    #: Which findings about the command's files refuse them.
    strictness: Strictness = Strictness.PROGRAM
    #: Standard output, where that is kept for the command's JSON; None: as it is.
    out: TextIO | None = field(default=None, repr=False, compare=False)
    #: The texts that are masked in the command's output; the settings add theirs.
    secrets: Secrets = field(default_factory=secrets_of_environment, repr=False, compare=False)

    def settings(self) -> StreamConfig:
        """Return the settings: file, environment, then the options. Raises ConfigError, CommandRefused."""
        from afl_stream.settings.config import load_config

        if self.config_file is not None and not Path(self.config_file).is_file():
            raise CommandRefused(f"there is no settings file {self.config_file}")
        config = load_config(self.config_file)
        if self.prefix is not None:
            config = dataclasses.replace(config, prefix=self.prefix)
        if self.data_dir is not None:
            config = dataclasses.replace(config, embedded=dataclasses.replace(config.embedded, data_dir=self.data_dir))
        if self.is_embedded:
            config = dataclasses.replace(config, transport="embedded")
        elif self.bootstrap is not None:
            kafka = dataclasses.replace(config.kafka, bootstrap=self.bootstrap)
            config = dataclasses.replace(config, kafka=kafka, transport="kafka")
        if self.instance_id is not None:
            config = dataclasses.replace(config, kafka=dataclasses.replace(config.kafka, instance_id=self.instance_id))
        if self.process is not None and config.kafka.instance_id is not None:
            own = f"{config.kafka.instance_id}.{self.process.number}"
            config = dataclasses.replace(config, kafka=dataclasses.replace(config.kafka, instance_id=own))
        port = config.metrics.port if self.metrics_port is None else self.metrics_port
        if port and self.process is not None:
            port += self.process.number - 1
        config = dataclasses.replace(config, metrics=dataclasses.replace(config.metrics, port=port))
        if self.allow_scripts:
            config = dataclasses.replace(config, evaluator=dataclasses.replace(config.evaluator, allow_scripts=True))
        self.secrets.add(config.secrets())
        self._follow_settings(config.logging)
        for variable in unknown_variables(os.environ, config.describe()):
            _tell_unknown(variable)
        return config

    def command_line(self, *words: str) -> str:
        """Return a command to type that is for the same deployment as this one."""
        options = (
            ("--config", self.config_file),
            ("--bootstrap", None if self.is_embedded else self.bootstrap),
            ("--prefix", self.prefix),
            ("--data-dir", self.data_dir),
        )
        given = [word for option, value in options if value is not None for word in (option, value)]
        # Without it the command would look on the cluster of the settings.
        start = "AFL_TRANSPORT=embedded " if self.is_embedded and self._names_a_cluster() else ""
        return start + shlex.join(["afl-stream", *words, *self._processes_for(words), *given])

    def _processes_for(self, words: Sequence[str]) -> list[str]:
        """Return the option without which an evaluator of a divided store refuses to start."""
        if words[:1] != ("evaluator",) or "--processes" in words:
            return []
        config = self.settings()
        try:
            parts = None if config.store.url is not None else parts_of(config.store_path)
        except StorePartsUnreadable:
            return []
        count = 1 if parts is None else parts.count
        return [] if count in (1, config.evaluator.processes) else ["--processes", str(count)]

    def _names_a_cluster(self) -> bool:
        """Return whether the settings alone lead to Kafka."""
        return dataclasses.replace(self, is_embedded=False, bootstrap=None).settings().is_kafka

    def with_files(self, *words: str) -> str:
        """Return a command to type that also gets this command's files, and judges them as strictly."""
        flag = {Strictness.LENIENT: ["--lenient"], Strictness.STRICT: ["--strict"]}.get(self.strictness, [])
        return self.command_line(*words, *flag)

    def is_shared(self) -> bool:
        """Return whether evaluators and agents may run beside this command: on Kafka, and beside a log's holder."""
        config = self.settings()
        if config.is_kafka:
            return True
        from afl_stream.holder.joining import is_served

        return is_served(config.log_path)

    def who_applies_it(self, verb: str) -> str:
        """Return what happens next with a command or an answer that was sent: a running evaluator applies it."""
        runner = self.command_line("evaluator", "--until-idle")
        if self.is_shared():
            return f"an evaluator {verb} it as soon as one runs ({self.command_line('evaluator')})"
        return f"an evaluator {verb} it: {runner}"

    def terminal(self) -> Terminal:
        """Return the terminal for the command's output."""
        from afl_stream.commands.terminal import Terminal

        name = "" if self.process is None else str(self.process)
        return Terminal(self.out or sys.stdout, sys.stderr, as_json=self.as_json, secrets=self.secrets, name=name)

    def set_up_logging(self) -> None:
        """Log to stderr: warnings; with -v also what happens, with -vv everything. The settings may change that."""
        handler = logging.StreamHandler(sys.stderr)
        of_process = "" if self.process is None else f"[{self.process}] "
        handler.setFormatter(LogLineFormatter(self.secrets, of_process + LOG_FORMAT))
        logging.basicConfig(level=self._level(logging.WARNING), handlers=[handler])

    def _level(self, of_settings: int) -> int:
        return min(of_settings, _LEVELS[min(self.verbosity, len(_LEVELS) - 1)]) if self.verbosity else of_settings

    def _follow_settings(self, settings: LoggingSettings) -> None:
        """Give our own handler the form and the level of the settings; handlers of others stay as they are."""
        root = logging.getLogger()
        for handler in root.handlers:
            if isinstance(handler.formatter, LogLineFormatter):
                root.setLevel(self._level(logging.getLevelNamesMapping()[settings.level.upper()]))
                if settings.format == "json" and not isinstance(handler.formatter, JsonLogFormatter):
                    process = "" if self.process is None else str(self.process)
                    handler.setFormatter(JsonLogFormatter(self.secrets, process))


@contextmanager
def open_transport(
    config: StreamConfig,
    *,
    create: bool = False,
    remedy: str = "afl-stream topics apply FILE",
    serves: bool = False,
) -> Iterator[Transport]:
    """Open the deployment's transport, and close it at the end. `remedy` is the command that creates what is missing.

    The embedded log is held, or used as a guest of the process that holds it; `serves`: a service, which lets others
    use the log while it holds it.

    On Kafka raises BrokerUnavailable, AuthenticationFailed, BrokerTooOld and WrongCluster; on the embedded log
    FileInUse, FileUnusable, and NothingThere unless a log that is missing is to be created.
    """
    transport = _kafka(config) if config.is_kafka else _embedded(config, create=create, remedy=remedy, serves=serves)
    try:
        yield transport
    finally:
        transport.close()


def _kafka(config: StreamConfig) -> Transport:
    from afl_stream.kafka.transport import KafkaTransport

    return KafkaTransport(config)


def _embedded(config: StreamConfig, *, create: bool, remedy: str, serves: bool) -> Transport:
    from afl_stream.holder.joining import hold_or_join

    if create:
        make_private_folder(config.data_dir)
    elif not config.log_path.exists():
        raise NothingThere(config.log_path, "embedded log", f"create it with: {remedy}{_or_the_cluster(config)}")
    return hold_or_join(config.log_path, serves=serves)


@contextmanager
def open_store(config: StreamConfig, *, create: bool = False, part: StorePart | None = None) -> Iterator[EngineStore]:
    """Open the deployment's store, or a part of it, and close it at the end.

    Raises NothingThere and the store's own errors.
    """
    from afl.engine.errors import StoreMissing
    from afl_stream.evaluator.stores import open_configured_store

    if config.store.url is None and not create and not is_store_at((file := config.store_file).path):
        raise NothingThere(file.path, "store", _where_the_store_is(config), file.reason)
    try:
        opened = open_configured_store(config, create=create, part=part)
    except StoreMissing as error:
        remedy = "an evaluator makes it when it first runs (afl-stream evaluator); or name another one: store.url"
        raise StoreMissing(path=error.path, reason=f"{error.reason}; {remedy}") from error
    with closing(opened) as store:
        yield store


@contextmanager
def store_here(
    config: StreamConfig, transport: Transport, *, timeout_s: float | None = None
) -> Iterator[EngineStore | None]:
    """Open the deployment's store if it can be reached from this machine; None if not.

    On Kafka most commands run on machines without an evaluator. A store that exists all the same counts only when it
    has read from this cluster, under this prefix. `timeout_s` is how long a server is waited for, where not as long as
    usual. Raises the store's own errors.
    """
    from afl.engine.errors import ForeignStore, StoreMissing
    from afl_stream.evaluator.stores import open_configured_store

    if config.store.url is None and not is_store_at(config.store_path):
        yield None
        return
    try:
        store = open_configured_store(config, create=False, timeout_s=timeout_s)
    except StoreMissing:
        yield None
        return
    except ForeignStore:
        if not config.is_kafka:
            raise
        yield None
        return
    with closing(store):
        clusters = {place.cluster_id for place in store.positions()} if config.is_kafka else set()
        yield store if not config.is_kafka or transport.admin().cluster_id() in clusters else None


def described_store(config: StreamConfig) -> str:
    """Return in words which store the settings lead to, and why."""
    if config.store.url is not None:
        return f"store {shown_url(config.store.url)} (as store.url says)"
    file = config.store_file
    parts = parts_of(file.path)
    if parts is None:
        return f"store {file.path} ({file.reason})"
    return f"store {parts_pattern(file.path, parts)} ({file.reason}; in {parts.count} files)"


def _where_the_store_is(config: StreamConfig) -> str:
    if config.is_kafka:
        return (
            "runs are kept in the store of the evaluators: ask on their machine, or name it (store.path or store.url)"
            f"{_or_the_embedded_log(config)}"
        )
    if not config.log_path.exists():
        begin = "afl-stream dev FILE.afl runs a file at once; afl-stream topics apply FILE.afl begins step by step"
        return f"nothing has run here yet, and no evaluator: {begin}{_or_the_cluster(config)}"
    return f"no evaluator has run here yet: afl-stream evaluator --until-idle{_or_the_cluster(config)}"


def _or_the_embedded_log(config: StreamConfig) -> str:
    """Return where the runs may be if a cluster's store has none: `dev` ignores the cluster of the settings."""
    from afl_stream.settings.sections import EmbeddedSettings

    if config.store.path is not None:
        return ""
    store = find_store_file(config.data_dir, is_kafka=False).path
    if not store.exists():
        return ""
    elsewhere = [] if config.embedded == EmbeddedSettings() else ["--data-dir", str(config.data_dir)]
    status = shlex.join(["afl-stream", "status", *elsewhere])
    return f"; the runs of dev, on the embedded log, are in {store}: AFL_TRANSPORT=embedded {status}"


def _or_the_cluster(config: StreamConfig) -> str:
    """Return what else may be meant if a cluster's store is here and the settings name no cluster.

    Another terminal may have named it.
    """
    if not (config.data_dir / KAFKA_STORE_FILE).exists():
        return ""
    return f"; or name the Kafka cluster of {config.data_dir / KAFKA_STORE_FILE}: --bootstrap or AFL_KAFKA_BOOTSTRAP"
