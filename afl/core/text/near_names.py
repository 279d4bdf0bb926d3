"""Names that resemble a missing one: the suggestions behind "did you mean"."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

#: The least likeness, between 0 and 1, of a suggested name where a wrong suggestion would mislead.
MIN_LIKENESS: Final = 0.6


def near_names(wanted: str, known: Sequence[str]) -> list[str]:
    """Return the qualified names that resemble the wanted one, which is qualified or short; best first."""
    # Imported only after a wrong name: a correct program does not pay for it.
    from difflib import get_close_matches

    by_text = {name: name for name in known} | {name.rsplit(".", 1)[-1]: name for name in known}
    close = get_close_matches(wanted, by_text, n=3, cutoff=0.5)
    if not close:
        close = get_close_matches(wanted.rsplit(".", 1)[-1], by_text, n=3, cutoff=0.5)
    return list(dict.fromkeys(by_text[c] for c in close))


def look_alike(name: str, other: str, min_likeness: float = MIN_LIKENESS) -> bool:
    """Say whether the last parts of two names are alike: a common namespace does not make two names similar."""
    from difflib import SequenceMatcher

    return SequenceMatcher(None, name.rpartition(".")[2], other.rpartition(".")[2]).ratio() >= min_likeness


def names_alike(wanted: str, known: Collection[str]) -> list[str]:
    """Return the near names whose last parts are alike as well, best first."""
    return [name for name in near_names(wanted, list(known)) if look_alike(name, wanted)]


def did_you_mean(near: Sequence[str]) -> str:
    """Return the question about near names, without a sentence around it; "" without near names."""
    return f"did you mean {' or '.join(near)}?" if near else ""
