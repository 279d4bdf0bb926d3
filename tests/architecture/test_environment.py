"""What `make` says where it can't make its environment."""

import os
import re
import subprocess
from pathlib import Path

_ROOT = Path(__file__).parents[2]


def test_without_a_suitable_python_one_line_says_what_to_install(tmp_path: Path) -> None:
    run = subprocess.run(
        [_ROOT / "tools" / "make-venv", tmp_path / "venv", tmp_path / "stamp"],
        cwd=_ROOT,
        env={**os.environ, "PYTHON": "false"},
        capture_output=True,
        text=True,
    )

    assert run.returncode != 0
    assert run.stderr.count("\n") == 1
    assert "Python 3.11 or newer is needed" in run.stderr
    assert "install it" in run.stderr
    assert not (tmp_path / "stamp").exists()


def test_every_dependency_is_pinned() -> None:
    project = (_ROOT / "pyproject.toml").read_text()
    wanted = set(re.findall(r'^  "([a-zA-Z0-9-]+)[><=]', project, re.MULTILINE))
    pinned = set(re.findall(r"^([A-Za-z0-9_.-]+)==", (_ROOT / "constraints.txt").read_text(), re.MULTILINE))

    assert {_normalised(name) for name in wanted} <= {_normalised(name) for name in pinned}
    assert len(wanted) > 5


def _normalised(name: str) -> str:
    return name.lower().replace("_", "-").replace(".", "-")
