"""Random programs through the control loop, among crashes, copies and any keys: the interpreter is the judge."""

import json
from random import Random

import pytest

from afl.compiled.program import CompiledProgram
from afl.compiler import compile_text
from afl.engine.model.store import COMPLETED, ENDED_STATUSES
from afl_stream.embedded.transport import Crash, Faults
from afl_stream.settings.config import EvaluatorSettings
from afl_stream.transport import TopicPartition
from afl_stream.wire.messages import Event, StepContinue
from tests.random_programs.answers import Answers
from tests.random_programs.expressions import Failure, Node
from tests.random_programs.generator import RandomProgram, generate
from tests.random_programs.interpreter import Interpreter
from tests.scenarios.test_loop_crashes import EVALUATOR_POINTS, TRANSPORT_POINTS
from tests.tiers import in_one_run
from tests.worlds.world import embedded

_ALWAYS, _ALL, _AT_ONCE = 80, 1_000, 20
_ROUNDS = 300
#: The store in memory has no crash points; its every commit is whole or not at all.
_POINTS = [point for point in (*EVALUATOR_POINTS, *TRANSPORT_POINTS) if not point.startswith("store.")]


class Turmoil:
    """One deployment in which programs run one after the other, while its evaluator dies now and then."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        budget = self.random.choice((1, 5, 5_000))
        settings = EvaluatorSettings(batch_records=self.random.choice((1, 4, 500)), workflow_budget_steps=budget)
        self.deployment = embedded(None, evaluator=settings)
        self._read: dict[TopicPartition, int] = {}
        self._reader = self.deployment.transport.consumer(None)
        self._asked: list[Event] = []
        self.crashes = 0

    def run(self, case: RandomProgram, tree: Node) -> str:
        """Run a program to its end, and return the id of its workflow."""
        deployment, random, answers = self.deployment, self.random, Answers(tree)
        program = CompiledProgram(tree)
        deployment.client.apply_topics([program])
        deployment.client.deploy(program)
        # Unanswered events of an earlier program do not matter: it has ended.
        self._asked.clear()
        topics = [deployment.topology.facet(facet) for facet in answers.names()]
        workflow_id = deployment.client.start(case.workflow, case.inputs, workflow_id=f"wf-{case.seed}")
        for _ in range(_ROUNDS):
            row = deployment.store.load_workflow(workflow_id)
            if row is not None and row.status in ENDED_STATUSES:
                return workflow_id
            self._turn()
            self._asked += self._new_events(topics, workflow_id)
            random.shuffle(self._asked)
            for _ in range(random.randint(0, len(self._asked))):
                self._answer(self._asked.pop(), answers)
        raise AssertionError(f"seed {case.seed}: it has not ended in {_ROUNDS} rounds\n{case.text}")

    def _turn(self) -> None:
        deployment = self.deployment
        deployment.clock.advance(self.random.choice((10, 10, 1_000)))
        try:
            evaluator = deployment.evaluators[0] if deployment.evaluators else deployment.evaluator(Faults())
            if self.random.random() < 0.3:
                evaluator.faults.clear()
                evaluator.faults.fail_at(self.random.choice(_POINTS), passes=self.random.randrange(4))
            evaluator.turn()
        except Crash:
            self.crashes += 1
            deployment.remove(evaluator, killed=True)

    def _new_events(self, topics: list[str], workflow_id: str) -> list[Event]:
        described = self.deployment.broker.topics()
        partitions = [TopicPartition(topic, n) for topic in topics for n in range(described[topic].partitions)]
        self._reader.assign({partition: self._read.get(partition, 0) for partition in partitions})
        events: list[Event] = []
        while records := self._reader.consume(500, 0):
            for record in records:
                self._read[record.topic_partition] = record.offset + 1
                event = self.deployment.codec.decode(record.value, record.headers)
                # What comes late of an earlier program is a copy: that program has ended.
                if isinstance(event, Event) and event.workflow_id == workflow_id:
                    events.append(event)
        return events

    def _answer(self, event: Event, answers: Answers) -> None:
        result = answers(event.event_type, dict(event.payload))  # type: ignore[arg-type]  # decoded values
        for _ in range(self.random.choice((1, 1, 2))):
            answer = StepContinue(step_id=event.step_id, result=result, event_id=event.id)
            key = self.random.choice((None, str(self.random.random()).encode()))
            self.deployment.send(answer, key=key)


def _disagreement(turmoil: Turmoil, case: RandomProgram) -> str:
    """Return what is different, and the program to look at; nothing when all is well."""
    tree = compile_text(case.text, include_locations=False).program_json
    row = turmoil.deployment.workflow(turmoil.run(case, tree))
    found = f"{row.status}: {row.outputs}, {row.error}"
    try:
        expected = Interpreter(tree, Answers(tree)).run(case.workflow, case.inputs)
    except Failure as failure:
        if row.error is not None and row.error.type in failure.types:
            return ""
        return f"seed {case.seed}: expected any of {sorted(failure.types)}, found {found}\n{case.text}"
    if row.status == COMPLETED and _canonical(row.outputs) == _canonical(expected):
        return ""
    return f"seed {case.seed}: expected {expected}, found {found}\n{case.text}"


def _canonical(outputs: object) -> str:
    """Text in which 1, 1.0 and true differ, and the order of a map's keys does not count."""
    return json.dumps(outputs, sort_keys=True)


def _check(first: int) -> None:
    turmoil = Turmoil(first)
    seeds = range(first, first + _AT_ONCE)
    disagreements = [text for seed in seeds if (text := _disagreement(turmoil, generate(seed)))]

    assert not disagreements, "\n\n".join(disagreements)
    assert turmoil.crashes > 0


@pytest.mark.parametrize("first", range(0, _ALWAYS, _AT_ONCE))
def test_the_loop_and_the_interpreter_agree_whatever_crashes(first: int) -> None:
    _check(first)


@pytest.mark.long
@pytest.mark.parametrize("first", in_one_run(range(_ALWAYS, _ALL, _AT_ONCE), 12))
def test_the_loop_and_the_interpreter_agree_on_all_of_a_thousand(first: int) -> None:
    _check(first)
