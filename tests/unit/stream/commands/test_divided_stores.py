"""What commands say of a SQLite store that is divided into several files, and of one that is divided otherwise."""

from __future__ import annotations

import shutil
from contextlib import closing
from pathlib import Path

import pytest

from afl_stream.cli import main
from afl_stream.evaluator.stores import open_configured_store
from afl_stream.settings.config import EmbeddedSettings, KafkaSettings, StreamConfig

#: Nobody listens there: what is refused has to be refused before a broker is asked.
NO_BROKER = "127.0.0.1:1"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a working directory with a store of one file."""
    monkeypatch.chdir(tmp_path)
    config = StreamConfig(kafka=KafkaSettings(bootstrap=NO_BROKER), embedded=EmbeddedSettings(data_dir=".afl"))
    with closing(open_configured_store(config)):
        return tmp_path


def run(*words: str) -> int:
    return main([*words, "--bootstrap", NO_BROKER])


def test_a_division_says_which_files_count_and_how_evaluators_are_started(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("store", "divide", "2") == 0
    assert run("store", "check") == 0

    said = capsys.readouterr().err
    assert said.count("store .afl/store-kafka-*-of-2.sqlite3 (the Kafka cluster's; in 2 files)") == 2
    assert "kept, and not read any more: .afl/store-kafka.sqlite3.before-" in said
    assert f"the evaluators of this store: afl-stream evaluator --processes 2 --bootstrap {NO_BROKER}" in said


def test_what_an_interrupted_division_has_left_is_named_and_set_aside(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = folder / ".afl"
    shutil.copy(data / "store-kafka.sqlite3", data / "store-kafka-1-of-2.sqlite3")

    assert run("store", "divide", "2") == 0

    told = "left by a division that was interrupted, no part of the store, and set aside; it may be deleted: .afl/"
    assert f"{told}store-kafka-1-of-2.sqlite3.before-" in capsys.readouterr().err
    shutil.copy(next(data.glob("store-kafka.sqlite3.before-*")), data / "store-kafka.sqlite3")
    assert run("store", "divide", "2") == 0

    said = capsys.readouterr().err
    assert "it is divided so already" in said
    assert f"{told}store-kafka.sqlite3.before-" in said
    assert run("store", "divide", "2") == 0
    assert "interrupted" not in capsys.readouterr().err


@pytest.mark.parametrize("words", ["status", "store check", "store divide 3", "evaluator --processes 2"])
def test_parts_whose_note_is_gone_are_not_called_no_store(
    words: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run("store", "divide", "2")
    (folder / ".afl" / "store-kafka.parts").unlink()
    capsys.readouterr()

    assert run(*words.split()) == 3

    said = capsys.readouterr().err
    assert "Error: .afl/store-kafka.parts: there is no such file beside the parts of a store" in said


def test_a_file_in_place_of_the_data_folder_is_not_called_a_damaged_division(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (wrong := tmp_path / "a file").touch()

    assert run("evaluator", "--processes", "2", "--data-dir", str(wrong)) == 3

    said = capsys.readouterr().err
    assert str(wrong) in said
    assert "store-kafka.parts" not in said


@pytest.mark.parametrize(
    ("words", "fact"),
    [
        (["--processes", "3"], "is 2 files, and 3 processes would need 3 files"),
        (["--processes", "2", "--one-file"], "is 2 files, and --one-file would need one file"),
    ],
)
def test_evaluators_that_do_not_fit_the_files_are_refused_before_one_is_started(
    words: list[str], fact: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run("store", "divide", "2")
    capsys.readouterr()

    assert run("evaluator", *words) == 2

    said = capsys.readouterr().err
    assert fact in said
    assert "afl-stream evaluator --processes 2" in said
    assert "process 1 of 2" not in said
