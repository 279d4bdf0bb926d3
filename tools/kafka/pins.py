"""`python -m tools.kafka.pins`: the names and digests of the broker's jars, written beside its pom.xml.

After each change of a version there. Maven says which jars they are.
"""

from __future__ import annotations

import hashlib
import re
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from afl_stream.broker.jars import KAFKA_POM, maven
from afl_stream.broker.pins import Pin

_LISTED: Final = re.compile(r"^\s+(\S+?):(\S+?):jar:(\S+?):(?:compile|runtime)\b", re.MULTILINE)


def main() -> None:
    """Fetch the jars, and write the pins."""
    with tempfile.TemporaryDirectory() as folder:
        libraries, listed = Path(folder) / "libs", Path(folder) / "list"
        command = [maven(libraries), "-q", "-B", "-f", str(KAFKA_POM), "-DincludeScope=runtime"]
        subprocess.run([*command, "dependency:list", f"-DoutputFile={listed}"], check=True)
        subprocess.run([*command, "dependency:copy-dependencies", f"-DoutputDirectory={libraries}"], check=True)
        pins = [Pin("", *place) for place in sorted(_LISTED.findall(listed.read_text()))]
        whole = [pin._replace(sha256=_digest(libraries / pin.file_name)) for pin in pins]
    head = "# The jars of pom.xml. Made by `python -m tools.kafka.pins`.\n"
    KAFKA_POM.with_suffix(".sha256").write_text(head + "".join(f"{pin}\n" for pin in whole))


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


if __name__ == "__main__":
    main()
