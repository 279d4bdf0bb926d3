"""Every way out of the sandbox that we know, tried for real: it ends contained, and the next script runs."""

from collections.abc import Iterator

import pytest

from afl.scripts.errors import ScriptFailed
from afl.scripts.limits import MEBIBYTE, ScriptLimits
from afl.scripts.pool import ScriptPool


@pytest.fixture(autouse=True)
def _the_next_script_runs(pool: ScriptPool) -> Iterator[None]:
    yield
    assert pool.run("result['x'] = params['x'] + 1", {"x": 1}).result == {"x": 2}


def _failure(pool: ScriptPool, code: str) -> ScriptFailed:
    with pytest.raises(ScriptFailed) as caught:
        pool.run(code, {})
    return caught.value


_REFUSED_TEXTS = {
    "subclasses walk": "().__class__.__base__.__subclasses__()",
    "globals of a function": "(lambda: 0).__globals__['__builtins__']",
    "format string": "'{0.__class__.__init__.__globals__}'.format(params)",
    "frame of a generator": "g = (g.gi_frame.f_back.f_globals for _ in [1])\nlist(g)",
    "frame of a traceback": "try:\n    1 / 0\nexcept Exception as e:\n    e.__traceback__.tb_frame.f_globals",
    "frame of a coroutine": "async def f(): pass\nf().cr_frame.f_builtins",
    "code object": "f = lambda: 0\nf.__code__ = f.__code__.replace(co_consts=(1,))",
    "attribute pattern": "match 1:\n    case int(__class__=c):\n        c.__base__",
    "modules table": "import sys\nsys.modules['os'].system('id')",
    "builtins by name": "__builtins__['__import__']('os')",
    "class with hooks": "class A:\n    def __del__(self): pass",
    "method resolution order": "type(1).mro()[1]",
}


@pytest.mark.parametrize("code", _REFUSED_TEXTS.values(), ids=_REFUSED_TEXTS.keys())
def test_text_that_reaches_for_pythons_inside_is_refused_before_it_runs(pool: ScriptPool, code: str) -> None:
    failure = _failure(pool, "print('ran')\n" + code)

    assert failure.error_type in ("ScriptError", "ImportError")
    assert failure.printed == ""


_REFUSED_CALLS = {
    "getattr": "getattr((), '__cla' + 'ss__')",
    "getattr with default": "getattr(params, '__CLASS__'.lower(), 1)",
    "getattr through map": "list(map(getattr, [()], ['__cla' + 'ss__']))",
    "getattr through reduce": "import functools\nfunctools.reduce(getattr, ['__cla' + 'ss__'], ())",
    "getattr of a frame": "g = (i for i in ())\ngetattr(g, 'gi_' + 'frame')",
    "setattr": "setattr(lambda: 0, '__co' + 'de__', 1)",
    "a name that changes": "getattr((), type('S', (str,), {'startswith': lambda *a: False})('__class__'))",
    "a formatter": "import string\nstring.Formatter().get_field('0.__cla' + 'ss__', ((),), {})",
    "update_wrapper": "import functools\nfunctools.update_wrapper",
    "inner modules": "import statistics\nstatistics.sys",
    "inner modules of json": "json.decoder",
    "open": "open('/etc/passwd')",
    "eval": "eval('1')",
    "exec": "exec('import os')",
    "compile": "compile('1', '', 'eval')",
    "globals": "globals()",
    "vars": "vars(params)",
    "object": "object()",
    "hashing a file": "import hashlib\nhashlib.file_digest",
    "a file for json": "json.load",
}


@pytest.mark.parametrize("code", _REFUSED_CALLS.values(), ids=_REFUSED_CALLS.keys())
def test_calls_that_reach_for_it_by_computed_names_fail(pool: ScriptPool, code: str) -> None:
    assert _failure(pool, code).error_type in ("AttributeError", "NameError", "TypeError")


