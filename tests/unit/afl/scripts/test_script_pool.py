"""Inputs, results and failures of scripts."""

import json
import os
import subprocess
import sys
import threading
import time
from statistics import median

import pytest

from afl.scripts.errors import ScriptFailed, ScriptPoolClosed
from afl.scripts.limits import MEBIBYTE, ScriptLimits
from afl.scripts.pool import ScriptPool
from afl.scripts.vocabulary import BUILTIN_NAMES, MODULES
from tests.eventually import eventually


def _failure(pool: ScriptPool, code: str, **params: object) -> ScriptFailed:
    with pytest.raises(ScriptFailed) as caught:
        pool.run(code, params)
    return caught.value


def test_a_script_reads_params_and_sets_result(pool: ScriptPool) -> None:
    run = pool.run("""result["text"] = f"{params['qty']}x {params['sku'].upper()}" """, {"qty": 3, "sku": "ab"})

    assert run.result == {"text": "3x AB"}
    assert run.printed == ""


def test_values_of_every_kind_travel_both_ways(pool: ScriptPool) -> None:
    values = {"n": None, "t": True, "i": 2**63 - 1, "f": 0.1, "s": "", "l": [1, [2, {}]], "m": {"k": [None]}}

    assert pool.run("result['all'] = params", values).result == {"all": values}


def test_a_megabyte_and_japanese_text_travel_both_ways(pool: ScriptPool) -> None:
    text = '倉庫の在庫は\n\t"三個"です😀' * 30000

    run = pool.run("result['text'] = params['text']\nresult['品名'] = '部品' + params['text'][:2]", {"text": text})

    assert run.result == {"text": text, "品名": "部品倉庫"}


def test_the_callers_params_stay_as_they_are(pool: ScriptPool) -> None:
    params = {"items": [1]}
    pool.run("params['items'].append(2)\nparams['x'] = 1", params)

    assert params == {"items": [1]}


def test_result_may_be_rebound(pool: ScriptPool) -> None:
    assert pool.run("result = {'a': 1}", {}).result == {"a": 1}


def test_printing_is_captured_and_bounded(pool: ScriptPool) -> None:
    assert pool.run("print('a', 1, sep='-', end='!')\nprint()", {}).printed == "a-1!\n"

    printed = pool.run("for i in range(10000):\n    print('在庫')\nresult['x'] = 1", {}).printed
    assert printed.startswith("在庫\n在庫\n")
    assert printed.endswith("(more was printed than is kept)\n")
    assert len(printed.encode()) < 1100


def test_half_of_a_surrogate_pair_is_printed_as_a_question_mark(pool: ScriptPool) -> None:
    run = pool.run("print('a\\ud800b')\nresult['x'] = 1", {})

    assert (run.printed, run.result) == ("a?b\n", {"x": 1})


def test_a_failed_script_tells_what_it_printed_and_the_line(pool: ScriptPool) -> None:
    failure = _failure(pool, "print('so far')\n\nparams['missing']")

    assert (failure.error_type, failure.message, failure.line) == ("KeyError", "KeyError: 'missing'", 3)
    assert failure.printed == "so far\n"


@pytest.mark.parametrize(
    ("code", "error_type", "message"),
    [
        ("1 / 0", "ZeroDivisionError", "ZeroDivisionError: division by zero"),
        ("raise ValueError('在庫なし')", "ValueError", "ValueError: 在庫なし"),
        ("raise ValueError", "ValueError", "ValueError"),
        ("assert params, 'no params'", "AssertionError", "AssertionError: no params"),
        ("raise type('NoStock', (Exception,), {})('A1')", "NoStock", "NoStock: A1"),
        ("x = = 1", "SyntaxError", "SyntaxError: invalid syntax (line 1)"),
        ("open('x')", "NameError", "NameError: name 'open' is not defined"),
        (
            "result['x'] = {1}",
            "ValueRefused",
            "ValueRefused: result.x: a JSON value was expected, found a value of Python type set; a list would fit",
        ),
        (
            "result['x'] = 1e400",
            "ValueRefused",
            "ValueRefused: result.x: a JSON value was expected, found the Double inf, which is not a finite number",
        ),
        ("result = [1]", "TypeError", "TypeError: result must be a dict, not list"),
        (
            "result[1] = 2",
            "ValueRefused",
            "ValueRefused: result[1]: a JSON value was expected, found a map key that is the integer 1; "
            "keys are Strings",
        ),
        (
            "result['x'] = '\\ud800'",
            "ValueRefused",
            "ValueRefused: result.x: a String was expected, found a lone surrogate at index 0",
        ),
        (
            "x = []\nx.append(x)\nresult['x'] = x",
            "ValueRefused",
            "ValueRefused: result.x[0]: a JSON value was expected, found an array that contains itself",
        ),
    ],
)
def test_an_error_is_told_by_the_name_and_text_of_its_exception(
    pool: ScriptPool, code: str, error_type: str, message: str
) -> None:
    failure = _failure(pool, code)

    assert failure.error_type == error_type
    assert failure.message == message


