"""The bill of materials of what a deployment installs, in the form of CycloneDX: `python -m tools.sbom [FILE]`.

Each distribution of `constraints/run-hashed.txt` with its version and the digests of its files. The image has one of
its own, of what was installed there: /opt/afl-stream/sbom.cdx.json.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tools.constraints import IMAGE, ROOT
from tools.environments import interpreter_of
from tools.hashes import RUN_HASHED

_DEFAULT: Final = ROOT / "build" / "sbom.cdx.json"


def write(path: Path) -> None:
    """Write it, judged by the schema of CycloneDX. Raises EnvironmentNotMade."""
    path.parent.mkdir(parents=True, exist_ok=True)
    command = [str(interpreter_of(IMAGE.name)), "-m", "cyclonedx_py", "requirements", str(RUN_HASHED)]
    command += ["--pyproject", str(ROOT / "pyproject.toml"), "--validate", "--output-reproducible"]
    subprocess.run([*command, "--output-file", str(path)], check=True)


def main(words: Sequence[str]) -> None:
    """Write it to the file that is given, and say where it is."""
    path = Path(words[0]) if words else _DEFAULT
    write(path)
    sys.stdout.write(f"{path}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
