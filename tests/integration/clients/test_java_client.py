"""The client for Java: its sources with every warning, the vectors, and one group with an agent in Python."""

import json
import os
from pathlib import Path

import pytest

from afl_stream.broker.errors import NotInstalled
from afl_stream.broker.jars import jars_of
from afl_stream.broker.java import find_java
from tests.integration.clients.fetched import run_in
from tests.integration.clients.mixed_group import CLIENTS, MixedGroup
from tests.worlds.processes import ROOT
from tests.worlds.requirements import missing, required_tool
from tests.worlds.world import Deployments

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]

FOLDER = CLIENTS / "java"
VECTORS = ROOT / "schemas" / "partitioner_vectors.json"


def test_it_places_keys_as_others_do_and_a_facet_moves_to_it_without_a_stop(
    deployments: Deployments, tmp_path: Path
) -> None:
    compiler = required_tool("javac")
    try:
        jars, found = jars_of(FOLDER / "pom.xml"), find_java()
    except NotInstalled as error:
        missing(str(error))
    path = f"{tmp_path}{os.pathsep}{jars}/*"
    sources = [str(source) for folder in ("src", "examples") for source in sorted((FOLDER / folder).rglob("*.java"))]
    flags = ["-Xlint:all,-serial,-try,-classfile,-processing", "-Werror", "--release", "17", "-encoding", "UTF-8"]
    run_in(tmp_path, [compiler, *flags, "-cp", path, "-d", str(tmp_path), *sources])
    java = [found, "-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", path]
    counted = run_in(tmp_path, [*java, "Vectors", str(VECTORS)]).strip().splitlines()[-1]
    assert int(counted) == len(json.loads(VECTORS.read_text())["vectors"])

    group = MixedGroup(deployments, "java", assignor="cooperative-sticky")
    with group.joined_by([*java, "Tasks"], tmp_path):
        group.share()
        group.rebalance()
        group.move()
        group.answer_all_kinds()
    group.check_answers()
