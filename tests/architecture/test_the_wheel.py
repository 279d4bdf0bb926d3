"""The wheel: made from the source archive, as an index does it, and used where there is no source tree.

Each environment has links to what the wheel's own metadata asks for, out of the environment of the tests, and nothing
else: no index is asked, and a dependency that is not declared is missed.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import venv
import zipfile
from collections.abc import Callable, Iterable
from email import message_from_bytes
from email.message import Message
from importlib.metadata import distribution
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from afl.core.release import VERSION
from tests.architecture.page_tables import ROOT
from tools.constraints import APART, closure, project, requirements

pytestmark = pytest.mark.long

_COMPILES = """
import afl, json, pathlib, sys
here = pathlib.Path(afl.__file__)
assert here.is_relative_to(sys.prefix), here
program = afl.compile_text('namespace shop { event facet Pay(amount: Double) => (receipt: String) }').program_json
print(program["declarations"][0]["name"], sorted(name for name in sys.modules if name.startswith("lark")))
"""
#: What each extra is for: modules that cannot be imported without its libraries, and those libraries.
_OF_EXTRAS: Final = {
    # Its libraries are in the environment of the tests only where there is no Java.
    "broker": ("afl_stream.cli",),
    "claude": ("afl.runtime.agent", "anthropic"),
    "dashboard": ("afl_stream.dashboard.application", "jinja2", "multipart", "starlette", "uvicorn"),
    "editors": ("afl.language_server.server", "pygls"),
    "encryption": ("afl_stream.sensitive.ciphers", "cryptography"),
    "gateway": ("afl_stream.gateway.application", "starlette", "uvicorn"),
    "llm": ("afl_stream.pubsub.llm", "docstring_parser", "pydantic"),
    "mcp": ("afl_stream.mcp.server", "mcp"),
    "metrics": ("afl_stream", "prometheus_client"),
    "mongodb": ("afl.stores.mongo.store", "pymongo"),
    "otel": ("afl_stream.tracing.opening", "opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http"),
    "parquet": ("afl_stream.audit.parquet_sink", "pyarrow"),
    "registry": ("afl_stream.registry.client", "confluent_kafka.schema_registry"),
}
#: For the tests, and for programs that are compared with; users of the package have no need of them.
_NOT_FOR_USERS: Final = {
    "benchmarks",
    "dev",
    "image",
    "mongodb-server",
    *(each for group in APART for each in group.extras),
}
_ORDERS: Final = """namespace shop {
    event facet Charge(order: String) => (receipt: String)
    workflow Checkout(order: String) => (receipt: String) andThen {
        paid = Charge(order = $.order)
        yield Checkout(receipt = paid.receipt)
    }
}
"""
_DESK: Final = """
def register_handlers(runner):
    runner.register("shop.Charge", lambda payload: {"receipt": "r-" + payload["order"]})
"""


class Built(NamedTuple):
    """A wheel that was made of the source archive, and one of the source tree."""

    wheel: Path
    of_the_tree: Path

    def read(self, name: str) -> bytes:
        with zipfile.ZipFile(self.wheel) as packed:
            return packed.read(name)

    def names(self) -> set[str]:
        with zipfile.ZipFile(self.wheel) as packed:
            return set(packed.namelist())

    def metadata(self) -> Message:
        return message_from_bytes(self.read(f"afl_stream-{VERSION}.dist-info/METADATA"))


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


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    folder = tmp_path_factory.mktemp("built")
    with tarfile.open(_build(ROOT, "sdist", folder / "sdist")) as packed:
        packed.extractall(folder / "unpacked", filter="data")
    (tree,) = (folder / "unpacked").iterdir()
    return Built(_build(tree, "wheel", folder / "wheel"), _build(ROOT, "wheel", folder / "wheel-of-the-tree"))


#: Makes an environment with the wheel and some of the tests' own distributions; returns its `bin`.
NewEnvironment = Callable[[Iterable[str]], Path]


@pytest.fixture
def new_environment(built: Built, tmp_path: Path) -> NewEnvironment:
    def make(distributions: Iterable[str]) -> Path:
        venv.create(tmp_path / "venv", with_pip=False, symlinks=True)
        (packages,) = (tmp_path / "venv" / "lib").glob("python*/site-packages")
        # As an installer does, which would take ten times as long; one test has pip do it.
        with zipfile.ZipFile(built.wheel) as packed:
            packed.extractall(packages)
        for name in distributions:
            _link(name, packages)
        return tmp_path / "venv" / "bin"

    return make


def _install(wheel: Path, python: Path) -> None:
    pip = [sys.executable, "-m", "pip", "--python", str(python), "--disable-pip-version-check", "--quiet"]
    again = ["--force-reinstall", "--no-deps", "--no-index"]
    subprocess.run([*pip, "install", *again, str(wheel)], check=True, timeout=100)


def _link(name: str, packages: Path) -> None:
    """Have a distribution of the tests' environment in another one, file by file: several may share a folder."""
    found = distribution(name)
    for file in found.files or ():
        if file.parts[0] == "..":
            continue
        (packages / file).parent.mkdir(parents=True, exist_ok=True)
        if not (packages / file).exists():
            (packages / file).symlink_to(str(found.locate_file(file)))


