"""What the image is made of cannot change unseen: packages have digests, and images of others versions and digests."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.worlds.requirements import missing
from tools.constraints import GROUPS, IMAGE, pins
from tools.environments import EnvironmentNotMade
from tools.hashes import RUN_HASHED, digests, python_of_the_image
from tools.images import FILES, REFERENCE, images_in, with_digests
from tools.sbom import write

_ROOT = Path(__file__).parents[2]
_DOCKERFILE = (_ROOT / "Dockerfile").read_text()
#: What a step of the image installs, without the backslashes at line ends.
_INSTALLS = re.findall(r"\bpip (?:--python \S+ )?install ([^&\n]*)", _DOCKERFILE.replace("\\\n", " "))
_DIGEST = "sha256:" + "0f" * 32


def test_each_version_that_a_deployment_installs_has_digests_in_the_image() -> None:
    hashed = digests(RUN_HASHED)

    assert {name: version for name, (version, _) in hashed.items()} == pins(GROUPS[0].path)
    assert all(found for _, found in hashed.values())
    assert digests(IMAGE.path).keys() >= {"pip", "hatchling", "cyclonedx-bom"}
    for path in (RUN_HASHED, IMAGE.path):
        assert f"for Python {python_of_the_image()}." in path.read_text()
        assert len(re.findall("^[^# ]", path.read_text(), re.MULTILINE)) == len(digests(path))


def test_the_image_installs_nothing_without_a_digest_and_runs_nothing_of_it_to_build_it() -> None:
    assert len(_INSTALLS) == 2
    for words in _INSTALLS:
        assert "--require-hashes" in words
        assert "--only-binary :all:" in words
    assert f"--requirement constraints/{IMAGE.path.name}" in _INSTALLS[0]
    assert f"--constraint constraints/{RUN_HASHED.name}" in _INSTALLS[1]


def test_images_of_others_have_versions_and_digests() -> None:
    named = [image for path in FILES for image in images_in(path.read_text())]
    parts = [found.groupdict() if (found := REFERENCE.fullmatch(image)) else {} for image in named]

    assert len(named) >= 6
    assert [image for image in named if ":latest" in image] == []
    assert [image for image, part in zip(named, parts, strict=True) if not part.get("digest")] == []
    # Of one version there is one image.
    assert len({part["tagged"] for part in parts}) == len(set(named))


@pytest.mark.parametrize(
    "image", ["mongo", "mongo:8.0@sha256:0f", f"mongo@{_DIGEST}", f"mongo:8.0@{_DIGEST}0", f"Mongo:8.0@{_DIGEST}"]
)
def test_an_image_without_a_version_or_with_a_digest_that_is_none_is_found(image: str) -> None:
    assert not REFERENCE.fullmatch(image)


def test_digests_are_written_behind_versions_and_again_in_place_of_older_ones() -> None:
    text = (
        "FROM python:3.12-slim AS build\nservices:\n  a:\n    image: mongo:8.0\n    image: ${AFL_IMAGE:-afl:latest}\n"
    )
    older = with_digests(text, {"python:3.12-slim": _DIGEST, "mongo:8.0": "sha256:" + "00" * 32})
    newer = with_digests(older, {"python:3.12-slim": _DIGEST, "mongo:8.0": _DIGEST})

    assert images_in(newer) == [f"python:3.12-slim@{_DIGEST}", f"mongo:8.0@{_DIGEST}"]
    assert newer.replace(f"@{_DIGEST}", "") == text


def test_without_docker_the_tool_says_what_it_needs_and_changes_nothing(tmp_path: Path) -> None:
    before = [path.read_text() for path in FILES]
    run = subprocess.run(
        [sys.executable, "-m", "tools.images"],
        cwd=_ROOT,
        env={"PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert (run.returncode, run.stderr) == (1, "docker is not on PATH: it is needed to ask for digests\n")
    assert [path.read_text() for path in FILES] == before


@pytest.mark.long
@pytest.mark.timeout(400)
def test_the_bill_of_materials_has_each_distribution_with_its_digests(tmp_path: Path) -> None:
    try:
        write(tmp_path / "sbom.json")
    except EnvironmentNotMade as error:
        missing(str(error))
    bill = json.loads((tmp_path / "sbom.json").read_text())

    assert bill["bomFormat"] == "CycloneDX"
    assert bill["metadata"]["component"]["name"] == "afl-stream"
    listed = {
        part["name"]: (
            part["version"],
            [digest["content"] for place in part["externalReferences"] for digest in place.get("hashes", ())],
        )
        for part in bill["components"]
    }
    assert listed == digests(RUN_HASHED)
