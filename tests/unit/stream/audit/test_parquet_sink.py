"""Audit lines as Parquet: files that are whole or not there, and no record lost or repeated over a crash."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from afl_stream.audit.audit import Audit, AuditConfig
from afl_stream.audit.parquet_sink import AuditParquet, ParquetUnreadable
from afl_stream.audit.verifying import verify
from afl_stream.embedded.transport import Crash, EmbeddedTransport, Faults
from tests.unit.stream.agent.agent_bench import Deployment, event

pytest.importorskip("pyarrow")
pytestmark = pytest.mark.filterwarnings("default::DeprecationWarning")


class Bench:
    def __init__(self, deployment: Deployment, folder: Path, faults: Faults | None = None, most_lines: int = 3) -> None:
        self.now_s = 0.0
        self.transport = EmbeddedTransport(deployment.broker)
        self.sink = AuditParquet(folder, most_lines=most_lines, clock_s=lambda: self.now_s)
        config = AuditConfig(stream=deployment.stream, batch_records=2)
        self.audit = Audit(config, self.transport, self.sink, probe=(faults or Faults()).probe)

    def catch_up(self) -> None:
        for _ in range(12):  # A turn that only repeats writes no line.
            self.audit.turn(0)


def offsets(folder: Path) -> list[int]:
    import pyarrow.parquet

    parts = [pyarrow.parquet.read_table(part).to_pylist() for part in sorted(folder.glob("*.parquet"))]
    return [row["offset"] for part in parts for row in part]


def test_lines_are_collected_until_they_fill_a_file_or_have_waited_long_enough(tmp_path: Path) -> None:
    deployment, folder = Deployment(), tmp_path / "audit.parquet"
    deployment.publish(*(event(step=n) for n in range(1, 6)))
    bench = Bench(deployment, folder)

    bench.catch_up()
    # Batches of two: the second one filled a file.
    assert offsets(folder) == [0, 1, 2, 3]
    bench.now_s = 61.0
    bench.audit.turn(0)
    assert offsets(folder) == [0, 1, 2, 3, 4]
    bench.audit.close()
    assert len(list(folder.iterdir())) == 2


def test_a_row_has_the_line_and_what_is_asked_for_most(tmp_path: Path) -> None:
    import pyarrow.parquet

    deployment, folder = Deployment(), tmp_path / "audit.parquet"
    deployment.publish(event(step=1))
    bench = Bench(deployment, folder)
    bench.catch_up()
    bench.audit.close()

    (row,) = pyarrow.parquet.read_table(folder / "part-00000001.parquet").to_pylist()
    assert (row["kind"], row["workflow"], row["facet"]) == ("event", "wf-1", "billing.Pay")
    assert json.loads(row["line"])["payload"] == {"n": 1}


@pytest.mark.parametrize("step", ["audit.polled", "audit.written", "audit.synced", "audit.committed"])
def test_a_crash_loses_no_record_and_repeats_none(tmp_path: Path, step: str) -> None:
    deployment, folder, faults = Deployment(), tmp_path / "audit.parquet", Faults()
    deployment.publish(*(event(step=n) for n in range(1, 10)))
    faults.fail_at(step, passes=1)
    bench = Bench(deployment, folder, faults)
    with pytest.raises(Crash):
        bench.catch_up()
    bench.transport.abandon()
    bench.audit.close()

    again = Bench(deployment, folder)
    again.catch_up()
    again.audit.close()

    assert offsets(folder) == list(range(9))
    assert verify(folder).is_intact


def test_what_a_crash_left_unfinished_is_removed(tmp_path: Path) -> None:
    folder = tmp_path / "audit.parquet"
    folder.mkdir()
    (folder / "part-00000001.parquet.unfinished").write_bytes(b"half")

    AuditParquet(folder)

    assert list(folder.iterdir()) == []


def test_a_file_that_is_taken_out_or_changed_shows(tmp_path: Path) -> None:
    deployment, folder = Deployment(), tmp_path / "audit.parquet"
    deployment.publish(*(event(step=n) for n in range(1, 10)))
    bench = Bench(deployment, folder)
    bench.catch_up()
    bench.audit.close()
    parts = sorted(folder.glob("*.parquet"))
    assert verify(folder).is_intact

    parts[1].unlink()
    assert not verify(folder).is_intact
    parts[0].write_bytes(b"no parquet")
    with pytest.raises(ParquetUnreadable, match="part-00000001"):
        verify(folder)
