"""The treatment of a machine that lacks something that a test needs: a skip that says what, and in CI a failure."""

import os
import shutil
from typing import NoReturn

import pytest


def missing(what: str) -> NoReturn:
    """Skip the test saying what is missing; fail it in CI, where everything must run."""
    if os.environ.get("CI", "").lower() in ("", "0", "false"):
        pytest.skip(what)
    pytest.fail(f"{what} (required, because CI is set)", pytrace=False)


def required_tool(name: str) -> str:
    """Return the path of a program on PATH."""
    path = shutil.which(name)
    if path is None:
        missing(f"{name} is not on PATH; install it (Debian, Ubuntu: apt install {_PACKAGES.get(name, name)})")
    return path


_PACKAGES = {
    "cargo": "cargo, or cargo-web on Debian 12",
    "go": "golang",
    "node": "nodejs",
    "java": "default-jre-headless",
    "javac": "default-jdk-headless",
    "mvn": "maven",
}
