"""Compatibility levels of subjects, and which pairs of schemas each of them compares."""

from __future__ import annotations

from typing import Final

#: A level, and whether a new schema must read what older ones wrote, older ones what it writes, and all of them or the
#: latest alone. The names are those of Confluent's API.
LEVELS: Final = {
    "NONE": (False, False, False),
    "BACKWARD": (True, False, False),
    "BACKWARD_TRANSITIVE": (True, False, True),
    "FORWARD": (False, True, False),
    "FORWARD_TRANSITIVE": (False, True, True),
    "FULL": (True, True, False),
    "FULL_TRANSITIVE": (True, True, True),
}

#: The level that lets evaluators and agents be upgraded in any order, and old records be read: the suggested one.
SUGGESTED: Final = "FULL_TRANSITIVE"
