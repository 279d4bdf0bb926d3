"""`examples/package_check` on a small machine that is made here, and killed in the middle."""

from __future__ import annotations

import io
import re
import signal
import subprocess
import sys
from hashlib import md5
from pathlib import Path
from typing import Final

import pytest

from afl_stream.pubsub.drawing.mermaid import mermaid
from examples.package_check.__main__ import main
from examples.package_check.dpkg import changed_last, history_of
from examples.package_check.workflow import package_check

FOLDER: Final = Path(__file__).parents[2] / "examples" / "package_check"
COUNT: Final = 30


class Machine:
    """The root of a machine with some packages."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for folder in ("var/lib/dpkg/info", "var/log", "usr/bin", "usr/share/doc"):
            (root / folder).mkdir(parents=True)

    def install(self, name: str, copyright: str = "Format: x\nLicense: MIT\n", *, at: str = "2026-01-01") -> Path:
        """Install a package of one program, and return the program."""
        program = self.root / "usr/bin" / name
        program.write_text(f"program {name}")
        digest = md5(program.read_bytes(), usedforsecurity=False).hexdigest()
        (self.root / f"var/lib/dpkg/info/{name}:amd64.md5sums").write_text(f"{digest}  usr/bin/{name}\n")
        (self.root / "usr/share/doc" / name).mkdir()
        (self.root / "usr/share/doc" / name / "copyright").write_text(copyright)
        with (self.root / "var/log/dpkg.log").open("a") as log:
            log.write(
                f"{at} 10:00:00 install {name}:amd64 <none> 1.0\n{at} 10:00:01 status installed {name}:amd64 1.0\n"
            )
        return program


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path / "root")


def checked(machine: Machine, *arguments: str) -> list[str]:
    out = io.StringIO()
    assert main(["--root", str(machine.root), *arguments], out) == 0
    return out.getvalue().splitlines()


def test_each_package_has_its_report_and_what_is_wrong_an_alarm(machine: Machine) -> None:
    machine.install("good")
    machine.install("changed").write_text("something else")
    machine.install("gone").unlink()
    machine.install("old", "This is free software; see /usr/share/common-licenses/GPL-2.\n")

    lines = checked(machine)

    assert re.sub(r"\d\.\d s", "~", lines[0]) == "4 packages, 4 files, 0 MB, in ~"
    assert lines[1:] == [
        "as they were installed: 2",
        "  changed:amd64: files not as installed: 1 changed of 1, for instance /usr/bin/changed",
        "  gone:amd64: files not as installed: 1 missing of 1, for instance /usr/bin/gone",
        "  old:amd64: names no licence in a form for machines",
        "licences named most: MIT (3), GPL-2 (1)",
    ]


def test_a_package_that_is_not_installed_is_an_alarm_and_no_report(machine: Machine) -> None:
    machine.install("good")

    lines = checked(machine, "good", "bad")

    assert lines[0].startswith("1 packages, 1 files")
    assert "  bad: is not installed" in lines


def test_the_packages_that_changed_last_are_checked_first(machine: Machine) -> None:
    for name, at in (("first", "2026-01-01"), ("second", "2026-01-02"), ("third", "2026-01-03")):
        machine.install(name, at=at)
    (machine.root / "var/lib/dpkg/info/third:amd64.md5sums").unlink()

    assert [package.name for package in changed_last(machine.root, 2)] == ["second:amd64", "first:amd64"]
    assert history_of(machine.root, "second:amd64") == {
        "package": "second:amd64",
        "installs": 1,
        "upgrades": 0,
        "last": "2026-01-02 10:00:01",
    }


def test_without_a_log_the_first_packages_by_name_are_checked(machine: Machine) -> None:
    for name in ("a", "b", "c"):
        machine.install(name)
    (machine.root / "var/log/dpkg.log").unlink()

    assert checked(machine, "--last", "2")[0].startswith("2 packages, 2 files")


def test_a_run_that_was_killed_goes_on_and_finds_the_same(machine: Machine, tmp_path: Path) -> None:
    for number in range(COUNT):
        machine.install(f"p{number:02}", "" if number % 3 == 0 else "Format: x\nLicense: MIT\n")
    whole = checked(machine)
    store = tmp_path / "checks.sqlite3"
    command = [sys.executable, "-m", "examples.package_check", "--root", str(machine.root), "--store", str(store)]

    killed = subprocess.run([*command, "--kill-after", "10"], cwd=FOLDER.parents[1], capture_output=True, timeout=60)
    resumed = checked(machine, "--store", str(store))

    assert killed.returncode == -signal.SIGKILL, killed.stderr
    found = re.fullmatch(r"done before: (\d+); begun before, and gone on with: (\d+)", resumed.pop(2))
    assert found is not None
    assert 10 <= int(found[1]) < COUNT
    assert resumed[1:] == whole[1:]


def test_a_machine_without_dpkg_is_told_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--root", str(tmp_path)], io.StringIO())

    assert ended.value.code == 3
    assert "has no var/lib/dpkg" in capsys.readouterr().err


def test_the_picture_of_the_page_is_that_of_the_workflow() -> None:
    (picture,) = re.findall(r"^```mermaid\n(.*?)^```$", (FOLDER / "README.md").read_text(), re.M | re.S)

    assert picture.strip() == mermaid(package_check().definition).strip()
