"""A whole deployment whose evaluators share a MongoDB database; everything else is in this process."""

from __future__ import annotations

from pathlib import Path

from afl.config import MongoDBConfig
from afl.runtime.mongo_store import MongoStore
from afl.runtime.persistence import EngineStore
from afl_stream.config import EvaluatorSettings
from afl_stream.embedded import Faults
from tests.scenarios.loop_harness import Deployment


class MongoDeployment(Deployment):
    """Each evaluator has a connection of its own, as each process has."""

    def __init__(
        self,
        database: MongoDBConfig,
        directory: Path,
        *sources: str,
        evaluator: EvaluatorSettings | None = None,
        control_partitions: int = 2,
    ) -> None:
        self._database = database
        super().__init__(directory, *sources, evaluator=evaluator, control_partitions=control_partitions)

    def open_store(self, faults: Faults) -> EngineStore:
        store = MongoStore(
            self._database.connection_string(),
            self._database.database,
            prefix=self.config.prefix,
            clock=self.clock,
            # What died is in this process: nobody waits long for it.
            commit_lease_ms=50,
            probe=faults.probe,
        )
        self._stores.append(store)
        return store
