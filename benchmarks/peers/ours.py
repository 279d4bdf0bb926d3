"""Our agent, as a process: `python -m benchmarks.peers.ours COMMIT_INTERVAL_S GROUP`, with `afl-stream`'s settings."""

import sys
from collections.abc import Sequence
from contextlib import closing
from typing import Any, Final

from afl.core.process.signals import draining
from afl_stream.agent.agent import Agent, AgentConfig
from afl_stream.evaluator.service import tune_collector
from afl_stream.kafka.transport import KafkaTransport
from afl_stream.settings.config import load_config

FACET: Final = "benchmark.Work"


def work(payload: dict[str, Any]) -> dict[str, Any]:
    """Answer an event with a count that is one higher."""
    return {"count": payload["count"] + 1, "text": payload["text"], "share": payload["share"]}


def main(arguments: Sequence[str]) -> None:
    """Answer events until SIGTERM."""
    interval_s, group = arguments
    config = load_config()
    with closing(KafkaTransport(config)) as transport:
        # As the command `afl-stream agent` does.
        tune_collector()
        agent = Agent(AgentConfig(stream=config, group=group, commit_interval_s=float(interval_s)), transport)
        agent.register(FACET, work)
        with draining(agent.stop):
            agent.run()


if __name__ == "__main__":
    main(sys.argv[1:])
