"""The licence audit's workflow and handlers, against a plain loop and against distributions made for the test."""

import hashlib
from importlib.metadata import PathDistribution
from pathlib import Path

import pytest

from afl.compiler import compile_files
from examples.licence_audit import distributions, handlers, plain
from tests.random_programs.interpreter import Interpreter

_WORKFLOW = Path(handlers.__file__).with_name("licence_audit.afl")


class Registered:
    """Notes what a handler module registers."""

    def __init__(self) -> None:
        self.facets: dict[str, tuple[str, str]] = {}

    def register_handler(self, facet_name: str, module_uri: str, entrypoint: str = "handle") -> None:
        self.facets[facet_name] = (module_uri, entrypoint)


def _distribution(folder: Path, metadata: str) -> PathDistribution:
    metadata_folder = folder / "thing-1.0.dist-info"
    metadata_folder.mkdir()
    (metadata_folder / "METADATA").write_text(f"Metadata-Version: 2.4\nName: thing\nVersion: 1.0\n{metadata}\n")
    return PathDistribution(metadata_folder)


def test_the_workflow_arrives_at_what_a_plain_loop_finds() -> None:
    compiled = compile_files([_WORKFLOW], include_locations=False)
    audit = Interpreter(
        compiled.program_json, lambda facet, payload: handlers.handle({**payload, "_facet_name": facet})
    )

    outputs = audit.run("licences.LicenceAudit", {"limit": 4})

    assert compiled.diagnostics == ()
    assert outputs == plain.licence_audit(limit=4)
    assert outputs["files"] == sum(report["files"] for report in plain.licence_audit(limit=4)["reports"]) > 0


def test_every_event_facet_of_the_workflow_has_a_registered_handler() -> None:
    registered = Registered()
    handlers.register_handlers(registered)
    namespace = compile_files([_WORKFLOW]).program_json["declarations"][0]
    facets = [f"licences.{node['name']}" for node in namespace["declarations"] if node["type"] == "EventFacetDecl"]

    assert registered.facets == dict.fromkeys(facets, (handlers.__name__, "handle"))


@pytest.mark.parametrize(
    ("metadata", "licence"),
    [
        ("License-Expression: MIT OR Apache-2.0\nLicense: something else", "MIT OR Apache-2.0"),
        ("License: BSD-3-Clause", "BSD-3-Clause"),
        ("License: MIT License", "MIT"),
        ("License: UNKNOWN\nClassifier: License :: OSI Approved :: Apache Software License", "Apache-2.0"),
        (
            "Classifier: License :: OSI Approved :: MIT License\nClassifier: License :: OSI Approved :: BSD License",
            "BSD AND MIT",
        ),
        (f"License: {'the text of a licence, ' * 9}", "not stated"),
        ("", "not stated"),
    ],
)
def test_the_licence_is_read_from_expression_field_or_classifiers(tmp_path: Path, metadata: str, licence: str) -> None:
    assert distributions.licence_of(_distribution(tmp_path, metadata)) == licence


def test_files_are_counted_hashed_in_order_of_their_paths_and_missed_when_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _distribution(tmp_path, "License: MIT")
    (tmp_path / "a.py").write_bytes(b"first")
    (tmp_path / "b.py").write_bytes(b"second")
    (tmp_path / "thing-1.0.dist-info" / "RECORD").write_text("b.py,,\ngone.py,,\na.py,,\n__pycache__/a.pyc,,\n")
    monkeypatch.syspath_prepend(str(tmp_path))

    report = distributions.inspect("thing")

    assert report == {
        "name": "thing",
        "version": "1.0",
        "licence": "MIT",
        "files": 2,
        "missing": 1,
        "bytes": 11,
        "sha256": hashlib.sha256(b"firstsecond").hexdigest(),
    }


def test_totals_put_the_most_frequent_licence_first() -> None:
    def report(name: str, licence: str) -> distributions.Report:
        return {
            "name": name, "version": "1", "licence": licence, "files": 2, "missing": 0, "bytes": 10, "sha256": "",
        }  # fmt: skip

    totals = distributions.totals_by_licence([report("a", "BSD"), report("b", "MIT"), report("c", "MIT")])

    assert totals == [
        {"licence": "MIT", "distributions": 2, "files": 4, "bytes": 20},
        {"licence": "BSD", "distributions": 1, "files": 2, "bytes": 10},
    ]
