"""The names, modules and attributes that a script may use."""

from __future__ import annotations

import builtins
import re
from typing import Final

_TYPES: Final = "bool bytearray bytes dict float frozenset int list set str tuple type"
_FUNCTIONS: Final = (
    "abs all any enumerate filter getattr hasattr isinstance issubclass len map max min print range repr reversed "
    "round setattr sorted sum zip"
)
_EXCEPTIONS: Final = "AttributeError Exception IndexError KeyError TypeError ValueError"
_MODULES: Final = "collections copy datetime functools hashlib itertools json math re statistics string"
_INTROSPECTIVE: Final = (
    "ag_await ag_code ag_frame ag_running ag_suspended cr_await cr_code cr_frame cr_origin cr_running cr_suspended "
    "gi_code gi_frame gi_running gi_suspended gi_yieldfrom f_back f_builtins f_code f_globals f_lasti f_lineno "
    "f_locals f_trace f_trace_lines f_trace_opcodes tb_frame tb_lasti tb_lineno tb_next co_code co_consts "
    "co_names co_varnames func_code func_globals func_closure func_defaults mro"
)

#: All builtins of a script. `True`, `False` and `None` are syntax.
BUILTIN_NAMES: Final = frozenset(f"{_TYPES} {_FUNCTIONS} {_EXCEPTIONS}".split())

#: What a script may import, by these names only: `import collections.abc` is not among them.
MODULES: Final = frozenset(_MODULES.split())

#: Public names of these modules that scripts do not see, because they read attributes by name without a check.
WITHHELD: Final = {
    "string": frozenset(["Formatter"]),
    "functools": frozenset(["update_wrapper", "wraps", "WRAPPER_ASSIGNMENTS", "WRAPPER_UPDATES"]),
    "json": frozenset(["dump", "load"]),
    "hashlib": frozenset(["file_digest"]),
}

#: Attributes without underscores that lead from a value to frames, code and namespaces.
INTROSPECTIVE: Final = frozenset(_INTROSPECTIVE.split())

#: A replacement field of `str.format` that reads a special attribute.
_FORMAT_FIELD: Final = re.compile(r"\{[^{}]*[.\[]__")

_ALL_BUILTINS: Final = frozenset(vars(builtins))


def is_refused_name(name: str) -> bool:
    """Say whether a name or attribute is forbidden in scripts."""
    return name.startswith("__") or name in INTROSPECTIVE


def is_refused_text(text: str) -> bool:
    """Say whether a text is a format that reads a special attribute."""
    return "__" in text and _FORMAT_FIELD.search(text) is not None


def is_missing_builtin(name: str) -> bool:
    """Say whether Python has this builtin and scripts do not."""
    return name in _ALL_BUILTINS and name not in BUILTIN_NAMES
