"""The commands of schemas/README.md, ready to be typed at a deployment under another address and prefix."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from afl_stream.settings.config import StreamConfig
from tests.worlds.processes import ROOT

SCHEMAS: Final = ROOT / "schemas"
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_NAMED = re.compile(r"\A(?:#|//) (\S+)\n")
_ADDRESS: Final = "localhost:9092"
_TOPIC = re.compile(r"\bafl\.(?=(?:control|commands|external|schemas|events|presence)\b)")
_RUN_TIMEOUT_S: Final = 90


def programs() -> dict[str, str]:
    """Return the programs of the page by the file name in their first line."""
    named = ((_NAMED.match(body), body) for _, body in _blocks())
    return {name[1]: body for name, body in named if name is not None}


def shell(beginning: str) -> str:
    """Return the only shell block that begins so."""
    (found,) = [body for language, body in _blocks() if language == "sh" and body.startswith(beginning)]
    return found


def typed(text: str, folder: Path, config: StreamConfig, environment: Mapping[str, str]) -> str:
    """Type it in a shell in this folder, for this deployment in place of the page's, and return what it prints."""
    text = _TOPIC.sub(config.prefix, text.replace(_ADDRESS, config.kafka.bootstrap or ""))
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    run = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", text],
        cwd=folder,
        env={**os.environ, **environment, "PATH": path},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_RUN_TIMEOUT_S,
        check=False,
    )
    assert run.returncode == 0, f"{text}\n{run.stdout}\n{run.stderr}"
    return run.stdout


def _blocks() -> list[tuple[str, str]]:
    return _BLOCK.findall((SCHEMAS / "README.md").read_text())
