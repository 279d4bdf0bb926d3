"""The command that editors start, and what it costs those who do not."""

import subprocess
import sys
from pathlib import Path

import pytest

#: What only the language server needs.
_HEAVY = ("afl.language_server", "pygls", "lsprotocol", "attrs", "cattrs", "asyncio")


def _python(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, timeout=60)


def test_without_its_library_the_command_says_what_to_install() -> None:
    ended = _python("import sys; sys.modules['pygls'] = None\nfrom afl.cli import main\nsys.exit(main(['lsp']))")

    assert ended.returncode == 1
    assert ended.stderr == "Error: the language server needs pygls; install the extra: afl-stream[editors]\n"


@pytest.mark.parametrize("command", ["check", "compile", "fmt"])
def test_other_commands_import_nothing_of_the_language_server(command: str, tmp_path: Path) -> None:
    (tmp_path / "a.afl").write_text("facet A()\n")
    shown = "print(*sys.modules, sep='\\n', file=sys.stderr)"

    ended = _python(
        f"import sys\nfrom afl.cli import main\nmain(sys.argv[1:])\n{shown}", command, str(tmp_path / "a.afl")
    )

    imported = ended.stderr.split("\n")
    assert "afl.parser" in imported
    assert [name for name in imported if name.startswith(_HEAVY)] == []
