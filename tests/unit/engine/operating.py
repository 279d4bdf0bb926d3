"""A program with every construct for tests of what operators do, and runs whose agents answer by payload alone."""

from collections.abc import Mapping

from afl.engine.errors import StepFailure
from afl.engine.execution.generations import current_steps
from afl.engine.model.store import StepDocument
from afl.engine.states import StepState
from afl.engine.types import Value
from afl.evaluation.evaluator import ExecutionResult
from tests.engine_view import SeenStep, seen_steps, statement_names
from tests.unit.engine.running import Engine

DECLARATIONS = """
    event facet E(x: Long) => (r: Long)
    event facet Wide(x: Long) => (r: Long, all: [Long]) with Base(n = $.x) as base andThen {
        own = E(x = $.base.twice)
        yield Wide(all = [$.base.twice, own.r])
    }
    facet Base(n: Long) => (twice: Long) andThen { e = E(x = $.n + 500) yield Base(twice = e.r) }
    facet V(v: Long)
    facet Sum(a: Long, b: Long) => (total: Long) andThen { yield Sum(total = $.a + $.b) }
    facet Script(x: Long) => (r: Long) script { result["r"] = params["x"] + 1 }
    schema Pair { left: Long, right: Long }
    workflow Part(n: Long) => (r: Long) andThen {
        e = E(x = $.n)
        v = V(v = e.r + 1)
        yield Part(r = v.v)
    }
"""

#: A workflow that has it all: what the constructs give is in its outputs.
EVERYTHING = (
    DECLARATIONS
    + """
    workflow W(list: [Long] = [1, 2, 3]) => (event: Long, plain: Long, script: Long, pair: Long, part: Long,
                                             each: [Long], chosen: [Long], body: Long, mixed: [Long], late: Long)
    andThen {
        first = E(x = 1)
        plain = V(v = first.r + 1)
        after = E(x = plain.v)
        sum = Sum(a = after.r, b = first.r)
        script = Script(x = sum.total)
        pair = Pair(left = script.r, right = plain.v)
        sys.assert(pair.left != 0)
        sys.log(left = pair.left)
        part = Part(n = pair.right)
        body = E(x = 40) andThen {
            inner = E(x = body.r + part.r)
            yield W(body = inner.r)
        }
        mixed = Wide(x = 60)
        yield W(event = after.r, plain = plain.v, script = script.r, pair = pair.left + pair.right, part = part.r,
                mixed = mixed.all)
    } andThen foreach n in $.list {
        one = E(x = $.n + 100)
        two = V(v = one.r)
        yield W(each = [two.v])
    } andThen when {
        case $.list[0] == 1 => {
            c = E(x = 200)
            yield W(chosen = [c.r])
        }
        case true => {
            d = E(x = 201)
            yield W(chosen = [d.r])
        }
        case _ => {
            yield W(chosen = [])
        }
    } andThen {
        late = E(x = 300)
        yield W(late = late.r)
    }"""
)


class Operated:
    """A run of `n.W` whose agents answer each event with ten times its `x`, and what counts of its steps."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.result: ExecutionResult = engine.start()
        #: Each event that was answered, by path.
        self.answered: list[str] = []

    def steps(self) -> list[SeenStep]:
        """Return the steps that count, in order of creation."""
        documents = self.engine.store.load_steps("run")
        return seen_steps(
            current_steps(documents, self.engine.row().execution), statement_names(self.engine.program.tree)
        )

    def step(self, path: str) -> StepDocument:
        """Return the first step of a path: yields of one block share theirs."""
        found = [step.document for step in self.steps() if step.path == path]
        assert found, f"no step at {path!r}; there are {sorted(step.path for step in self.steps())}"
        return found[0]

    def waiting(self) -> list[str]:
        return [step.path for step in self.steps() if step.is_waiting]

    def answer(self, path: str, result: Mapping[str, Value] | None = None) -> None:
        step = self.step(path)
        self.answered.append(path)
        x = step.params["x"]
        assert isinstance(x, int | float)
        self.engine.evaluator.continue_step(step.id, {"r": int(10 * x)} if result is None else result)
        self.result = self.engine.resume()

    def fail(self, path: str, message: str = "broken") -> None:
        self.engine.evaluator.fail_step(self.step(path).id, message, "Broken")
        self.result = self.engine.resume()

    def play(self, *, failing: str | None = None) -> None:
        """Answer everything, the oldest first; one event with a failure instead."""
        while self.result.status == "PAUSED":
            (path, *_) = self.waiting()
            if path == failing:
                self.fail(path)
            else:
                self.answer(path)

    def retry(self, path: str = "") -> list[str]:
        return self._operated(self.engine.evaluator.retry(self.step(path).id))

    def rerun(self, path: str) -> list[str]:
        return self._operated(self.engine.evaluator.rerun(self.step(path).id))

    def reset(self) -> list[str]:
        return self._operated(self.engine.evaluator.reset("run"))

    def _operated(self, steps: list[str]) -> list[str]:
        self.engine.restart()
        self.answered.clear()
        self.result = self.engine.resume()
        return steps

    def failure(self) -> StepFailure:
        assert self.result.status == "ERROR"
        assert isinstance(self.result.error, StepFailure), self.result.error
        return self.result.error

    def ends(self) -> set[str]:
        """Return the states of the steps that count."""
        return {step.state for step in self.steps()}


def is_complete(run: Operated) -> bool:
    return run.ends() == {StepState.STATEMENT_COMPLETE}
