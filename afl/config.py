"""Settings of the compiler: the MongoDB with published sources, and how missing namespaces are found.

The file is JSON, called `afl.config.json`; without one the environment variables count.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Any
from urllib.parse import quote

from afl.core.frozen import frozen
from afl.core.text.masking import MASK, Secrets, is_secret, masked_text, may_be_secret, secrets_of_url
from afl.core.text.near_names import close_names
from afl.core.text.printable import printable
from afl.errors import AFLError

CONFIG_NAME = "afl.config.json"

#: The variable that names the configuration file when no path is given.
CONFIG_VARIABLE = "AFL_CONFIG"

#: The variables that `afl` reads, without their prefix AFL_.
VARIABLES = (
    "CONFIG",
    "SOURCE_PATHS",
    "AUTO_RESOLVE",
    "MONGODB_RESOLVE",
    *(f"MONGODB_{name}" for name in ("URL", "USERNAME", "PASSWORD", "AUTH_SOURCE", "DATABASE")),
    "MAVEN_REPOSITORY",
    "SCRIPTS_ACCEPT_MISSING",
)

#: A variable at least this similar, between 0 and 1, to one of these counts as a misspelling of it.
_MIN_LIKENESS = 0.85

#: Settings whose values may hold a password, in whatever form.
_NEVER_SHOWN = frozenset({"mongodb", "url"})

_TRUE = frozenset({"1", "true", "yes", "on"})
_FALSE = frozenset({"", "0", "false", "no", "off"})


class ConfigUnreadable(AFLError):
    """A configuration file that is missing, or does not hold settings."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"the configuration {path} {reason}")
        self.path = path
        self.reason = reason


class ConfigMissing(ConfigUnreadable, FileNotFoundError):
    """A configuration file that was named and does not exist."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)
        self.errno, self.strerror, self.filename = errno.ENOENT, os.strerror(errno.ENOENT), path

    def __str__(self) -> str:
        # An OSError with these facts would speak in the words of the system instead.
        return f"the configuration {self.path} {self.reason}"


class WrongSetting(AFLError, ValueError):
    """A setting with an invalid value."""

    def __init__(self, name: str, found: object, wanted: str) -> None:
        is_hidden = (is_secret(name) or name in _NEVER_SHOWN) and may_be_secret(found)
        shown = MASK if is_hidden else printable(repr(found))
        super().__init__(masked_text(f"the setting {name} is {shown}, wanted {wanted}"))
        self.name = name


@frozen
class MongoDBConfig:
    """A MongoDB database and the user that connects. Without a user name the url alone decides."""

    url: str = field(default="mongodb://localhost:27017", repr=False)
    username: str = ""
    password: str = field(default="", repr=False)
    auth_source: str = "admin"
    database: str = "afl"

    def connection_string(self) -> str:
        """Return the url with user, password and authentication database, as far as they are set."""
        scheme, mark, rest = self.url.partition("://")
        if not self.username or not mark:
            return self.url
        where, _, query = rest.partition("?")
        hosts, _, database = where.partition("/")
        # The user is given here only, not in a url that was made for another user.
        hosts = hosts.rpartition("@")[2]
        options = [option for option in query.split("&") if option and not option.lower().startswith("authsource=")]
        options.append(f"authSource={quote(self.auth_source, safe='')}")
        person = f"{quote(self.username, safe='')}:{quote(self.password, safe='')}"
        return f"{scheme}://{person}@{hosts}/{database}?{'&'.join(options)}"

    def masked(self, text: str) -> str:
        """Return a text with the secrets of these settings masked."""
        return Secrets({self.password, quote(self.password, safe=""), *secrets_of_url(self.url)}).masked(text)

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as a file holds them, the password included."""
        return {
            "url": self.url,
            "username": self.username,
            "password": self.password,
            "auth_source": self.auth_source,
            "database": self.database,
        }

    @classmethod
    def from_dict(cls, settings: Mapping[str, Any]) -> MongoDBConfig:
        """Read settings; what is missing gets its default. Raises WrongSetting."""
        default = cls()
        return cls(
            url=_text(settings, default.url, "url"),
            username=_text(settings, default.username, "username"),
            password=_text(settings, default.password, "password"),
            auth_source=_text(settings, default.auth_source, "authSource", "auth_source"),
            database=_text(settings, default.database, "database"),
        )

    @classmethod
    def from_env(cls) -> MongoDBConfig:
        """Read AFL_MONGODB_URL, _USERNAME, _PASSWORD, _AUTH_SOURCE and _DATABASE."""
        names = ("url", "username", "password", "auth_source", "database")
        found = {name: os.environ.get(f"AFL_MONGODB_{name.upper()}") for name in names}
        return cls.from_dict({name: value for name, value in found.items() if value})


