"""Random events, waits, pauses, attempts and hand-overs, while evaluators come, go and die: what must hold at the end.

A workflow has rounds, one execution each. In a round it listens for some events of two names, sleeps, and has work done
that may fail and is tried again; what it has heard goes into the inputs of the next round. All waits of a round begin
together, so that what was heard is in the order in which the events were raised.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from random import Random
from typing import Any, Final

from afl.core.process.crashes import Crash
from afl.engine.model.history import HistoryKind, HistoryRow
from afl.engine.model.store import CANCELLED, COMPLETED, ENDED_STATUSES
from afl.engine.states import StepState
from afl_stream.client.client import Client
from afl_stream.embedded.transport import Faults
from afl_stream.settings.config import EvaluatorSettings
from afl_stream.transport import Record, TopicPartition
from afl_stream.wire.messages import ExternalEvent, FailureReason, StepContinue, StepFailed
from tests.record_headers import headers_of
from tests.scenarios.test_loop_crashes import EVALUATOR_POINTS, TRANSPORT_POINTS
from tests.scenarios.working_stores import findings_of
from tests.worlds.deployment import Deployment, unique_ids
from tests.worlds.parties import Evaluator
from tests.worlds.world import World

TURMOIL: Final = """
namespace turmoil {
  event facet Work(workflow: String, round: Long) => (done: Boolean)

  facet Listen(name: String, limits: [Long]) => (heard: [Json] = []) andThen foreach ms in $.limits {
    got = afl.WaitForEvent(name = $.name, timeout_ms = ms)
    yield Listen(heard = [got.data])
  }
  facet Joined(before: [Json], more: [Json]) => (all: [Json]) andThen {
    yield Joined(all = $.before)
  } andThen {
    yield Joined(all = $.more)
  }

