"""The versions of Apache Kafka on which the loop is tested: the newest, that of the containers, and two older ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from afl_stream.broker.broker import Broker
from afl_stream.broker.jars import KAFKA_POM, jars_of

_HERE: Final = Path(__file__).parent


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaVersion:
    """A version, the pom.xml that names its jars, and what its Java is started with."""

    pom: Path
    java_options: Sequence[str] = ()

    def start(self, directory: Path) -> Broker:
        """Start a broker of this version below `directory`, which dies with this process. Raises as Broker.start."""
        libraries = None if self.pom == KAFKA_POM else jars_of(self.pom)
        return Broker.start(directory, libraries=libraries, java_options=self.java_options)


#: By the name of their line. docs/deploying.md has them in a table, with the jars' whole versions.
TESTED: Final = {
    # Its log goes through log4j 1.
    "3.9": KafkaVersion(
        pom=_HERE / "pom-3.9.xml",
        java_options=[f"-Dlog4j.configuration={(_HERE / 'log4j.properties').as_uri()}"],
    ),
    "4.0": KafkaVersion(pom=_HERE / "pom-4.0.xml"),
    # That of docker-compose.yml.
    "4.3": KafkaVersion(pom=_HERE / "pom-4.3.xml"),
    "4.4": KafkaVersion(pom=KAFKA_POM),
}
