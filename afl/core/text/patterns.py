"""Regular expressions that are compiled when they are first used: a command that needs none starts without them."""

from __future__ import annotations

import re
from typing import Any, cast


class _Uncompiled:
    """Stands for a pattern; from its first use on its methods are those of the compiled one."""

    def __init__(self, pattern: str, flags: int) -> None:
        self._given = (pattern, flags)

    def __getattr__(self, name: str) -> Any:
        # Asked for what is not there yet; twice at once, by two threads, makes no difference.
        found = getattr(re.compile(*self._given), name)
        setattr(self, name, found)
        return found


def lazy_pattern(pattern: str, flags: int = 0) -> re.Pattern[str]:
    """Return a pattern to call the methods of. It costs more to compile a long one than to load a module."""
    return cast("re.Pattern[str]", _Uncompiled(pattern, flags))