@frozen
class ResolverConfig:
    """The places where missing namespaces of a program are looked for."""

    source_paths: list[str] = field(default_factory=list)
    auto_resolve: bool = False
    mongodb_resolve: bool = False

    @property
    def is_wanted(self) -> bool:
        """Return whether there is any place to look."""
        return bool(self.source_paths) or self.auto_resolve or self.mongodb_resolve

    def to_dict(self) -> dict[str, Any]:
        return {
            "source_paths": list(self.source_paths),
            "auto_resolve": self.auto_resolve,
            "mongodb_resolve": self.mongodb_resolve,
        }

    @classmethod
    def from_dict(cls, settings: Mapping[str, Any]) -> ResolverConfig:
        """Read settings; what is missing gets its default. Raises WrongSetting."""
        name, paths = _first(settings, [], "sourcePaths", "source_paths")
        if not isinstance(paths, list) or not all(isinstance(path, str) for path in paths):
            raise WrongSetting(name, paths, "a list of folders")
        return cls(
            source_paths=list(paths),
            auto_resolve=_flag(settings, "autoResolve", "auto_resolve"),
            mongodb_resolve=_flag(settings, "mongodbResolve", "mongodb_resolve"),
        )

    @classmethod
    def from_env(cls) -> ResolverConfig:
        """Read AFL_SOURCE_PATHS (separated as in PATH), AFL_AUTO_RESOLVE and AFL_MONGODB_RESOLVE."""
        return cls(
            source_paths=[path for path in os.environ.get("AFL_SOURCE_PATHS", "").split(os.pathsep) if path],
            auto_resolve=_flag_of_environment("AFL_AUTO_RESOLVE"),
            mongodb_resolve=_flag_of_environment("AFL_MONGODB_RESOLVE"),
        )


@frozen
class AFLConfig:
    """All settings of the compiler."""

    mongodb: MongoDBConfig = field(default_factory=MongoDBConfig)
    resolver: ResolverConfig = field(default_factory=ResolverConfig)

    def to_dict(self) -> dict[str, Any]:
        return {"mongodb": self.mongodb.to_dict(), "resolver": self.resolver.to_dict()}

    @classmethod
    def from_dict(cls, settings: Mapping[str, Any]) -> AFLConfig:
        """Read settings; what is missing gets its default. Raises WrongSetting."""
        for name in ("mongodb", "resolver"):
            if not isinstance(settings.get(name, {}), Mapping):
                raise WrongSetting(name, settings[name], "an object")
        return cls(
            mongodb=MongoDBConfig.from_dict(settings.get("mongodb", {})),
            resolver=ResolverConfig.from_dict(settings.get("resolver", {})),
        )

    @classmethod
    def from_env(cls) -> AFLConfig:
        return cls(mongodb=MongoDBConfig.from_env(), resolver=ResolverConfig.from_env())


def load_config(path: str | Path | None = None) -> AFLConfig:
    """Return the settings of the file at `path`, else of the first file that exists, else of the environment.

    Files are looked for in this order: the file that AFL_CONFIG names, then `afl.config.json` in the current folder, in
    `~/.afl` and in `/etc/afl`. Raises ConfigUnreadable for a named file that is missing, and for a file that does not
    hold settings.
    """
    named = path or os.environ.get(CONFIG_VARIABLE)
    if named:
        return _read(Path(named))
    for folder in (Path.cwd(), Path.home() / ".afl", Path("/etc/afl")):
        if (folder / CONFIG_NAME).is_file():
            return _read(folder / CONFIG_NAME)
    return AFLConfig.from_env()


def misspelt_variables(environment: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return each variable that looks like one that `afl` reads, with the name of that one.

    Other variables that begin with AFL_ may be for other programs: `afl-stream` has many, and a cluster sets its own.
    """
    known = set(VARIABLES)
    names = [name[4:] for name in environment if name.startswith("AFL_") and name[4:] not in known]
    if not names:
        return []

    def meant(name: str) -> list[str]:
        """Return the variable that this word nearly spells, or is the longer part of (MAVEN_REPO)."""
        begun = [known for known in VARIABLES if known.startswith(name) and len(name) > len(known) / 2]
        return begun or close_names(name, VARIABLES, min_likeness=_MIN_LIKENESS)

    near = {name: meant(name) for name in names}
    return [(f"AFL_{name}", f"AFL_{found[0]}") for name, found in near.items() if found]


def _read(path: Path) -> AFLConfig:
    try:
        settings = json.loads(path.read_bytes())
    except FileNotFoundError as error:
        raise ConfigMissing(str(path), f"cannot be read: {error.strerror or error}") from error
    except OSError as error:
        raise ConfigUnreadable(str(path), f"cannot be read: {error.strerror or error}") from error
    except ValueError as error:
        raise ConfigUnreadable(str(path), f"is not JSON: {error}") from error
    if not isinstance(settings, dict):
        raise ConfigUnreadable(str(path), f"holds no settings: wanted an object, found {type(settings).__name__}")
    try:
        return AFLConfig.from_dict(settings)
    except WrongSetting as error:
        raise ConfigUnreadable(str(path), f"cannot be used: {error}") from error


def _first(settings: Mapping[str, Any], default: object, *names: str) -> tuple[str, Any]:
    """Return the first of these names that is set, and its value."""
    return next(((name, settings[name]) for name in names if name in settings), (names[0], default))


def _text(settings: Mapping[str, Any], default: str, *names: str) -> str:
    name, value = _first(settings, default, *names)
    if not isinstance(value, str):
        raise WrongSetting(name, value, "a text")
    return value


def _flag(settings: Mapping[str, Any], *names: str) -> bool:
    name, value = _first(settings, False, *names)
    if not isinstance(value, bool):
        raise WrongSetting(name, value, "true or false")
    return value


def _flag_of_environment(name: str) -> bool:
    value = os.environ.get(name, "").strip().lower()
    if value not in _TRUE | _FALSE:
        raise WrongSetting(name, value, "true or false")
    return value in _TRUE
