"""What is installed beside this interpreter: names, licences and files, read with importlib.metadata."""

import csv
import hashlib
import re
from collections.abc import Iterable
from importlib.metadata import Distribution, distribution, distributions
from typing import TypedDict

#: Longer texts in the License field are the licence itself, not its name.
_LONGEST_NAME = 60

#: Spellings that metadata use for the commonest licences, as SPDX writes them.
_SPDX = {
    "MIT License": "MIT",
    "The MIT License": "MIT",
    "Apache Software License": "Apache-2.0",
    "Apache License 2.0": "Apache-2.0",
    "Apache License, Version 2.0": "Apache-2.0",
    "Apache 2.0": "Apache-2.0",
    "BSD License": "BSD",
    "BSD 2-Clause License": "BSD-2-Clause",
    "BSD 3-Clause": "BSD-3-Clause",
    "BSD 3-Clause License": "BSD-3-Clause",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "Python Software Foundation License": "PSF-2.0",
}


class Report(TypedDict):
    """One distribution, inspected. The fields of the AFL schema of the same name."""

    name: str
    version: str
    licence: str
    #: Files that were read; those in the record but not on disk are `missing`.
    files: int
    missing: int
    bytes: int
    #: SHA-256 over the contents of the files, in the order of their paths.
    sha256: str


class LicenceTotal(TypedDict):
    """The distributions under one licence, taken together."""

    licence: str
    distributions: int
    files: int
    bytes: int


def installed_names() -> list[str]:
    """Normalised names of all installed distributions, each once, in alphabetical order."""
    return sorted({_normalised(found.name) for found in distributions() if found.name})


def inspect(name: str) -> Report:
    """Read one distribution. Raises importlib.metadata.PackageNotFoundError when it isn't installed."""
    found = distribution(name)
    digest, files, missing, size = hashlib.sha256(), 0, 0, 0
    # Byte code is the interpreter's own, and differs from one run to the next.
    for path in sorted(path for path in _recorded_files(found) if not path.endswith(".pyc")):
        try:
            with open(str(found.locate_file(path)), "rb") as file:
                content = file.read()
        except OSError:
            missing += 1
            continue
        digest.update(content)
        files, size = files + 1, size + len(content)
    return Report(
        name=_normalised(found.name),
        version=found.version,
        licence=licence_of(found),
        files=files,
        missing=missing,
        bytes=size,
        sha256=digest.hexdigest(),
    )


def licence_of(found: Distribution) -> str:
    """Return the licence that the metadata name: as an expression, in the License field, or as a classifier."""
    metadata = found.metadata
    expression = _first(metadata.get_all("License-Expression"))
    if expression:
        return expression
    stated = _first(metadata.get_all("License"))
    if stated and stated.upper() != "UNKNOWN" and len(stated) <= _LONGEST_NAME and "\n" not in stated:
        return _SPDX.get(stated, stated)
    classified = [
        c.rpartition("::")[2].strip() for c in metadata.get_all("Classifier") or () if c.startswith("License ::")
    ]
    return " AND ".join(sorted(_SPDX.get(c, c) for c in classified)) or "not stated"


def totals_by_licence(reports: Iterable[Report]) -> list[LicenceTotal]:
    """Add up by licence: the one with the most distributions first, then by name."""
    totals: dict[str, LicenceTotal] = {}
    for report in reports:
        licence = report["licence"]
        total = totals.setdefault(licence, LicenceTotal(licence=licence, distributions=0, files=0, bytes=0))
        total["distributions"] += 1
        total["files"] += report["files"]
        total["bytes"] += report["bytes"]
    return sorted(totals.values(), key=lambda total: (-total["distributions"], total["licence"]))


def _recorded_files(found: Distribution) -> list[str]:
    """Return the paths that a distribution's record names, also of files that are gone."""
    record = found.read_text("RECORD")
    if record is None:
        return [str(path) for path in found.files or ()]
    # Not `files`: from Python 3.12 on it leaves out what is missing.
    return [row[0] for row in csv.reader(record.splitlines()) if row]


def _normalised(name: str) -> str:
    """Return the name as package indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _first(values: list[str] | None) -> str:
    return values[0].strip() if values else ""