def test_the_source_archive_makes_the_same_wheel_byte_for_byte(built: Built) -> None:
    assert built.wheel.name == built.of_the_tree.name
    assert built.wheel.read_bytes() == built.of_the_tree.read_bytes()


def test_the_wheel_has_all_that_is_read_at_run_time(built: Built) -> None:
    names = built.names()
    # The templates of projects, whose names begin or end as those of no module.
    templates = {path.relative_to(ROOT).as_posix() for path in (ROOT / "afl_stream").rglob("*.tmpl")}
    schemas = {f"afl_stream/_{path.relative_to(ROOT).as_posix()}" for path in (ROOT / "schemas").rglob("*.avsc")}
    topics = {f"afl_stream/_{path.relative_to(ROOT).as_posix()}" for path in (ROOT / "topics").iterdir()}

    assert all((templates, schemas, topics))
    assert names >= templates | schemas | topics
    assert names >= {"afl/py.typed", "afl_stream/py.typed", "afl/grammar/table.json"}
    assert {name.partition("/")[0] for name in names} == {"afl", "afl_stream", f"afl_stream-{VERSION}.dist-info"}


def test_the_metadata_says_whose_it_is_and_where(built: Built) -> None:
    metadata = built.metadata()

    assert metadata["License-Expression"] == "Apache-2.0"
    assert f"afl_stream-{VERSION}.dist-info/licenses/LICENSE" in built.names()
    assert metadata["Author"] == "The maintainers of AFL Stream"
    links = {text.partition(", ")[0] for text in metadata.get_all("Project-URL", [])}
    assert links == {"Homepage", "Documentation", "Changelog", "Source", "Issues"}
    assert {"Typing :: Typed", "Programming Language :: Python :: 3.11"} <= set(metadata.get_all("Classifier", []))
    assert set(metadata.get_all("Provides-Extra", [])) == {*_OF_EXTRAS, *_NOT_FOR_USERS}


def test_it_compiles_without_lark_or_the_source_tree(new_environment: NewEnvironment, tmp_path: Path) -> None:
    python = new_environment(()) / "python"

    done = subprocess.run(
        [python, "-I", "-c", _COMPILES], cwd=tmp_path, capture_output=True, text=True, check=True, timeout=60
    )

    assert done.stdout == "shop []\n"


def test_without_extras_its_commands_check_deploy_run_and_answer(
    built: Built, new_environment: NewEnvironment, tmp_path: Path
) -> None:
    names, missing = closure(requirements(()))
    binaries = new_environment(names - missing)
    _install(built.wheel, binaries / "python")
    (folder := tmp_path / "project").mkdir()
    (folder / "orders.afl").write_text(_ORDERS)
    (folder / "desk.py").write_text(_DESK)
    environment = {name: text for name, text in os.environ.items() if not name.startswith(("AFL_", "PYTHON"))}

    def call(*words: str) -> str:
        done = subprocess.run(
            [binaries / words[0], *words[1:]],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert VERSION in call("afl", "--version")
    call("afl", "check", "orders.afl")
    assert '"r-17"' in call(
        "afl-stream", "dev", "orders.afl", "--handlers", "desk", "--input", "order=17", "--id", "o-17"
    )
    call("afl-stream", "start", "Checkout", "--input", "order=18", "--id", "o-18")
    call("afl-stream", "evaluator", "--until-idle")
    call("afl-stream", "agent", "--handlers", "desk", "--until-idle")
    call("afl-stream", "evaluator", "--until-idle")
    assert '"r-18"' in call("afl-stream", "status", "o-18")


@pytest.mark.parametrize("extra", _OF_EXTRAS)
def test_an_extra_alone_brings_all_that_it_is_for(extra: str, new_environment: NewEnvironment, tmp_path: Path) -> None:
    names, missing = closure(requirements([extra]))
    python = new_environment(names - missing) / "python"

    script = "import sys\n" + "".join(f"import {module}\n" for module in _OF_EXTRAS[extra])
    done = subprocess.run(
        [python, "-I", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60
    )

    assert (done.returncode, done.stderr) == (0, "")


def test_each_extra_is_for_somebody() -> None:
    declared = project()["optional-dependencies"]
    assert isinstance(declared, dict)

    assert sorted(declared) == sorted({*_OF_EXTRAS, *_NOT_FOR_USERS})
