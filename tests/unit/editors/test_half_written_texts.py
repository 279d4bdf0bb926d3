"""An editor asks in the middle of everything: no text, however unfinished, may leave it without an answer."""

from __future__ import annotations

from pathlib import Path

import pytest
from lsprotocol import types as lsp
from pygls.workspace import PositionCodec

from afl.language_server.answers import Answers
from tests.unit.afl.programs import WHOLE_LANGUAGE

URI = "file:///somewhere/everything.afl"


def _position(text: str) -> lsp.Position:
    return lsp.Position(text.count("\n"), len(text.rpartition("\n")[2]))


@pytest.mark.parametrize("step", range(5))
def test_every_beginning_of_a_text_is_answered(step: int, tmp_path: Path) -> None:
    answers = Answers([tmp_path], PositionCodec())
    for end in range(step, len(WHOLE_LANGUAGE), 25):
        answers.project.open(URI, WHOLE_LANGUAGE[:end])
        document = answers.project.document(URI)
        assert document is not None
        position = _position(WHOLE_LANGUAGE[:end])
        answers.findings(document)
        answers.completion(document, position)
        answers.hover(document, position)
        answers.references(document, position, declared=True)
        answers.symbols(document)
        answers.layout(document)


def test_every_name_of_a_whole_text_is_answered(tmp_path: Path) -> None:
    answers = Answers([tmp_path], PositionCodec())
    answers.project.open(URI, WHOLE_LANGUAGE)
    document = answers.project.document(URI)
    assert document is not None
    for end in range(0, len(WHOLE_LANGUAGE), 2):
        position = _position(WHOLE_LANGUAGE[:end])
        answers.completion(document, position)
        answers.hover(document, position)
        answers.definition(document, position)
