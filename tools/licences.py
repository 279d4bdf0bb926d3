"""The licences of what a deployment installs.

    python -m tools.licences [--dev] [--json]

lists each distribution of constraints/run.txt that is installed here, with its version and licence; with --dev each
that the extra `dev` needs. Ends with 1 when a licence is unknown, or not among those that are allowed. What tests start
and is under another licence stands in an extra of its own: `mongodb-server`.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Final

from tools.constraints import closure, requirements

ROOT: Final = Path(__file__).parents[1]
PINS: Final = ROOT / "constraints" / "run.txt"
#: Licences that ask for their text to be kept, and for no more of who uses what stands under them unchanged.
ALLOWED: Final = frozenset(
    {
        *("Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "BSD", "ISC", "MIT", "MIT-0", "MPL-2.0", "PSF-2.0", "0BSD"),
        *("CC0-1.0", "Unlicense", "Zlib"),
    }
)
UNKNOWN: Final = "unknown"
#: What metadata without an expression says, in the words of SPDX.
_WORDS: Final = (
    (r"apache", "Apache-2.0"),
    (r"mozilla|mpl", "MPL-2.0"),
    (r"\bmit\b", "MIT"),
    (r"3-clause|new bsd|modified bsd", "BSD-3-Clause"),
    (r"2-clause|simplified bsd", "BSD-2-Clause"),
    (r"\bbsd\b", "BSD"),
    (r"\bisc\b", "ISC"),
    (r"python software foundation|\bpsf", "PSF-2.0"),
)
_LICENCE: Final = "License :: OSI Approved :: "


@dataclass(frozen=True, slots=True, kw_only=True)
class Licence:
    """A distribution and its licence, an SPDX expression where the metadata allows one."""

    name: str
    version: str
    licence: str

    @property
    def is_allowed(self) -> bool:
        """Return whether one side of each choice, and all that is joined by AND, is allowed."""
        parts = re.sub(r"[()]", " ", self.licence).split(" AND ")
        return all(any(word.strip() in ALLOWED for word in part.split(" OR ")) for part in parts)


def licences(pins: Path = PINS) -> Iterator[Licence]:
    """Yield the licence of each pinned distribution that is installed."""
    for line in pins.read_text().splitlines():
        name, _, version = line.partition(";")[0].partition("==")
        if not version or line.startswith(("#", "-")):
            continue
        try:
            found = distribution(name.strip())
        except PackageNotFoundError:
            continue
        yield Licence(name=name.strip(), version=found.version, licence=licence_of(found))


def licences_of_extra(extra: str) -> Iterator[Licence]:
    """Yield the licence of each installed distribution that the package with an extra needs."""
    names, missing = closure(requirements([extra]))
    for name in sorted(names - missing):
        found = distribution(name)
        yield Licence(name=name, version=found.version, licence=licence_of(found))


def licence_of(found: Distribution) -> str:
    """Return what the metadata of a distribution says of its licence."""
    metadata = found.metadata
    if "License-Expression" in metadata:
        return metadata["License-Expression"]
    classifiers = metadata.get_all("Classifier") or []
    said = [text.removeprefix(_LICENCE) for text in classifiers if text.startswith(_LICENCE)]
    # The whole text of a licence may stand in the field.
    said += [text.strip().partition("\n")[0] for text in metadata.get_all("License") or []]
    for text in said:
        for words, licence in _WORDS:
            if re.search(words, text.lower()):
                return licence
    return next((text for text in said if text), None) or _licence_in_files(found)


def _licence_in_files(found: Distribution) -> str:
    """Return what the first line of a licence file says, where the metadata says nothing."""
    for file in found.files or ():
        if file.name.upper().startswith(("LICENSE", "LICENCE", "COPYING")):
            heading = file.read_text().strip().partition("\n")[0].lower()
            return next((licence for words, licence in _WORDS if re.search(words, heading)), UNKNOWN)
    return UNKNOWN


def main(words: Sequence[str]) -> int:
    """Print the list; return the exit code."""
    found = list(licences_of_extra("dev") if "--dev" in words else licences())
    refused = [each for each in found if not each.is_allowed]
    if "--json" in words:
        sys.stdout.write(json.dumps([asdict(each) for each in found], indent=2) + "\n")
    else:
        width = max(len(each.name) for each in found)
        for each in found:
            sys.stdout.write(f"{each.name:<{width}}  {each.version:<16}  {each.licence}\n")
    for each in refused:
        sys.stderr.write(f"{each.name} {each.version}: licence {each.licence!r} is not allowed: tools/licences.py\n")
    return 1 if refused else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
