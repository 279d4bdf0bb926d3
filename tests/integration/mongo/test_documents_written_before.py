"""Documents of MongoDB that an earlier release wrote: read, gone on with, and written again to the byte."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pymongo import MongoClient

from afl.config import MongoDBConfig
from afl.runtime import MongoStore
from tests.compatibility.contract import WrittenBefore
from tests.compatibility.dumps import in_format_1, lines_of, restore_lines
from tests.compatibility.generations import (
    GENERATION_1,
    comparable,
    differences,
    reopened,
    restored_log,
    text_of,
    with_schemas_of,
)
from tests.compatibility.world import World, mongo_store
from tests.compatibility.write import story_in_mongodb


@pytest.fixture
def client(mongodb: MongoDBConfig) -> Iterator[MongoClient[dict[str, Any]]]:
    with MongoClient[dict[str, Any]](mongodb.connection_string()) as client:
        yield client


class TestDocumentsWrittenBefore(WrittenBefore):
    @pytest.fixture(params=[1, 2])
    def generation(self, request: pytest.FixtureRequest) -> int:
        found: int = request.param
        return found

    @pytest.fixture
    def earlier(self, tmp_path: Path, mongodb_of_either_kind: MongoDBConfig, generation: int) -> Iterator[World]:
        found = mongodb_of_either_kind
        with MongoClient[dict[str, Any]](found.connection_string()) as client:
            restore_lines(text_of("documents.jsonl", generation), client[found.database])
            restored_log(tmp_path)
            earlier = reopened(tmp_path, mongo_store(client[found.database]))
            yield earlier
            earlier.close(kill=True)

    @pytest.fixture
    def answers(self) -> str:
        return text_of("answers.jsonl")


def test_opening_a_store_changes_none_of_its_documents(
    mongodb: MongoDBConfig, client: MongoClient[dict[str, Any]]
) -> None:
    database = client[mongodb.database]
    restore_lines(text_of("documents.jsonl"), database)

    MongoStore("", mongodb.database, client=client, create=False).close()

    assert differences(in_format_1(lines_of(database)), text_of("documents.jsonl")) == []


def test_the_same_story_writes_the_same_documents(
    mongodb: MongoDBConfig, client: MongoClient[dict[str, Any]], tmp_path: Path
) -> None:
    reported = story_in_mongodb(GENERATION_1 / "programs", tmp_path, client[mongodb.database])

    assert differences(in_format_1(reported.store), text_of("documents.jsonl")) == []
    written, kept = comparable(reported.log), comparable(text_of("log.sql"))
    assert differences(with_schemas_of(written, kept), with_schemas_of(kept, kept)) == []
