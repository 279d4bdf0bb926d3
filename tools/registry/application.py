"""Apicurio Registry from Maven Central, kept outside the tree: fetched and unpacked once, then there offline."""

import subprocess
import tarfile
import tempfile
from pathlib import Path

from afl_stream.broker.errors import JarsMissing
from afl_stream.broker.jars import cache_root, locked, maven

RELEASE = "3.3.3"

_ARTIFACT = f"io.apicurio:apicurio-registry-app:{RELEASE}:tar.gz:all"
#: It has 158 MB.
_FETCH_TIMEOUT_S = 600


def application_folder() -> Path:
    """Return the folder of the unpacked application, fetched with Maven when it is not there yet.

    Steps:
      1. take the lock of the folder, so that of two callers at once one fetches and the other waits,
      2. let Maven copy the archive into a temporary folder beside it, and unpack it there,
      3. rename that folder to its name.

    A crash before 3 leaves a temporary folder that no one uses; the folder itself is whole or not there.
    Raises JarsMissing when Maven is not there or can't fetch it.
    """
    folder = cache_root() / f"apicurio-registry-{RELEASE}"
    application = folder / "app"
    if application.is_dir():
        return application
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder / "lock"):
        if not application.is_dir():
            _fetch(application)
    return application


def _fetch(application: Path) -> None:
    command = [maven(application), "-q", "-B", "dependency:copy", f"-Dartifact={_ARTIFACT}"]
    with tempfile.TemporaryDirectory(dir=application.parent, prefix="fetching-") as scratch:
        try:
            run = subprocess.run(
                [*command, f"-DoutputDirectory={scratch}"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                # A folder without a pom.xml of its own.
                cwd=scratch,
                text=True,
                timeout=_FETCH_TIMEOUT_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise JarsMissing(application, f"Maven did not finish within {_FETCH_TIMEOUT_S} s") from None
        archives = list(Path(scratch).glob("*.tar.gz"))
        if run.returncode != 0 or not archives:
            raise JarsMissing(application, f"Maven said:\n{run.stdout[-2_000:]}")
        unpacked = Path(scratch) / "app"
        with tarfile.open(archives[0]) as archive:
            archive.extractall(unpacked, filter="data")
        unpacked.rename(application)
