"""ScriptExecutor: one script, its result, and what is said when there is none."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from afl.scripts.errors import ScriptFailed
from afl.scripts.executor import ScriptError, ScriptExecutor, execute_script


@pytest.fixture(scope="module")
def executor() -> Iterator[ScriptExecutor]:
    with ScriptExecutor() as made:
        yield made


def test_a_script_sees_its_params_and_fills_the_result(executor: ScriptExecutor) -> None:
    params = {"items": [3, 1, 2], "name": "日本"}
    ran = executor.execute(
        "params['items'].sort()\nprint('noise', {'result': 1})\n"
        "result['sum'] = sum(params['items'])\nresult['max'] = max(params['items'])\n"
        "result['first'] = sorted(params['items'])[0]\nresult['is'] = isinstance(params['name'], str)\n"
        "result['name'] = params['name'] * len(range(2))",
        params,
    )

    assert (ran.success, ran.error) == (True, None)
    assert ran.result == {"sum": 6, "max": 3, "first": 1, "is": True, "name": "日本日本"}
    assert params == {"items": [3, 1, 2], "name": "日本"}


def test_a_script_needs_no_params_and_gives_nothing_that_it_does_not_set(executor: ScriptExecutor) -> None:
    assert executor.execute("x = 1").result == {}


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("x = (", "Syntax error"),
        ("1 / 0", "ZeroDivisionError: division by zero"),
        ("params['missing']", "KeyError: 'missing'"),
        ("raise ValueError('not JSON')", "ValueError: not JSON"),
        ("result['x'] = {1, 2}", "not serializable"),
        ("result['x'] = float('nan')", "not serializable"),
        ("import os", "ImportError: os"),
        ("open('/etc/passwd')", "NameError: name 'open'"),
        ("eval('1')", "NameError: name 'eval'"),
        ("result = 3", "TypeError: result must be a dict"),
    ],
)
def test_a_script_that_fails_says_how(executor: ScriptExecutor, code: str, error: str) -> None:
    ran = executor.execute(code)

    assert not ran.success
    assert ran.result == {}
    assert ran.error is not None
    assert error in ran.error


def test_params_that_cannot_be_sent_are_no_fault_of_the_script(executor: ScriptExecutor) -> None:
    assert "params are not serializable" in str(executor.execute("pass", {"x": object()}).error)


def test_a_language_that_is_not_spoken_is_refused(executor: ScriptExecutor) -> None:
    assert "Unsupported script language: 'perl'" in str(executor.execute("1", language="perl").error)


def test_a_script_that_takes_too_long_is_ended_and_the_next_one_runs() -> None:
    with ScriptExecutor(timeout=0.2) as impatient:
        assert "timed out after 0.2 s" in str(impatient.execute("while True: pass").error)
        assert impatient.execute("result['x'] = 1").success


def test_an_executor_that_was_closed_starts_anew() -> None:
    executor = ScriptExecutor()
    executor.close()

    assert executor.execute("result['x'] = 1").success
    executor.close()


def test_the_short_form_gives_the_result_or_raises() -> None:
    assert execute_script("result['y'] = params['x'] + 1", {"x": 1}) == {"y": 2}
    with pytest.raises(ScriptError, match="ZeroDivisionError") as caught:
        execute_script("1 / 0")
    assert isinstance(caught.value.original, ScriptFailed)
    with pytest.raises(ScriptError, match="Unsupported script language"):
        execute_script("1", language="perl")