  workflow Rounds(
    id: String, plan: [Json], round: Long = 0, a: [Json] = [], b: [Json] = [], woke: [Json] = [], done: [Json] = [],
  ) => (a: [Json], b: [Json], woke: [Json], done: [Json]) andThen when {
    case $.plan[$.round]["last"] => { yield Rounds(a = $.a, b = $.b, woke = $.woke, done = $.done) }
    case _ => {
      heard_a = Listen(name = "a", limits = $.plan[$.round]["a"])
      heard_b = Listen(name = "b", limits = $.plan[$.round]["b"])
      nap = afl.Sleep(ms = $.plan[$.round]["nap"])
      work = Work(workflow = $.id, round = $.round)
        with Timeout(seconds = 5)
        with Retry(times = 2, delay_ms = 1000, factor = 2)
        catch { yield Work(done = false) }
      all_a = Joined(before = $.a, more = heard_a.heard)
      all_b = Joined(before = $.b, more = heard_b.heard)
      all_woke = Joined(before = $.woke, more = [nap.woke_at])
      all_done = Joined(before = $.done, more = [work.done])
      again = afl.ContinueAsNew(
        inputs = #{
          id: $.id, plan: $.plan, round: $.round + 1, a: all_a.all, b: all_b.all, woke: all_woke.all,
          done: all_done.all,
        },
      )
    }
  }
}
"""
WORK: Final = "turmoil.Work"
POINTS: Final = (*EVALUATOR_POINTS, *TRANSPORT_POINTS)
NAMES: Final = ("a", "b")
_TURNS, _MOST_QUIET_TURNS = 40, 400
_NAPS_MS: Final = (0, 50, 1_000, 30_000)
#: Time limits of waits: 0 is none.
_LIMITS_MS: Final = (0, 0, 1, 500, 20_000)
_KEPT: Final = 1_000


def _settings(random: Random, *, hot_steps: int | None) -> EvaluatorSettings:
    return EvaluatorSettings(
        batch_records=random.choice((1, 3, 500)),
        workflow_budget_steps=random.choice((1, 5, 5_000)),
        max_pending_events=random.choice((2, 100)),
        max_carried_executions=random.choice((1, 5)),
        kept_executions=_KEPT,
        hot_steps=random.choice((0, 200_000)) if hot_steps is None else hot_steps,
    )


class ExternalTurmoil:
    """One deployment with some workflows, those who raise events for them, and whatever happens to its evaluators."""

    def __init__(
        self,
        world: World,
        seed: int,
        *,
        quiet: bool = False,
        restarts: bool = False,
        hot_steps: int | None = None,
    ) -> None:
        """`quiet`: nothing happens to the evaluator. `restarts`: the whole process ends now and then.

        `hot_steps` is drawn when it is not given.
        """
        self.seed, self.random, self._quiet, self._restarts = seed, Random(seed), quiet, restarts
        settings = _settings(self.random, hot_steps=hot_steps)
        self.deployment: Deployment = world.deployment(TURMOIL, evaluator=settings)
        self._clients: list[Client] = []
        self.workflow_ids = [f"wf-{seed}-{number}" for number in range(self.random.randint(1, 3))]
        self.plans = {workflow_id: self._plan() for workflow_id in self.workflow_ids}
        self._not_started = list(self.workflow_ids)
        self._sent: list[tuple[str, str, str, str]] = []
        self._answered: set[str] = set()
        #: Whether the clock was ever set back.
        self.was_set_back = False
        self.crashes = self._commands = 0
        self._strange: list[str] = []

    # --- what happens ---------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Let it all happen, and then whatever is needed for every workflow to end."""
        self._deploy_clients()
        for _ in range(_TURNS):
            self._clients_act()
            self._operate()
            self._answer_work(some=True)
            self._turn()
        self._finish()

    def _plan(self) -> list[dict[str, Any]]:
        random = self.random
        rounds = [
            {
                "last": False,
                "nap": random.choice(_NAPS_MS),
                **{name: [random.choice(_LIMITS_MS) for _ in range(random.randint(0, 3))] for name in NAMES},
            }
            for _ in range(random.randint(1, 4))
        ]
        return [*rounds, {"last": True}]

    def _deploy_clients(self) -> None:
        """Two producers, besides the client that starts the workflows."""
        transport = self.deployment.transport
        self._clients = [Client(self.deployment.config, transport) for _ in range(2)]

    def _clients_act(self) -> None:
        random = self.random
        if self._not_started and random.random() < 0.2:
            self._start(self._not_started.pop())
        for _ in range(random.choice((0, 0, 0, 1, 1, 2, 4))):
            self._raise(random.choice(self.workflow_ids), random.choice(NAMES))

    def _start(self, workflow_id: str) -> None:
        inputs = {"id": workflow_id, "plan": self.plans[workflow_id]}
        self.deployment.client.start("turmoil.Rounds", inputs, workflow_id=workflow_id)

    def _raise(self, workflow_id: str, name: str) -> None:
        random, client = self.random, self.random.choice(self._clients)
        data = f"{name}{len(self._sent)}"
        event_id = random.choice(("", f"id-{data}"))
        if event_id:
            self._sent.append((workflow_id, name, data, event_id))
        if self._sent and random.random() < 0.2:
            workflow_id, name, data, event_id = random.choice(self._sent)
        if event_id:
            client.raise_event(workflow_id, name, data, id=event_id)
        else:
            # As kcat does: its place in the log is its id.
            self.deployment.send(ExternalEvent(workflow_id=workflow_id, name=name, value=data))

    def _operate(self) -> None:
        """Let an operator end an execution, whose round begins anew, or cancel a workflow, or retry a cancelled one."""
        workflow_id, deployment = self.random.choice(self.workflow_ids), self.deployment
        row = deployment.store.load_workflow(workflow_id)
        if row is None or self.random.random() > 0.08:
            return
        if row.status == CANCELLED:
            deployment.client.retry(workflow_id)
        elif self.random.random() < 0.5:
            deployment.client.cancel(workflow_id)
        else:
            # What was read may be old by now: then the workflow goes back by more than a round.
            self._commands += 1
            command_id = f"command-{self._commands}"
            deployment.client.continue_as_new(workflow_id, row.inputs, command_id=command_id)

    def _answer_work(self, *, some: bool) -> None:
        """Answer what is asked: soon, late, never; with success or failure; once or twice."""
        random = self.random
        for event in self.deployment.events(WORK):
            if event.id in self._answered:
                continue
            if some and random.random() < 0.7:
                continue
            if not (some and random.random() < 0.2):
                self._answered.add(event.id)
            answer: StepContinue | StepFailed = StepContinue(
                step_id=event.step_id, result={"done": True}, event_id=event.id, attempt=event.attempt
            )
            if some and random.random() < 0.4:
                error = FailureReason(type="Busy", message="not now")
                answer = StepFailed(step_id=event.step_id, error=error, event_id=event.id, attempt=event.attempt)
            self.deployment.send(answer)

    def _turn(self) -> None:
        deployment, random = self.deployment, self.random
        deployment.clock.advance(random.choice((1, 10, 10, 1_000, 20_000)))
        if self._quiet:
            self._evaluators(1)
            deployment.evaluators[0].turn()
            return
        if self._restarts and random.random() < 0.05:
            deployment.crash_and_restart()
            self._deploy_clients()
        if self.seed % 4 == 0 and random.random() < 0.05:
            self.was_set_back = True
            deployment.clock.set_back(random.choice((1_000, 100_000)))
        self._evaluators(random.choice((1, 1, 2)))
        if random.random() < 0.1:
            with suppress(Crash):
                self._rebalance()
        for evaluator in list(deployment.evaluators):
            if random.random() < 0.3:
                evaluator.faults.clear()
                evaluator.faults.fail_at(random.choice(POINTS), passes=random.randrange(4))
            self._move(evaluator)

    def _rebalance(self) -> None:
        """Have all partitions taken anew; or have those of events and of answers go to whom they may, one by one."""
        deployment, random = self.deployment, self.random
        topology, members = deployment.topology, [evaluator.consumer() for evaluator in deployment.evaluators]
        moves = {
            TopicPartition(topic, number): random.choice(members)
            for topic in (topology.external(), topology.control(), topology.commands())
            for number in range(deployment.config.topics.control_partitions)
            if random.random() < 0.5
        }
        deployment.broker.rebalance(deployment.config.evaluator_group, moves=moves)

    def _evaluators(self, wanted: int) -> None:
        """Have so many of them: others come, or one goes, in order or not."""
        deployment = self.deployment
        while len(deployment.evaluators) < wanted:
            deployment.evaluator(Faults())
        if len(deployment.evaluators) > wanted:
            evaluator = self.random.choice(deployment.evaluators)
            evaluator.faults.clear()
            deployment.remove(evaluator, killed=self.random.random() < 0.5)

    def _move(self, evaluator: Evaluator) -> None:
        try:
            evaluator.turn()
        except Crash:
            self.crashes += 1
            self.deployment.remove(evaluator, killed=True)

    def _finish(self) -> None:
        """Nothing fails any more: start the rest, answer everything, and raise what is still waited for."""
        deployment = self.deployment
        while self._not_started:
            self._start(self._not_started.pop())
        for evaluator in deployment.evaluators:
            evaluator.faults.clear()
        self._evaluators(1)
        for _ in range(_MOST_QUIET_TURNS):
            deployment.settle()
            self._compare_timers()
            self._answer_work(some=False)
            deployment.settle()
            statuses = {workflow_id: deployment.workflow(workflow_id).status for workflow_id in self.workflow_ids}
            running = [workflow_id for workflow_id, status in statuses.items() if status not in ENDED_STATUSES]
            cancelled = [workflow_id for workflow_id, status in statuses.items() if status == CANCELLED]
            for workflow_id in cancelled:
                deployment.client.retry(workflow_id)
            if not running and not cancelled:
                # Long enough for the records of writers that died.
                deployment.clock.advance(400_000)
                deployment.settle()
                return
            for workflow_id in running:
                for step in deployment.steps(workflow_id):
                    if step.facet_name == "afl.WaitForEvent" and step.state == StepState.EVENT_TRANSMIT:
                        self._raise(workflow_id, str(step.params["name"]))
            deployment.clock.advance(40_000)
        raise AssertionError(f"seed {self.seed}: it does not come to its end")

    def _compare_timers(self) -> None:
        """Note timers without a step that waits for them, and steps without their timer."""
        for workflow_id in self.workflow_ids:
            timers = {timer.step_id: timer.due_at_ms for timer in self.deployment.store.timers_of(workflow_id)}
            waiting = {
                step.id: step.deadline_ms
                for step in self.deployment.steps(workflow_id)
                if step.state == StepState.EVENT_TRANSMIT and step.deadline_ms is not None
            }
            if timers != waiting:
                self._strange.append(f"{workflow_id}: the timers are {timers}, and the waits {waiting}")

    # --- what must hold -------------------------------------------------------------------------------------------

    def history(self, workflow_id: str) -> list[HistoryRow]:
        return self.deployment.store.history(workflow_id, limit=100_000)

    def outputs(self, workflow_id: str) -> dict[str, Any]:
        row = self.deployment.workflow(workflow_id)
        assert (row.status, row.error) == (COMPLETED, None), self.seed
        assert row.outputs is not None
        return dict(row.outputs)

    def faults(self) -> list[str]:
        """Return everything that is wrong, in words; nothing when all is well."""
        store = self.deployment.store
        found = [*self._strange, *(fault for name in self.workflow_ids for fault in self._faults_of(name))]
        if (left := store.next_timer_ms()) is not None:
            found.append(f"a timer is left: {left}")
        found += [f"left in the outbox: {record}" for record in store.outbox()]
        found += [f"runnable: {workflow_id}" for workflow_id in store.runnable_workflows()]
        found += findings_of(store)
        found += list(self._letter_faults())
        sent = unique_ids(self.deployment.records(self.deployment.topology.facet(WORK)))
        found += [] if len(set(sent)) == len(sent) else ["an event was made twice"]
        return [f"seed {self.seed}: {fault}" for fault in found]

    def _raised(self, workflow_id: str | None = None) -> list[tuple[ExternalEvent, str]]:
        """Return the records on the topic of external events, in order, each with its id."""
        found = []
        for record in self.deployment.records(self.deployment.topology.external()):
            event = self.deployment.codec.decode(record.value, record.headers, json_allowed=True)
            assert isinstance(event, ExternalEvent)
            if workflow_id in (None, event.workflow_id):
                found.append((event, _id_of(event, record)))
        return found

    def _faults_of(self, workflow_id: str) -> Iterator[str]:
        rows, outputs = self.history(workflow_id), self.outputs(workflow_id)
        events = [row for row in rows if row.kind == HistoryKind.EXTERNAL_EVENT]
        numbers = [row.number for row in rows]
        if numbers != list(range(len(rows))):
            yield f"{workflow_id}: the history has the numbers {numbers}"
        if repeated := [i for i, count in Counter(row.event_id for row in events).items() if count > 1]:
            yield f"{workflow_id}: taken in twice: {repeated}"
        raised = Counter(event_id for _, event_id in self._raised(workflow_id))
        kept = [row.event_id for row in events]
        if strange := set(kept) - raised.keys():
            yield f"{workflow_id}: never raised: {strange}"
        # A copy may be kept where the first was over a limit.
        once = [event_id for event_id in kept if raised[event_id] == 1]
        if once != [event_id for event_id in raised if event_id in set(once)]:
            yield f"{workflow_id}: kept in another order than raised: {once}"
        counting = _executions_that_count(rows)
        for name in NAMES:
            taken = [row for row in events if row.name == name and row.step_id]
            counted = [row.value for row in taken if row.until_execution in counting]
            heard = [data for data in outputs[name] if data is not None]
            if heard != counted:
                yield f"{workflow_id}: heard {heard}, and took {counted}"
        yield from self._time_faults(workflow_id, rows, outputs, counting)

    def _time_faults(
        self, workflow_id: str, rows: list[HistoryRow], outputs: dict[str, Any], counting: list[int]
    ) -> Iterator[str]:
        plan = self.plans[workflow_id][:-1]
        lengths = [sum(len(entry[name]) for entry in plan) for name in NAMES]
        if [len(outputs[name]) for name in NAMES] != lengths or len(outputs["woke"]) != len(plan):
            yield f"{workflow_id}: {outputs} of {plan}"
        if len(counting) != len(plan) + 1:
            yield f"{workflow_id}: the executions {counting} count, for the rounds {plan}"
        if self.was_set_back:
            return
        began_ms = [0, *(row.at_ms for row in rows if row.kind == HistoryKind.CONTINUED_AS_NEW)]
        for entry, execution, woke_ms in zip(plan, counting, outputs["woke"], strict=False):
            slept_ms = woke_ms - began_ms[execution - 1]
            if slept_ms < entry["nap"]:
                yield f"{workflow_id}: slept {slept_ms} ms in execution {execution}, not {entry['nap']}"

    def _letter_faults(self) -> Iterator[str]:
        """Each record is in a history, or a copy of one that is, or a dead letter; no other dead letter is there."""
        letters = Counter(self._letter_ids())
        dropped: Counter[tuple[str, str]] = Counter()
        for workflow_id in self.workflow_ids:
            events = {row.event_id: row for row in self.history(workflow_id) if row.kind == HistoryKind.EXTERNAL_EVENT}
            for event_id, row in events.items():
                if row.dropped:
                    dropped[workflow_id, event_id] += 1
            for event_id, times in Counter(i for _, i in self._raised(workflow_id)).items():
                count = letters.pop((workflow_id, _place_in(event_id)), 0)
                drops = dropped[workflow_id, event_id]
                if event_id not in events and count != times:
                    yield f"{workflow_id}: {event_id} was raised {times} times, refused {count} times, and is not kept"
                if event_id in events and not drops <= count < times + drops:
                    yield f"{workflow_id}: {event_id} was raised {times} times and kept, and {count} dead letters tell"
        if letters:
            yield f"dead letters of nothing: {letters}"

    def _letter_ids(self) -> Iterator[tuple[str, str]]:
        """Return workflow and event of each dead letter, without the copies that a crash leaves."""
        letters = self.deployment.dead_letters(self.deployment.topology.external())
        for letter in {(letter.key, letter.value, letter.headers): letter for letter in letters}.values():
            event = self.deployment.codec.decode(letter.value, letter.headers, json_allowed=True)
            assert isinstance(event, ExternalEvent)
            yield event.workflow_id, _place_in(event.id or _origin(letter))


