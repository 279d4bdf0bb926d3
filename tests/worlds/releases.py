"""Source trees of releases before this one, taken from the history of this repository."""

from __future__ import annotations

import io
import subprocess
import tarfile
from pathlib import Path
from typing import Final

from tests.worlds.processes import ROOT
from tests.worlds.requirements import missing

#: What a deployment needs of a tree.
_PARTS: Final = ("afl", "afl_stream", "schemas", "topics")
_TIMEOUT_S: Final = 60


def release_tree(commit: str, folder: Path) -> Path:
    """Write the packages of a commit into a new folder, and return it; skips the test without the history."""
    done = subprocess.run(
        ["git", "-C", str(ROOT), "archive", commit, *_PARTS], capture_output=True, timeout=_TIMEOUT_S, check=False
    )
    if done.returncode != 0:
        missing(f"commit {commit} is not in this checkout's history: {done.stderr.decode(errors='replace').strip()}")
    tree = folder / f"release-{commit}"
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as packed:
        packed.extractall(tree, filter="data")
    return tree