def test_hasattr_finds_no_special_attribute(pool: ScriptPool) -> None:
    assert pool.run("result['x'] = hasattr((), '__cla' + 'ss__')", {}).result == {"x": False}


def test_a_computed_format_gives_text_and_no_object(pool: ScriptPool) -> None:
    run = pool.run("result['x'] = ('{0._' + '_class__}').format(params)", {})

    assert run.result == {"x": "<class 'dict'>"}


def test_an_endless_loop_ends_by_its_processor_time(pool: ScriptPool) -> None:
    failure = _failure(pool, "while True: pass")

    assert failure.message == "Timeout: the script used more than 1 s of processor time"


def test_catching_everything_does_not_outlive_the_kill(pool: ScriptPool) -> None:
    failure = _failure(pool, "while True:\n    try:\n        while True: pass\n    except:\n        pass")

    assert failure.error_type == "Timeout"


def test_one_long_call_into_c_ends_too(pool: ScriptPool) -> None:
    assert _failure(pool, "sum(range(10 ** 11))").error_type == "Timeout"


def test_a_script_ends_by_the_wall_clock_and_the_pool_continues() -> None:
    with ScriptPool(ScriptLimits(wall_s=0.3)) as pool:
        assert _failure(pool, "while True: pass").message == "Timeout: the script ran longer than 0.3 s"
        assert pool.run("result['x'] = 1", {}).result == {"x": 1}


@pytest.mark.parametrize(
    "code",
    [
        "x = bytearray(10 * 1000 ** 3)",
        "x = [0] * 10 ** 10",
        "x = []\nwhile True:\n    x.append('a' * 1000000 + str(len(x)))",
        "x = 'a' * 10000\nfor _ in range(40):\n    x += x",
    ],
)
def test_too_much_memory_is_a_memory_error(pool: ScriptPool, code: str) -> None:
    failure = _failure(pool, code)

    assert failure.message == "MemoryError: the script needs more memory than it may have"


def test_catching_the_memory_error_over_and_over_ends_too(pool: ScriptPool) -> None:
    code = """
x = []
while True:
    try:
        while True:
            x.append(' ' * 1000000 + str(len(x)))
    except:
        pass
"""
    assert _failure(pool, code).error_type in ("Timeout", "MemoryError")


@pytest.mark.parametrize(
    "code",
    [
        "def f(n): return f(n + 1)\nf(0)",
        "f = lambda: repr(f())\nf()",
        "x = []\nfor _ in range(100000):\n    x = [x]\nresult['x'] = x",
        "x = ()\nfor _ in range(1000000):\n    x = (x,)\ny = ()\nfor _ in range(1000000):\n    y = (y,)\nx == y",
    ],
)
def test_deep_recursion_fails(pool: ScriptPool, code: str) -> None:
    assert _failure(pool, code).error_type in ("RecursionError", "ScriptError", "MemoryError", "ValueRefused")


def test_deeply_nested_code_fails(pool: ScriptPool) -> None:
    assert _failure(pool, "x = " + "(" * 1000 + ")" * 1000).error_type == "SyntaxError"


def test_a_huge_result_is_refused() -> None:
    with ScriptPool(ScriptLimits(output_bytes=2 * MEBIBYTE)) as pool:
        failure = _failure(pool, "result['x'] = 'a' * 3000000")
        assert failure.message == "ScriptError: the result takes 3000008 bytes, more than the 2097152 allowed"
        assert len(pool.run("result['x'] = 'a' * 2000000", {}).result["x"]) == 2000000


def test_endless_printing_neither_fills_memory_nor_lasts(pool: ScriptPool) -> None:
    failure = _failure(pool, "while True:\n    print('x' * 100000)")

    assert failure.error_type == "Timeout"


def test_an_exception_that_lies_about_itself_is_still_told(pool: ScriptPool) -> None:
    code = "def fail(self): raise ValueError\nraise type('not a name', (Exception,), {'__str__': fail})()"

    assert _failure(pool, code).message == "Exception"