def _executions_that_count(rows: list[HistoryRow]) -> list[int]:
    """Return the numbers of the executions whose rounds count, the last one included.

    An operator's hand-over begins a round anew, or an earlier one: what was heard since then is forgotten.
    """
    rounds = [0]
    for row in rows:
        if row.kind == HistoryKind.CONTINUED_AS_NEW:
            assert isinstance(row.value, Mapping)
            inputs = row.value["inputs"]
            assert isinstance(inputs, Mapping)
            number = inputs.get("round", 0)
            assert isinstance(number, int)
            rounds.append(number)
    return [at for at, number in enumerate(rounds, start=1) if all(later > number for later in rounds[at:])]


def _id_of(event: ExternalEvent, record: Record) -> str:
    return event.id or f"{record.topic}/{record.partition}/{record.offset}@{record.timestamp_ms}"


def _place_in(event_id: str) -> str:
    """Return an id without the time that an event without an id of its sender has in it: its dead letter lacks it."""
    return event_id.partition("@")[0] if event_id.startswith("afl.external/") else event_id


def _origin(letter: Record) -> str:
    headers = {name: (value or b"").decode() for name, value in headers_of(letter).items()}
    return f"{headers['afl.dlq.topic']}/{headers['afl.dlq.partition']}/{headers['afl.dlq.offset']}"
