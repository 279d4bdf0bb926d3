"""The file of the store: the embedded log and a cluster have one each, and files of earlier releases are kept."""

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest

from afl.engine.model.store import Batch, Position, PositionMove
from afl.stores.sqlite.store import SqliteStore
from afl_stream.embedded.transport import EmbeddedTransport
from afl_stream.settings.config import EmbeddedSettings, KafkaSettings, StoreSettings, StreamConfig
from afl_stream.settings.store_files import StoreFile, find_store_file

KAFKA = Position("MkU3OEVBNTcwNTJENDM2Qg", "afl.control", 0, "jP5Gz8vFQ0mX2o3Kq1hLxw")
EMBEDDED = Position("ea8YTxI_RSaXMzhghqJyFA", "afl.control", 0, "1")


def store(path: Path, *read: Position) -> Path:
    """Make a store that has read these."""
    with closing(SqliteStore(path)) as made:
        moves = [PositionMove(position=position, expected=None, next_offset=1) for position in read]
        made.commit_batch(Batch(positions=moves))
    return path


def names(folder: Path) -> tuple[str, str]:
    """Return the file of the embedded log's store, and that of the cluster's."""
    return find_store_file(folder, is_kafka=False).path.name, find_store_file(folder, is_kafka=True).path.name


def test_an_empty_folder_has_a_file_for_each(tmp_path: Path) -> None:
    assert names(tmp_path) == ("store.sqlite3", "store-kafka.sqlite3")
    assert names(tmp_path / "missing") == ("store.sqlite3", "store-kafka.sqlite3")


@pytest.mark.parametrize(
    ("read", "expected"),
    [
        ([EMBEDDED], ("store.sqlite3", "store-kafka.sqlite3")),
        ([KAFKA], ("store-embedded.sqlite3", "store.sqlite3")),
        ([KAFKA._replace(topic_id="")], ("store-embedded.sqlite3", "store.sqlite3")),
        # Both were read into it, as evaluator.lost_records = "continue" allowed: neither loses its runs.
        ([EMBEDDED, KAFKA], ("store.sqlite3", "store.sqlite3")),
        # Handlers that are registered, and nothing read yet.
        ([], ("store.sqlite3", "store.sqlite3")),
    ],
)
def test_a_file_of_the_one_name_of_earlier_releases_stays_with_who_has_read_into_it(
    read: Sequence[Position], expected: tuple[str, str], tmp_path: Path
) -> None:
    store(tmp_path / "store.sqlite3", *read)

    assert names(tmp_path) == expected


def test_a_store_that_has_read_nothing_is_the_embedded_logs_where_that_is_beside_it(tmp_path: Path) -> None:
    store(tmp_path / "store.sqlite3")
    EmbeddedTransport(tmp_path / "log.sqlite3").close()

    assert names(tmp_path) == ("store.sqlite3", "store-kafka.sqlite3")


def test_positions_without_a_topics_id_are_the_embedded_logs_where_its_file_has_their_cluster(tmp_path: Path) -> None:
    transport = EmbeddedTransport(tmp_path / "log.sqlite3")
    cluster = transport.admin().cluster_id()
    transport.close()
    store(tmp_path / "store.sqlite3", EMBEDDED._replace(cluster_id=cluster, topic_id=""))

    assert names(tmp_path) == ("store.sqlite3", "store-kafka.sqlite3")


def test_files_of_the_new_names_count_whatever_is_beside_them(tmp_path: Path) -> None:
    for name in ("store.sqlite3", "store-kafka.sqlite3", "store-embedded.sqlite3"):
        store(tmp_path / name)

    assert names(tmp_path) == ("store-embedded.sqlite3", "store-kafka.sqlite3")


def test_a_file_that_cannot_be_looked_into_is_left_to_who_opens_it(tmp_path: Path) -> None:
    (tmp_path / "store.sqlite3").write_text("no database")

    assert names(tmp_path) == ("store.sqlite3", "store.sqlite3")
    assert "cannot be looked into" in find_store_file(tmp_path, is_kafka=True).reason


def test_looking_leaves_no_file_behind_and_sees_what_an_open_store_has_written(tmp_path: Path) -> None:
    path = store(tmp_path / "store.sqlite3", EMBEDDED)
    quiet = names(tmp_path)
    left = sorted(file.name for file in tmp_path.iterdir())
    (path).unlink()

    with closing(SqliteStore(path)) as writing:
        writing.commit_batch(Batch(positions=[PositionMove(position=KAFKA, expected=None, next_offset=1)]))
        busy = names(tmp_path)

    assert quiet == ("store.sqlite3", "store-kafka.sqlite3")
    assert left == ["store.sqlite3"]
    assert busy == ("store-embedded.sqlite3", "store.sqlite3")


def test_a_store_of_an_older_format_is_read_by_its_clusters(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "store.sqlite3")) as older, older:
        older.execute("CREATE TABLE position(cluster_id, topic, partition, next_offset)")
        older.execute("INSERT INTO position VALUES ('somewhere', 'afl.control', 0, 1)")

    assert names(tmp_path) == ("store-embedded.sqlite3", "store.sqlite3")


def test_an_embedded_log_that_is_not_there_yet_tells_of_the_clusters_store_beside_it(tmp_path: Path) -> None:
    store(tmp_path / "store-kafka.sqlite3", KAFKA)

    assert find_store_file(tmp_path, is_kafka=False) == StoreFile(
        tmp_path / "store.sqlite3", "the embedded log's; store-kafka.sqlite3 is a Kafka cluster's"
    )


def test_each_choice_says_why(tmp_path: Path) -> None:
    store(tmp_path / "store.sqlite3", EMBEDDED)
    embedded = StreamConfig(embedded=EmbeddedSettings(data_dir=str(tmp_path)))
    kafka = StreamConfig(embedded=embedded.embedded, kafka=KafkaSettings(bootstrap="kafka:9092"))
    named = StreamConfig(store=StoreSettings(path="mine.db"))

    assert embedded.store_file == StoreFile(tmp_path / "store.sqlite3", "the embedded log's")
    assert kafka.store_file == StoreFile(
        tmp_path / "store-kafka.sqlite3", "the Kafka cluster's; store.sqlite3 is the embedded log's"
    )
    assert named.store_file == StoreFile(Path("mine.db"), "as store.path says")
