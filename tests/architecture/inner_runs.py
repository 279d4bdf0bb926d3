"""Runs of pytest in a test, on files that the test writes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.worlds.processes import ROOT

#: Those of these files; loading the others takes a process longer than its tests.
_PLUGINS = "xdist.plugin,pytest_timeout"


def inner_run(
    folder: Path, *words: str, module: str = "pytest", cache: bool = False, **files: str
) -> subprocess.CompletedProcess[str]:
    """Write `name.py` for each of these files into a folder, and run what is in it with two workers."""
    for name, source in files.items():
        (folder / f"{name}.py").write_text(source)
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "PYTEST_PLUGINS": _PLUGINS,
    }
    without_cache = () if cache else ("-p", "no:cacheprovider")
    return subprocess.run(
        [sys.executable, "-m", module, "-n", "2", "--dist", "worksteal", "--rootdir", folder, *without_cache, *words],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
