"""The chart as Helm itself takes it, and what it makes of values by the schemas of Kubernetes."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tests.architecture.test_chart import SHOWN, WITH_PAGES, merged
from tests.integration.clients.fetched import kept, run_in
from tests.worlds.processes import ROOT
from tests.worlds.requirements import required_tool

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

_CHART: Final = ROOT / "deploy" / "helm" / "afl-stream"
_HELM: Final = "helm.sh/helm/v3/cmd/helm@v3.18.6"
_SCHEMAS: Final = ("kubernetes-validate==1.37.0", "importlib-resources==6.5.2")
_VERSIONS: Final = ("1.30", "1.34")
#: What KEDA declares: its schema is not among those of Kubernetes.
_FOREIGN: Final = {"ScaledObject"}
_JUDGE: Final = """
import json, sys, kubernetes_validate
versions = sys.argv[1:]
for document in json.load(sys.stdin):
    for version in versions:
        kubernetes_validate.validate(document, version, strict=True)
"""


@pytest.fixture(scope="module")
def helm() -> str:
    """Return the program, which Go builds once from the pinned module."""
    go = required_tool("go")

    def build(folder: Path) -> None:
        run_in(folder, [go, "install", _HELM], environment={"GOBIN": str(folder)}, fetches=True)

    return str(kept("helm", _HELM, build) / "helm")


def values_file(folder: Path, *values: dict[str, Any]) -> str:
    path = folder / "values.yaml"
    whole: dict[str, Any] = {}
    for more in values:
        whole = merged(whole, more)
    path.write_text(yaml.safe_dump(whole))
    return str(path)


def test_helm_finds_nothing_to_say(helm: str, tmp_path: Path) -> None:
    said = run_in(tmp_path, [helm, "lint", "--strict", str(_CHART), "-f", values_file(tmp_path, SHOWN, WITH_PAGES)])

    assert "1 chart(s) linted, 0 chart(s) failed" in said
    assert "[WARNING]" not in said


def test_what_helm_makes_is_what_kubernetes_takes(helm: str, tmp_path: Path) -> None:
    def install(folder: Path) -> None:
        words = ["-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-deps", "--target", str(folder)]
        run_in(folder, [sys.executable, *words, *_SCHEMAS], fetches=True)

    schemas = kept("kubernetes", " ".join(_SCHEMAS), install)
    judge = [sys.executable, "-c", _JUDGE, *_VERSIONS]
    path = {"PYTHONPATH": str(schemas)}

    of = ["--kube-version", _VERSIONS[-1], "-f", values_file(tmp_path, SHOWN, WITH_PAGES)]
    made = run_in(tmp_path, [helm, "template", "shop", str(_CHART), *of])
    documents = [document for document in yaml.safe_load_all(made) if document]
    known = [document for document in documents if document["kind"] not in _FOREIGN]
    assert len(documents) - len(known) == 1
    run_in(tmp_path, judge, environment=path, given=json.dumps(known))

    known[0]["spec"]["no such field"] = 1
    with pytest.raises(AssertionError, match="no such field"):
        run_in(tmp_path, judge, environment=path, given=json.dumps(known))