@pytest.mark.parametrize("value", [{1}, float("nan"), object(), b"x", "\ud800"])
def test_params_that_json_cannot_hold_are_a_failure(pool: ScriptPool, value: object) -> None:
    failure = _failure(pool, "result['x'] = 1", value=value)

    assert failure.error_type == "ValueRefused"
    assert "the script's params.value: a " in failure.message


def test_code_that_is_no_text_or_too_long_is_a_failure(pool: ScriptPool) -> None:
    assert _failure(pool, "'\ud800'").error_type == "SyntaxError"
    assert "more than the 1048576 allowed" in _failure(pool, "#" * 2**21).message


@pytest.mark.parametrize("name", sorted(BUILTIN_NAMES | {"True", "False", "None", "params", "result", "json"}))
def test_every_name_that_scripts_may_use_is_there(pool: ScriptPool, name: str) -> None:
    assert pool.run(f"{name}", {}).result == {}


@pytest.mark.parametrize("name", sorted(MODULES))
def test_every_module_that_scripts_may_import_is_there_without_those_it_imports(pool: ScriptPool, name: str) -> None:
    for inner in ("sys", "os", "_sys", "_os", "re.enum", "random"):
        leaf = inner.split(".")[-1]
        assert pool.run(f"import {name} as m\nresult['has'] = hasattr(m, '{leaf}')", {}).result == {"has": False}


def test_the_modules_do_their_work(pool: ScriptPool) -> None:
    code = r"""
import collections, copy, datetime, functools, hashlib, itertools, math, re, statistics, string
from datetime import timedelta
result["counter"] = collections.Counter("aab").most_common(1)
result["point"] = list(collections.namedtuple("Point", "x y")(1, 2)._replace(x=3))
result["copy"] = copy.deepcopy(params)
result["date"] = (datetime.datetime.strptime("2024-02-28", "%Y-%m-%d") + timedelta(days=2)).strftime("%d %b %Y")
result["product"] = functools.reduce(lambda a, b: a * b, [2, 3, 4])
result["hash"] = hashlib.sha256("在庫".encode()).hexdigest()[:8]
result["chain"] = list(itertools.chain([1], [2]))
result["floor"] = math.floor(2.5)
result["match"] = re.sub(r"(\d+)", r"<\1>", "a12")
result["mean"] = statistics.mean([1, 2])
result["letters"] = string.ascii_lowercase[:3]
result["json"] = json.loads(json.dumps({"a": 1}))
result["sjis"] = "在庫".encode("shift_jis").decode("cp932")
result["bullet"] = "\N{BULLET}"
"""
    assert pool.run(code, {"x": [1]}).result == {
        "counter": [["a", 2]],
        "point": [3, 2],
        "copy": {"x": [1]},
        "date": "01 Mar 2024",
        "product": 24,
        # printf 在庫 | sha256sum
        "hash": "ee34caad",
        "chain": [1, 2],
        "floor": 2,
        "match": "a<12>",
        "mean": 1.5,
        "letters": "abc",
        "json": {"a": 1},
        "sjis": "在庫",
        "bullet": "•",
    }


def test_a_script_leaves_nothing_for_another_script(pool: ScriptPool) -> None:
    pool.run("import json as j, math\nmath.pi = 3\nj.dumps = len\nj.JSONEncoder.left = params\nresult['x'] = 1", {})

    run = pool.run(
        "import math\nresult['pi'] = math.pi\nresult['text'] = json.dumps([1])\n"
        "result['left'] = hasattr(json.JSONEncoder, 'left')",
        {},
    )

    assert run.result == {"pi": 3.141592653589793, "text": "[1]", "left": False}


def test_a_script_that_runs_again_starts_from_its_own_beginning(pool: ScriptPool) -> None:
    code = "import math\nresult['pi'] = math.pi\nresult['seen'] = result.get('seen', 0) + 1\nmath.pi = 3"

    assert [pool.run(code, {}, "w1").result for _ in range(3)] == [{"pi": 3.141592653589793, "seen": 1}] * 3


def test_more_texts_than_a_worker_keeps_processes_for_give_their_own_results(pool: ScriptPool) -> None:
    for round_number in range(2):
        for number in range(12):
            run = pool.run(f"result['n'] = {number} + params['r']", {"r": round_number}, "w1")
            assert run.result == {"n": number + round_number}


