"""The sources that a subcommand's arguments name, and where it may look for missing namespaces."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY, replace
from typing import TYPE_CHECKING, Any, TypeVar

import click

from afl.commands.terminal import say
from afl.core.frozen import frozen
from afl.core.strictness import Strictness
from afl.core.text.masking import secrets_of_environment
from afl.errors import AFLError, SourceUnreadable
from afl.source import MAX_SOURCE_BYTES, CompilerInput, FileOrigin, SourceEntry

if TYPE_CHECKING:
    from afl.compiler import CheckedInput
    from afl.config import AFLConfig

_F = TypeVar("_F", bound=Callable[..., Any])

#: The name that stands for standard input.
STDIN = "-"

#: The name of standard input in findings.
STDIN_NAME = "<stdin>"

#: The log level by the number of -v.
_VERBOSE = ("WARNING", "INFO", "DEBUG")
_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")


class WrongInput(AFLError):
    """Arguments that name no source."""


@frozen
class Named:
    """The sources that a command line names."""

    _: KW_ONLY
    files: tuple[str, ...]
    primary: tuple[str, ...]
    library: tuple[str, ...]
    mongo: tuple[str, ...]
    maven: tuple[str, ...]
    maven_repository: str | None
    auto_resolve: bool
    source_path: tuple[str, ...]
    mongo_resolve: bool
    config_path: str | None
    strictness: Strictness = Strictness.PROGRAM


#: Options apply from the bottom up: the first one here stands last in the help.
_OPTIONS = (
    click.option("--log-file", metavar="PATH", help="Append the log to this file instead of standard error."),
    click.option(
        "--log-level",
        type=click.Choice(_LEVELS, case_sensitive=False),
        help="How much of the log is written.  [default: WARNING]",
    ),
    click.option("-v", "--verbose", "verbosity", count=True, help="--log-level INFO; -vv for DEBUG."),
    click.option("--config", "config_path", metavar="PATH", help="Settings file.  [default: the first that exists]"),
    click.option("--mongo-resolve", is_flag=True, help="Look for missing namespaces among published sources."),
    click.option("--source-path", multiple=True, metavar="DIR", help="Look for missing namespaces below this folder."),
    click.option("--auto-resolve", is_flag=True, help="Look for missing namespaces below the folders of the FILEs."),
    click.option(
        "--maven-repository",
        metavar="URL",
        help="Where archives are.  [default: $AFL_MAVEN_REPOSITORY, else Maven Central]",
    ),
    click.option(
        "--maven", multiple=True, metavar="G:A:V[:C]", help="Add a library: an archive of a Maven repository."
    ),
    click.option("--mongo", multiple=True, metavar="ID:NAME", help="Add a library: a flow in MongoDB."),
    click.option("--library", multiple=True, metavar="FILE", help="Add a library: a file that FILEs use."),
    click.option("--primary", multiple=True, metavar="FILE", help="The same as FILE."),
)


def source_options(command: _F) -> _F:
    """Add the options that name sources to a command, which gets them as `named`."""

    @functools.wraps(command)
    def call(*args: Any, log_level: str | None, log_file: str | None, verbosity: int, **options: Any) -> Any:
        _warn_of_misspelt_variables()
        taken = {name: options.pop(name) for name in Named.__dataclass_fields__ if name in options}
        click.get_current_context().with_resource(_log_to(log_level or _VERBOSE[min(verbosity, 2)], log_file))
        return command(*args, named=Named(**taken), **options)

    for option in _OPTIONS:
        call = option(call)
    return click.argument("files", nargs=-1, metavar="[FILE]...")(call)  # type: ignore[return-value]  # click is untyped here


def _warn_of_misspelt_variables() -> None:
    """Warn about environment variables that are misspelt and so not read. Their values may be secret: not shown."""
    if not any(name.startswith("AFL_") for name in os.environ):
        return
    from afl.config import misspelt_variables

    for name, meant in misspelt_variables(os.environ):
        say(f"warning: environment {name}: no such variable; did you mean {meant}?")


def check_named(named: Named, *, validate: bool = True) -> CheckedInput:
    """Load the named sources with the namespaces they lack, and check them. Raises AFLError if that is impossible."""
    from afl.compiler import check_input

    sources = load(named)
    return check_input(sources, config=settings(named), validate=validate, strictness=named.strictness)


def settings(named: Named) -> AFLConfig:
    """Return the settings of the configuration file, with those of the command line over them."""
    from afl.config import load_config

    config = load_config(named.config_path)
    resolver = replace(
        config.resolver,
        source_paths=[*named.source_path, *config.resolver.source_paths],
        auto_resolve=config.resolver.auto_resolve or named.auto_resolve,
        mongodb_resolve=config.resolver.mongodb_resolve or named.mongo_resolve,
    )
    return replace(config, resolver=resolver)


def load(named: Named) -> CompilerInput:
    """Return the texts of all named sources, or of standard input when none is named.

    Raises WrongInput, SourceNotFound, MongoDBUnavailable, and SourceUnreadable, which names every file that cannot be
    read.
    """
    if named.files and named.primary:
        raise WrongInput("Cannot use positional input together with --primary")
    files = named.files or named.primary
    if not (files or named.library or named.mongo or named.maven):
        files = (STDIN,)
    sources = CompilerInput(read(files), read(named.library, is_library=True))
    if named.mongo or named.maven:
        sources.library_sources += _loaded(named)
    return sources


def _loaded(named: Named) -> list[SourceEntry]:
    from afl.loader import SourceLoader

    entries: list[SourceEntry] = []
    for spec in named.mongo:
        collection_id, _, display_name = spec.partition(":")
        if not collection_id or not display_name:
            raise WrongInput(f"Invalid MongoDB spec {spec!r}: wanted ID:NAME")
        entries.append(SourceLoader.load_mongodb(collection_id, display_name, config=settings(named).mongodb))
    for spec in named.maven:
        parts = spec.split(":")
        if len(parts) not in (3, 4) or not all(parts):
            raise WrongInput(f"Invalid Maven spec {spec!r}: wanted GROUP:ARTIFACT:VERSION[:CLASSIFIER]")
        group, artifact, version, classifier = [*parts, "sources"][:4]
        entries.append(
            SourceLoader.load_maven(group, artifact, version, classifier, repository_url=named.maven_repository)
        )
    return entries


def read(files: Sequence[str], *, is_library: bool = False) -> list[SourceEntry]:
    """Return the texts of files. Raises SourceUnreadable, which names every file that cannot be read."""
    from afl.syntax.parser import decode_source, read_source

    entries: list[SourceEntry] = []
    unreadable: list[SourceUnreadable] = []
    for file in files:
        try:
            if file == STDIN:
                text, file = decode_source(_standard_input(), STDIN_NAME), STDIN_NAME
            else:
                text = read_source(file)
        except SourceUnreadable as error:
            unreadable.append(error)
            continue
        entries.append(SourceEntry(text, FileOrigin(file), is_library))
    if unreadable:
        # The last one is raised, and the group's error line shows it.
        for problem in unreadable[:-1]:
            say(f"Error: {problem}")
        raise unreadable[-1]
    return entries


@contextmanager
def _log_to(level: str, file: str | None) -> Iterator[None]:
    """Send the log of the package to a file or standard error, where warnings alone are shown as plain sentences."""
    import logging

    from afl.core.text.log_lines import LogLineFormatter

    is_plain = level.upper() == "WARNING" and file is None
    try:
        handler = logging.StreamHandler() if file is None else logging.FileHandler(file, encoding="utf-8")
    except OSError as error:
        raise WrongInput(f"the log file {file} cannot be written: {error.strerror or error}") from error
    line_format = "%(message)s" if is_plain else "%(levelname)s %(name)s: %(message)s"
    handler.setFormatter(LogLineFormatter(secrets_of_environment(), line_format))
    log = logging.getLogger("afl")
    before = log.level
    log.addHandler(handler)
    log.setLevel(level.upper())
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.setLevel(before)
        handler.close()


def _standard_input() -> bytes:
    """Return all of standard input, which is a text stream when another program calls `main` with one."""
    binary = getattr(sys.stdin, "buffer", None)
    if binary is None:
        return sys.stdin.read(MAX_SOURCE_BYTES + 1).encode()
    content: bytes = binary.read(MAX_SOURCE_BYTES + 1)
    return content
