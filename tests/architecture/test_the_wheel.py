"""The wheel: made from the source archive, as an index does it, and used where there is no source tree."""

import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

from tests.architecture.page_tables import ROOT

pytestmark = pytest.mark.long

_COMPILES = """
import afl, json, pathlib, sys
here = pathlib.Path(afl.__file__)
assert here.is_relative_to(sys.prefix), here
program = afl.compile_text('namespace shop { event facet Pay(amount: Double) => (receipt: String) }').program_json
print(program["declarations"][0]["name"], sorted(name for name in sys.modules if name.startswith("lark")))
"""


def _build(tree: Path, target: str, to: Path) -> Path:
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "--target", target, "--directory", str(to)],
        cwd=tree,
        stdout=subprocess.DEVNULL,
        check=True,
        timeout=100,
    )
    (built,) = to.iterdir()
    return built


def test_a_wheel_made_of_the_source_archive_compiles_without_lark_or_the_source_tree(tmp_path: Path) -> None:
    archive = _build(ROOT, "sdist", tmp_path / "sdist")
    with tarfile.open(archive) as packed:
        packed.extractall(tmp_path / "unpacked", filter="data")
    (tree,) = (tmp_path / "unpacked").iterdir()
    wheel = _build(tree, "wheel", tmp_path / "wheel")
    with zipfile.ZipFile(wheel) as packed_wheel:
        # The templates of projects, whose names begin or end as those of no module.
        templates = {name for name in packed_wheel.namelist() if name.endswith(".tmpl")}
        beside = {name for name in packed_wheel.namelist() if name.startswith("afl_stream/broker/")}
    assert {path.relative_to(ROOT).as_posix() for path in (ROOT / "afl_stream").rglob("*.tmpl")} == templates != set()
    # What `afl-stream broker` fetches is named there.
    assert {f"afl_stream/broker/{name}" for name in ("pom.xml", "pom.sha256", "log4j2.properties")} <= beside
    # Nothing else is installed there: Lark, above all, is not.
    venv.create(tmp_path / "venv", with_pip=False, symlinks=True)
    python = tmp_path / "venv" / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", str(python), "--disable-pip-version-check"]
    subprocess.run([*pip, "install", "--quiet", "--no-deps", "--no-index", str(wheel)], check=True, timeout=100)

    done = subprocess.run(
        [python, "-I", "-c", _COMPILES], cwd=tmp_path, capture_output=True, text=True, check=True, timeout=60
    )

    assert done.stdout == "shop []\n"