def test_a_script_that_ran_well_may_fail_with_other_params(pool: ScriptPool) -> None:
    code = "result['x'] = 10 / params['by']"

    assert pool.run(code, {"by": 5}, "w1").result == {"x": 2}
    assert _failure(pool, code, by=0).error_type == "ZeroDivisionError"
    with pytest.raises(ScriptFailed, match="ZeroDivisionError"):
        pool.run(code, {"by": 0}, "w1")
    assert pool.run(code, {"by": 4}, "w1").result == {"x": 2.5}


def test_submitted_scripts_run_on_all_workers_and_keep_apart() -> None:
    with ScriptPool(ScriptLimits(), workers=2) as pool:
        futures = [pool.submit("result['n'] = params['n'] ** 2", {"n": number}) for number in range(50)]

        assert [future.result(timeout=60).result["n"] for future in futures] == [number**2 for number in range(50)]


def test_a_failed_script_fails_its_future(pool: ScriptPool) -> None:
    assert isinstance(pool.submit("1 / 0", {}).exception(timeout=60), ScriptFailed)


def test_a_worker_that_dies_while_idle_is_replaced() -> None:
    with ScriptPool() as pool:
        pool.run("result['x'] = 1", {})
        (worker,) = pool._idle
        os.kill(worker.pid, 9)

        assert pool.run("result['x'] = 2", {}).result == {"x": 2}


@pytest.mark.long
def test_a_worker_that_hangs_is_killed_and_its_script_runs_elsewhere() -> None:
    with ScriptPool(ScriptLimits(wall_s=40)) as pool:
        (worker,) = pool._idle
        os.kill(worker.pid, 19)

        assert pool.run("result['x'] = 2", {}).result == {"x": 2}
        assert worker not in pool._all


def test_closing_ends_running_and_waiting_scripts_and_all_processes() -> None:
    pool = ScriptPool(ScriptLimits(wall_s=100, cpu_s=100))
    futures = [pool.submit("while True: pass", {}) for _ in range(3)]
    eventually(futures[0].running)
    (worker,) = pool._all

    pool.close()

    assert all(future.done() for future in futures)
    assert isinstance(futures[0].exception(), ScriptPoolClosed)
    eventually(lambda: not _processes_of_session(worker.pid))
    with pytest.raises(ScriptPoolClosed):
        pool.run("result['x'] = 1", {})
    with pytest.raises(ScriptPoolClosed):
        pool.submit("result['x'] = 1", {})


def _processes_of_session(session: int) -> list[int]:
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.getsid(int(name)) == session:
                found.append(int(name))
        except ProcessLookupError:
            continue
    return found


def test_workers_end_with_the_process_that_made_them() -> None:
    code = (
        "import os, sys\nfrom afl.scripts.pool import ScriptPool\npool = ScriptPool()\n"
        "pool.submit('while True: pass', {})\n(worker,) = pool._all\nprint(worker.pid, flush=True)\n"
        "sys.stdin.read()"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as owner:
        assert owner.stdout is not None
        session = int(owner.stdout.readline())
        assert _processes_of_session(session)
        owner.kill()

    eventually(lambda: not _processes_of_session(session))


def test_threads_may_share_a_pool(pool: ScriptPool) -> None:
    seen: list[object] = []

    def run(number: int) -> None:
        seen.append(pool.run("result['n'] = params['n']", {"n": number}).result["n"])

    threads = [threading.Thread(target=run, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)

    assert sorted(map(str, seen)) == sorted(map(str, range(8)))


def test_a_warm_script_costs_less_than_starting_python(pool: ScriptPool) -> None:
    def took_s() -> float:
        return pool.run("result['x'] = params['x']", {"x": 1}, "w1").duration_s

    began_s = time.perf_counter()
    subprocess.run([sys.executable, "-I", "-S", "-E", "-c", "pass"], check=True)
    start_s = time.perf_counter() - began_s

    assert median(took_s() for _ in range(50)) < start_s


def test_limits_that_nothing_could_run_in_are_refused() -> None:
    with pytest.raises(ValueError, match="wall_s must be more than 0"):
        ScriptLimits(wall_s=0)
    with pytest.raises(ValueError, match="memory_bytes must be 96 MiB or more"):
        ScriptLimits(memory_bytes=MEBIBYTE)
    with pytest.raises(ValueError, match="1 worker or more"):
        ScriptPool(workers=0)


def test_a_result_is_json(pool: ScriptPool) -> None:
    run = pool.run("result['t'] = (1, 2)\nresult['m'] = {'1': True}", {})

    assert json.loads(json.dumps(run.result)) == {"t": [1, 2], "m": {"1": True}}
