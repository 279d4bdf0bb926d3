"""Images of others, by digest: a version can be made to mean another image, a digest cannot.

    python -m tools.images

asks for the digest of each image that Dockerfile and docker-compose.yml name, without fetching the image, and writes it
behind the version: `mongo:8.0@sha256:...`. Run again, it takes what the versions mean today. It needs Docker with
buildx, and the registries of the images within reach.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
FILES: Final = (ROOT / "Dockerfile", ROOT / "docker-compose.yml")

#: A name, a version, and a digest where there is one.
REFERENCE: Final = re.compile(r"(?P<tagged>[a-z0-9][a-z0-9./_-]*:\w[\w.-]*)(?P<digest>@sha256:[0-9a-f]{64})?")

_NAMED: Final = re.compile(r"^(?P<before>FROM |\s+image: )(?P<image>[^\s$]+)", re.MULTILINE)
_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}")
_TIMEOUT_S: Final = 120


def images_in(text: str) -> list[str]:
    """Return the images that a Dockerfile or a compose file names; not those that a variable names."""
    return [found["image"] for found in _NAMED.finditer(text)]


def with_digests(text: str, digests: Mapping[str, str]) -> str:
    """Return the text with a digest behind each image, in place of one that is there. `digests`: by `name:version`."""

    def pinned(found: re.Match[str]) -> str:
        tagged = found["image"].partition("@")[0]
        return f"{found['before']}{tagged}@{digests[tagged]}"

    return _NAMED.sub(pinned, text)


def digest_of(tagged: str) -> str:
    """Return the digest of what `name:version` means now, for all platforms at once."""
    if shutil.which("docker") is None:
        sys.exit("docker is not on PATH: it is needed to ask for digests")
    command = ["docker", "buildx", "imagetools", "inspect", "--format", "{{.Manifest.Digest}}", tagged]
    asked = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    digest = asked.stdout.strip()
    if asked.returncode != 0 or not _DIGEST.fullmatch(digest):
        sys.exit(f"no digest of {tagged}: {asked.stderr.strip() or digest}")
    return digest


def main() -> None:
    """Ask for all digests, then write the files."""
    texts = {path: path.read_text() for path in FILES}
    tagged = sorted({image.partition("@")[0] for text in texts.values() for image in images_in(text)})
    digests = {each: digest_of(each) for each in tagged}
    for path, text in texts.items():
        path.write_text(with_digests(text, digests))


if __name__ == "__main__":
    main()
