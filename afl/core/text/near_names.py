"""Names that resemble a missing one: the suggestions behind "did you mean". No other module compares names."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Final

#: The least likeness, between 0 and 1, of a suggested name where a wrong suggestion would mislead.
MIN_LIKENESS: Final = 0.6

#: What a product of a likeness and a length may be too large by.
_ROUNDING: Final = 1e-6


def close_names(wanted: str, known: Iterable[str], max_names: int = 1, min_likeness: float = MIN_LIKENESS) -> list[str]:
    """Return the names that resemble the wanted one as a whole, best first."""
    # Imported only after a wrong name: a correct program does not pay for it.
    from difflib import get_close_matches

    # A letter that the wanted name lacks is never part of a match. That bound is cheap, and sorts out nearly all names;
    # the library's own bounds take longer than everything else that a compiler does with a name.
    letters, length = dict.fromkeys(map(ord, wanted)), len(wanted)
    possible = [
        name
        for name in known
        if 2.0 * (len(name) - len(name.translate(letters))) >= min_likeness * (len(name) + length) - _ROUNDING
    ]
    return get_close_matches(wanted, possible, max_names, min_likeness)


def near_names(wanted: str, known: Sequence[str]) -> list[str]:
    """Return the qualified names that resemble the wanted one, which is qualified or short; best first."""
    by_text = {name: name for name in known} | {name.rsplit(".", 1)[-1]: name for name in known}
    close = close_names(wanted, by_text, 3, 0.5) or close_names(wanted.rsplit(".", 1)[-1], by_text, 3, 0.5)
    return list(dict.fromkeys(by_text[c] for c in close))


def look_alike(name: str, other: str, min_likeness: float = MIN_LIKENESS) -> bool:
    """Say whether the last parts of two names are alike: a common namespace does not make two names similar."""
    from difflib import SequenceMatcher

    return SequenceMatcher(None, name.rpartition(".")[2], other.rpartition(".")[2]).ratio() >= min_likeness


def most_alike(wanted: str, names: Iterable[str], min_likeness: float) -> str | None:
    """Return the name whose last part is most similar to the wanted one's; None if none is similar enough."""
    from difflib import SequenceMatcher

    matcher = SequenceMatcher(None)
    matcher.set_seq2(wanted.rpartition(".")[2])
    best, best_likeness = None, 0.0
    for name in names:
        matcher.set_seq1(name.rpartition(".")[2])
        least = max(min_likeness, best_likeness)
        if matcher.real_quick_ratio() >= least and matcher.quick_ratio() >= least:
            likeness = matcher.ratio()
            if likeness >= min_likeness and likeness > best_likeness:
                best, best_likeness = name, likeness
    return best


def names_alike(wanted: str, known: Collection[str]) -> list[str]:
    """Return the near names whose last parts are alike as well, best first."""
    return [name for name in near_names(wanted, list(known)) if look_alike(name, wanted)]


def did_you_mean(near: Sequence[str]) -> str:
    """Return the question about near names, without a sentence around it; "" without near names."""
    return f"did you mean {' or '.join(near)}?" if near else ""
