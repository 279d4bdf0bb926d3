"""What dpkg knows of the packages of a machine: its log, the checksums of their files, and their copyright files."""

from __future__ import annotations

import glob
import hashlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, TypedDict

_INFO = Path("var/lib/dpkg/info")
_LOG = Path("var/log/dpkg.log")
_CHUNK_BYTES = 1 << 20
_LICENCE = re.compile(r"^License:[ \t]*(\S[^\n]*)", re.MULTILINE)
_COMMON = re.compile(r"/usr/share/common-licenses/([A-Za-z0-9.+-]*[A-Za-z0-9+])")


class Changed(NamedTuple):
    """A package that the log says was installed or upgraded."""

    name: str
    version: str
    at: str


class FilesFound(TypedDict):
    """The files of a package, compared with their checksums."""

    package: str
    files: int
    bytes: int
    changed: list[str]
    missing: list[str]


class LicencesFound(TypedDict):
    """The licences that a package's copyright file names. `is_clear`: it names them in the form for machines."""

    package: str
    licences: list[str]
    is_clear: bool


class HistoryFound(TypedDict):
    """What the log says of a package."""

    package: str
    installs: int
    upgrades: int
    last: str


def has_dpkg(root: Path) -> bool:
    """Return whether a folder is the root of a machine with dpkg."""
    return (root / _INFO).is_dir()


def changed_last(root: Path, count: int) -> list[Changed]:
    """Return the packages that were installed or upgraded last and are still there, the latest first."""
    latest: dict[str, Changed] = {}
    for words in _log_lines(root):
        if words[2:4] == ["status", "installed"] and len(words) >= 6:
            changed = Changed(words[4], words[5], f"{words[0]} {words[1]}")
            # Taken out first: the order is that of the last change.
            latest.pop(changed.name, None)
            latest[changed.name] = changed
    there = (changed for changed in reversed(latest.values()) if checksums_of(root, changed.name) is not None)
    return [changed for changed, _ in zip(there, range(count), strict=False)]


def some_packages(root: Path, count: int) -> list[str]:
    """Return the names of the packages that changed last; where there is no log, of the first by name."""
    changed = [package.name for package in changed_last(root, count)]
    return changed or sorted(path.stem for path in (root / _INFO).glob("*.md5sums"))[:count]


def checksums_of(root: Path, package: str) -> Path | None:
    """Return the file with a package's checksums; None: the package is not installed, or has no files."""
    info = root / _INFO
    names = [f"{package}.md5sums", f"{package.partition(':')[0]}.md5sums"]
    there = [info / name for name in names if (info / name).is_file()]
    # A name without an architecture is that of the first one.
    return there[0] if there else min(info.glob(f"{glob.escape(package)}:*.md5sums"), default=None)


def compared_files(root: Path, package: str) -> FilesFound:
    """Compare the files of a package with the checksums of its installation."""
    found = FilesFound(package=package, files=0, bytes=0, changed=[], missing=[])
    checksums = checksums_of(root, package)
    if checksums is None:
        return found
    for line in checksums.read_text(errors="replace").splitlines():
        expected, _, name = line.partition("  ")
        found["files"] += 1
        try:
            size, digest = _digest_of(root / name)
        except OSError:
            found["missing"].append(f"/{name}")
            continue
        found["bytes"] += size
        if digest != expected:
            found["changed"].append(f"/{name}")
    return found


def _digest_of(path: Path) -> tuple[int, str]:
    digest, size = hashlib.md5(usedforsecurity=False), 0
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
            size += len(chunk)
    return size, digest.hexdigest()


def licences_of(root: Path, package: str) -> LicencesFound:
    """Return the licences of a package: in the form for machines, or the common ones that the text refers to."""
    path = root / "usr/share/doc" / package.partition(":")[0] / "copyright"
    try:
        text = path.read_text(errors="replace")
    except OSError:
        return LicencesFound(package=package, licences=[], is_clear=False)
    if text.startswith("Format:"):
        named = {licence.strip() for licence in _LICENCE.findall(text)}
        return LicencesFound(package=package, licences=sorted(named), is_clear=bool(named))
    return LicencesFound(package=package, licences=sorted(set(_COMMON.findall(text))), is_clear=False)


def history_of(root: Path, package: str) -> HistoryFound:
    """Return how often a package was installed and upgraded, and when it was touched last."""
    found = HistoryFound(package=package, installs=0, upgrades=0, last="")
    for words in _log_lines(root):
        if len(words) > 4 and words[4] == package and words[2] == "status":
            found["last"] = f"{words[0]} {words[1]}"
        elif len(words) > 3 and words[3] == package and words[2] in ("install", "upgrade"):
            found["installs" if words[2] == "install" else "upgrades"] += 1
    return found


def _log_lines(root: Path) -> Iterator[list[str]]:
    try:
        with (root / _LOG).open(errors="replace") as log:
            for line in log:
                yield line.split()
    except FileNotFoundError:
        return
