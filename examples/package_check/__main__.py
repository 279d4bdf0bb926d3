"""Checks the packages that were installed or upgraded last: `python -m examples.package_check`."""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TextIO

from afl_stream.config import load_config
from afl_stream.errors import StreamError
from afl_stream.kafka import KafkaTransport
from afl_stream.pubsub import EventDrivenWorkflow, InvokeContext, OutputTopicEvent
from afl_stream.pubsub.event_stores.sqlite import SQLiteEventStore
from afl_stream.pubsub.event_stores.store import EventStore, RequestKey, RequestStatus
from afl_stream.pubsub.hosting.client import WorkflowClient
from afl_stream.pubsub.hosting.config import WorkerConfig
from afl_stream.transport import TransportError
from examples.package_check.dpkg import has_dpkg, some_packages
from examples.package_check.workflow import ALARMS, REPORTS, package_check

#: Packages that are checked at the same time.
_AT_ONCE: Final = 8
#: Far more than a package takes: an end for a run without workers.
_TIMEOUT_S: Final = 120.0
#: Licences that the summary names.
_SHOWN_LICENCES: Final = 6


@dataclass(slots=True)
class Findings:
    """The output of all requests: reports of packages, and alarms."""

    reports: list[dict[str, Any]] = field(default_factory=list)
    alarms: list[dict[str, Any]] = field(default_factory=list)
    #: Requests that were finished, and that went on, when this process began.
    were_done: int = 0
    went_on: int = 0

    def take(self, topic: str, data: dict[str, Any]) -> None:
        """Take an event of output."""
        (self.reports if topic == REPORTS.name else self.alarms).append(data)


class PackageChecks:
    """Runs one request for each package, some at the same time. What the store has is not done again."""

    def __init__(self, workflow: EventDrivenWorkflow, root: Path, kill_after: int | None) -> None:
        """With `kill_after` the process dies when so many packages were checked here."""
        self._workflow = workflow
        self._root = root
        self._kill_after = kill_after
        self._checked = 0
        self._room = asyncio.Semaphore(_AT_ONCE)
        self.findings = Findings()

    async def check_all(self, packages: Sequence[str]) -> Findings:
        """Check these packages, and return what was found, by now and before."""
        async with asyncio.TaskGroup() as group:
            for package in packages:
                group.create_task(self._check(package))
        return self.findings

    async def _check(self, package: str) -> None:
        async with self._room:
            stored = await self._workflow.event_store.request(RequestKey(self._workflow.name, package))
            before = () if stored is None else stored.events
            for event in before:
                # Output that an earlier process was given.
                if isinstance(event, OutputTopicEvent) and event.name in (REPORTS.name, ALARMS.name):
                    self.findings.take(event.name, event.data)
            if stored is not None and stored.status is RequestStatus.FINISHED:
                self.findings.were_done += 1
                return
            self.findings.went_on += stored is not None
            seen = {event.event_id for event in before if isinstance(event, OutputTopicEvent)}
            asked = None if stored is not None else {"package": package, "root": str(self._root)}
            async for event in self._workflow.invoke(InvokeContext(assistant_request_id=package), asked):
                if event.event_id not in seen:
                    self.findings.take(event.name, event.data)
            self._checked += 1
            if self._checked == self._kill_after:
                os.kill(os.getpid(), signal.SIGKILL)


async def _by_workers(bootstrap: str, root: Path, packages: Sequence[str]) -> Findings:
    """Have the workers of a cluster check these packages, and return what they found."""
    findings = Findings()
    config = load_config(environ={**os.environ, "AFL_KAFKA_BOOTSTRAP": bootstrap})
    with closing(KafkaTransport(config)) as transport:
        async with WorkflowClient(package_check(), transport, WorkerConfig(stream=config)) as client:

            async def check(package: str) -> None:
                asked = {"package": package, "root": str(root)}
                context = InvokeContext(assistant_request_id=package)
                async for event in client.invoke(context, asked, timeout_s=_TIMEOUT_S):
                    findings.take(event.name, event.data)

            async with asyncio.TaskGroup() as group:
                for package in packages:
                    group.create_task(check(package))
    return findings


def summary(findings: Findings, elapsed_s: float) -> str:
    """Return what was found, in words."""
    reports = sorted(findings.reports, key=lambda report: str(report["package"]))
    damaged = [report for report in reports if report["changed"] or report["missing"]]
    files, size = (sum(report[name] for report in reports) for name in ("files", "bytes"))
    lines = [
        f"{len(reports)} packages, {files:,} files, {size / 1e6:,.0f} MB, in {elapsed_s:.1f} s",
        f"as they were installed: {len(reports) - len(damaged)}",
    ]
    if findings.were_done or findings.went_on:
        lines.append(f"done before: {findings.were_done}; begun before, and gone on with: {findings.went_on}")
    lines += [f"  {alarm['package']}: {alarm['text']}" for alarm in sorted(findings.alarms, key=_by_package)]
    licences = Counter(licence for report in reports for licence in report["licences"])
    named = ", ".join(f"{licence} ({count})" for licence, count in _most_common(licences))
    lines.append(f"licences named most: {named or 'none'}")
    return "\n".join(lines) + "\n"


def _by_package(alarm: dict[str, Any]) -> tuple[str, str]:
    return str(alarm["package"]), str(alarm["text"])


def _most_common(licences: Counter[str]) -> list[tuple[str, int]]:
    return sorted(licences.items(), key=lambda item: (-item[1], item[0]))[:_SHOWN_LICENCES]


async def _run(store: EventStore | None, root: Path, packages: Sequence[str], kill_after: int | None) -> Findings:
    try:
        return await PackageChecks(package_check(store), root, kill_after).check_all(packages)
    finally:
        if store is not None:
            await store.close()


def main(arguments: Sequence[str], out: TextIO) -> int:
    """Check packages, and print what was found; return the exit code: 0, also with alarms."""
    parser = argparse.ArgumentParser(
        prog="python -m examples.package_check", description="whether Debian packages are as they were installed"
    )
    parser.add_argument("packages", nargs="*", help="names of packages; without: those of the log that changed last")
    parser.add_argument("--last", type=int, default=60, help="how many of the log (default: 60)")
    parser.add_argument("--root", type=Path, default=Path("/"), help="the root of the machine (default: /)")
    parser.add_argument("--store", type=Path, help="a file that keeps what is done: the same command goes on with it")
    parser.add_argument("--bootstrap", help="a Kafka broker, HOST:PORT: the workers of `afl-stream pubsub run` check")
    parser.add_argument("--kill-after", type=int, help="kill this process when so many packages are checked")
    given = parser.parse_args(arguments)
    if not has_dpkg(given.root):
        parser.exit(3, f"Error: {given.root} has no var/lib/dpkg: this needs Debian, Ubuntu or one of their kind\n")
    packages = given.packages or some_packages(given.root, given.last)
    began_s = time.monotonic()
    if given.bootstrap is not None:
        checking = _by_workers(given.bootstrap, given.root, packages)
    else:
        store = None if given.store is None else SQLiteEventStore(given.store)
        checking = _run(store, given.root, packages, given.kill_after)
    try:
        findings = asyncio.run(checking)
    except* (StreamError, TransportError) as errors:
        parser.exit(3, f"Error: {errors.exceptions[0]}\n")
    out.write(summary(findings, time.monotonic() - began_s))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], sys.stdout))
