"""The digests of all that the image installs: pip takes nothing else there (`--require-hashes`).

    python -m tools.hashes

writes `constraints/run-hashed.txt` from the versions in `constraints/run.txt`, after each change of that file, and
renews `constraints/image.txt`, what the image is built with. It needs uv (`pip install uv`), which asks the package
index for the digests of every file of a version.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from packaging.utils import canonicalize_name

from tools.constraints import FOLDER, GROUPS, IMAGE, ROOT, requirements

RUN_HASHED: Final = FOLDER / "run-hashed.txt"

_RUN: Final = GROUPS[0]
_PINNED: Final = re.compile(r"^([\w.-]+)==(\S+)((?: \\\n +--hash=sha256:[0-9a-f]{64})+)$", re.MULTILINE)


def digests(path: Path) -> dict[str, tuple[str, list[str]]]:
    """Return the version and the digests of each distribution that a file pins, by its normalised name."""
    return {
        canonicalize_name(name): (version, re.findall(r"sha256:(\w+)", hashes))
        for name, version, hashes in _PINNED.findall(path.read_text())
    }


def python_of_the_image() -> str:
    """Return the version of Python in the image, such as 3.12."""
    (version,) = set(re.findall(r"^FROM python:(\d+\.\d+)", (ROOT / "Dockerfile").read_text(), re.MULTILINE))
    return str(version)


def _uv() -> str:
    path = shutil.which("uv") or shutil.which("uv", path=str(Path(sys.executable).parent))
    if path is None:
        sys.exit("uv is needed: pip install uv")
    return path


def _compile(wanted: Iterator[str], words: Sequence[str], path: Path, purpose: str) -> None:
    command = [_uv(), "pip", "compile", "-", "--quiet", "--generate-hashes", "--no-header", "--no-annotate"]
    command += ["--python-platform", "linux", "--python-version", python_of_the_image(), *words]
    made = subprocess.run(command, input="\n".join(wanted), capture_output=True, text=True, check=False)
    if made.returncode != 0:
        sys.exit(made.stderr)
    path.write_text(
        f"# {purpose}\n# Made by `python -m tools.hashes`, for Python {python_of_the_image()}.\n{made.stdout}"
    )


def write() -> None:
    """Write both files."""
    run = (str(needed) for needed in requirements(_RUN.extras))
    _compile(run, ["--constraint", str(_RUN.path)], RUN_HASHED, f"{_RUN.path.name} with digests, for the image.")
    image = (str(needed) for needed in requirements(IMAGE.extras, with_package=False))
    _compile(image, ["--upgrade"], IMAGE.path, IMAGE.purpose)


if __name__ == "__main__":
    write()
