"""Environment variables that begin as settings do, and are none."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from afl.core.text.near_names import close_names
from afl_stream.errors import ConfigError

#: Options with shorter names than their settings, and the setting that a variable of such a name means.
_SETTINGS_OF_OPTIONS: Final = {"bootstrap": "kafka.bootstrap", "data_dir": "embedded.data_dir"}


def refuse_misspelt(variable: str, shown: object, keys: Iterable[str]) -> None:
    """Refuse a variable whose name nearly matches a setting among `keys`; `shown` is what may be shown of its value.

    Other variables may be for other programs: a cluster sets AFL_EVALUATOR_SERVICE_HOST.
    """
    option = variable.removeprefix("AFL_").lower()
    if option in _SETTINGS_OF_OPTIONS:
        meant = _SETTINGS_OF_OPTIONS[option]
        wanted = f"no such variable; did you mean AFL_{meant.replace('.', '_').upper()}?"
        raise ConfigError(f"environment {variable}", option, shown, wanted)
    for key in keys:
        section, _, name = f".{key}".rpartition(".")
        begin = f"AFL{section.replace('.', '_')}_".upper()
        written = variable.removeprefix(begin).lower()
        if variable.startswith(begin) and close_names(written, [name], min_likeness=0.85):
            found_key = f"{section[1:]}.{written}".lstrip(".")
            wanted = f"no such variable; did you mean {begin}{name.upper()}?"
            raise ConfigError(f"environment {variable}", found_key, shown, wanted)


#: What Kubernetes makes of the name of a service: AFL_EVALUATOR_SERVICE_HOST, AFL_EVALUATOR_PORT_8080_TCP_ADDR.
_OF_A_CLUSTER: Final = re.compile(r"(SERVICE_(HOST|PORT)(_\w+)?|PORT|PORT_\d+_[A-Z]+(_(PROTO|PORT|ADDR))?)\Z")


def unknown_variables(variables: Iterable[str], keys: Iterable[str]) -> list[str]:
    """Return those that begin with the name of a section of settings, and name none of `keys` in it.

    Left out are what a cluster sets, and variables of the section `kafka`, which are passed to librdkafka.
    """
    names: dict[str, set[str]] = {}
    for key in keys:
        section, dot, name = key.upper().partition(".")
        if dot and section != "KAFKA":
            names.setdefault(f"AFL_{section}_", set()).add(name)

    def is_unknown(variable: str) -> bool:
        return any(
            variable.startswith(begin)
            and (name := variable.removeprefix(begin)) not in known
            and not _OF_A_CLUSTER.match(name)
            for begin, known in names.items()
        )

    return sorted(filter(is_unknown, variables))
