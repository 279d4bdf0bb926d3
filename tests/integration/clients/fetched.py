"""What the clients' ecosystems bring, kept outside the tree: fetched once, then there offline."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from afl_stream.broker.jars import cache_root, locked
from tests.integration.clients.mixed_group import CLIENTS
from tests.worlds.processes import ROOT
from tests.worlds.requirements import missing, required_tool

_FETCH_TIMEOUT_S: Final = 600
_RUN_TIMEOUT_S: Final = 240


def node_client(folder: Path) -> Path:
    """Return a copy of the Node client in this folder, with its packages, as npm's lock file names them."""
    npm = required_tool("npm")
    source, copied = CLIENTS / "node", folder / "clients" / "node"
    locks = (source / "package.json", source / "package-lock.json")
    digest = hashlib.sha256(b"".join(lock.read_bytes() for lock in locks)).hexdigest()[:8]

    def fetch(folder: Path) -> None:
        for lock in locks:
            shutil.copy(lock, folder)
        run_in(folder, [npm, "ci", "--no-audit", "--no-fund"], fetches=True)

    packages = kept("node", digest, fetch) / "node_modules"
    shutil.copytree(source, copied, ignore=shutil.ignore_patterns("node_modules"))
    (copied / "node_modules").symlink_to(packages)
    (folder / "schemas").symlink_to(ROOT / "schemas")
    return copied


def kept(name: str, version: str, fetch: Callable[[Path], None]) -> Path:
    """Return the folder of the cache that has this version of something, which is fetched when it is not there yet."""
    digest = hashlib.sha256(version.encode()).hexdigest()[:8]
    folder = cache_root() / f"{name}-{digest}"
    folder.mkdir(parents=True, exist_ok=True)
    whole = folder / "whole"
    with locked(folder / "lock"):
        if not whole.is_dir():
            with tempfile.TemporaryDirectory(dir=folder, prefix="fetching-") as scratch:
                fetched = Path(scratch) / "whole"
                fetched.mkdir()
                fetch(fetched)
                fetched.rename(whole)
    return whole


def run_in(
    folder: Path,
    command: Sequence[str],
    *,
    environment: Mapping[str, str] | None = None,
    given: str = "",
    fetches: bool = False,
) -> str:
    """Run a program to its end, with a text on its standard input, and return what it printed.

    What cannot be fetched is missing.
    """
    run = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **(environment or {})},
        input=given,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=_FETCH_TIMEOUT_S if fetches else _RUN_TIMEOUT_S,
        check=False,
    )
    if run.returncode and fetches:
        missing(f"{' '.join(command)} in {folder} could not fetch: {run.stdout[-1_000:]}")
    assert run.returncode == 0, f"{command}\n{run.stdout}"
    return run.stdout
