"""`afl fmt`: several files, what is wrong with some of them, and what --check and --diff show."""

from pathlib import Path

import pytest

from afl.cli import main


def _file(directory: Path, name: str, text: str) -> Path:
    path = directory / name
    path.write_bytes(text.encode())
    return path


def test_a_file_with_a_mistake_keeps_no_other_from_being_formatted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = _file(tmp_path, "wrong.afl", "facet F( ?")
    messy = _file(tmp_path, "messy.afl", "facet  F()")

    assert main(["fmt", str(wrong), str(messy)]) == 1
    assert messy.read_text() == "facet F()\n"
    assert wrong.read_text() == "facet F( ?"
    assert f"{wrong}:1:10: error[PARSE_ERROR]" in capsys.readouterr().err


def test_a_check_names_every_file_that_would_change_and_changes_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    messy = [_file(tmp_path, f"{number}.afl", "facet  F()") for number in range(2)]
    tidy = _file(tmp_path, "tidy.afl", "facet F()\n")

    assert main(["fmt", "--check", *map(str, messy), str(tidy)]) == 1
    assert capsys.readouterr() == ("", "".join(f"would change: {path}\n" for path in messy))
    assert messy[0].read_text() == "facet  F()"


def test_a_diff_of_a_text_without_a_last_line_end_says_so(
    tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    path = _file(tmp_path, "f.afl", "facet  F()")

    assert main(["fmt", "--diff", "--check", str(path)]) == 1
    assert capsysbinary.readouterr().out.decode().splitlines()[-3:] == [
        "-facet  F()",
        "\\ No newline at end of file",
        "+facet F()",
    ]


def test_line_ends_become_those_of_unix_but_in_strings(tmp_path: Path) -> None:
    path = _file(tmp_path, "f.afl", '\ufefffacet F(x: String = "a\r\nb") // c\r\n')

    assert main(["fmt", str(path)]) == 0
    assert path.read_bytes() == b'facet F(x: String = "a\r\nb") // c\n'
