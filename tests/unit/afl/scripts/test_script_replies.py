"""Replies that no interpreter of ours writes: refused by name or cut, before anyone takes them."""

import json

import pytest

from afl.scripts.errors import ScriptFailed
from afl.scripts.limits import ScriptLimits
from afl.scripts.pool import ScriptPool
from afl.scripts.replies import as_json, read_reply

LIMITS = ScriptLimits(output_bytes=1000, printed_bytes=100)


def succeeded(result: str, printed: str = '""') -> bytes:
    return f'+{{"result":{result},"printed":{printed}}}'.encode()


def failed(**reported: object) -> bytes:
    return b"-" + as_json({"error_type": "KeyError", "text": "x", "line": 3, "printed": "", **reported})


def refusal(reply: bytes) -> ScriptFailed:
    with pytest.raises(ScriptFailed) as caught:
        read_reply(reply, LIMITS)
    return caught.value


def test_a_reply_of_an_interpreter_is_taken() -> None:
    reply = read_reply(succeeded('{"n":9223372036854775807,"t":[1.5,null,true,"在"]}', '"a\\n"'), LIMITS)

    assert reply.result == {"n": 2**63 - 1, "t": [1.5, None, True, "在"]}
    assert reply.printed == "a\n"


@pytest.mark.parametrize(
    ("result", "found"),
    [
        ('{"x":NaN}', "no readable result: Out of range float values"),
        ('{"x":-Infinity}', "no readable result: Out of range float values"),
        ('{"x":1e999}', "no readable result: Out of range float values"),
        ('{"x":"\\ud800"}', "no readable result: 'utf-8' codec can't encode"),
        ('{"\\udfff":1}', "no readable result: 'utf-8' codec can't encode"),
        ('{"x":9223372036854775808}', r"result\['x'\] is the integer 9223372036854775808, .* more than 64 bits"),
        ('{"x":[{"y":-18446744073709551617}]}', r"result\['x'\]\[0\]\['y'\] is the integer -18446744073709551617"),
        ('{"x":' + "9" * 5000 + "}", "no readable result: Exceeds the limit"),
        ('{"x":1,"x":2}', "two keys that are 'x'"),
        ("[1]", "it has no result"),
        ("null", "it has no result"),
        ('{"x":' + "[" * 100000 + "]" * 100000 + "}", "no readable result"),
        ('{"x": 1}', "not written as an interpreter writes it"),
        ('{"x":"' + "y" * 1000 + '"}', "the result takes 1008 bytes, more than the 1000 allowed"),
        ("{", "no readable result"),
    ],
)
def test_a_result_that_holds_no_values_is_refused(result: str, found: str) -> None:
    with pytest.raises(ScriptFailed, match=found):
        read_reply(succeeded(result), LIMITS)


@pytest.mark.parametrize("reply", [b"", b"+", b"?{}", b"+[]", b"+null", b"-\xff", b"+{}", b'+{"result":{}}', b"-1"])
def test_a_reply_that_is_none_is_refused(reply: bytes) -> None:
    assert refusal(reply).error_type == "ScriptError"


def test_printed_text_beyond_its_bound_is_cut() -> None:
    reply = read_reply(succeeded("{}", json.dumps("在" * 1_400_000, ensure_ascii=False)), LIMITS)

    assert len(reply.printed.encode()) < 150
    assert reply.printed.endswith("(more was printed than is kept)\n")


def test_printed_text_of_a_failure_is_cut_as_well() -> None:
    assert len(refusal(failed(printed="x" * 4_000_000)).printed) < 150


@pytest.mark.parametrize("printed", [None, 1, ["x"], {"x": 1}])
def test_printed_text_that_is_no_text_is_refused(printed: object) -> None:
    assert "does not say what was printed" in refusal(failed(printed=printed)).message


@pytest.mark.parametrize("name", ["x" * 3_000_000, "not a name", "", "a\x1b[31m", None, 3, ["KeyError"]])
def test_an_error_type_that_is_no_name_is_cut_or_replaced(name: object) -> None:
    error_type = refusal(failed(error_type=name)).error_type

    assert error_type.isidentifier()
    assert len(error_type) <= 200


@pytest.mark.parametrize("line", [-1, 0, True, 10**12, "3", None, 1.5])
def test_a_line_that_is_none_is_left_out(line: object) -> None:
    assert refusal(failed(line=line)).line is None


def test_an_errors_text_is_cut() -> None:
    assert len(refusal(failed(text="x" * 3_000_000)).message) < 4_100
    assert refusal(failed(text=["x"])).message == "KeyError"


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (
            "result['n'] = {'all': [2 ** 64]}",
            "ValueRefused: result.n.all[0]: a JSON value was expected, found the integer 18446744073709551616",
        ),
        (
            "result['n'] = -2 ** 63 - 1",
            "ValueRefused: result.n: a JSON value was expected, found the integer",
        ),
        (
            "result['m'] = {1: 'a', '1': 'b'}",
            "ValueRefused: result.m[1]: a JSON value was expected, found a map key",
        ),
        ("result['x'] = float('nan')", "ValueRefused: result.x: a JSON value was expected, found the Double nan"),
    ],
)
def test_a_script_that_gives_what_values_cannot_be_is_told_which(pool: ScriptPool, code: str, message: str) -> None:
    with pytest.raises(ScriptFailed) as caught:
        pool.run(code, {})

    assert caught.value.message.startswith(message)


def test_the_largest_numbers_of_64_bits_come_through(pool: ScriptPool) -> None:
    run = pool.run("result['n'] = [2 ** 63 - 1, -2 ** 63, 1e308, 5e-324, -0.0, 1e22]", {})

    assert run.result == {"n": [2**63 - 1, -(2**63), 1e308, 5e-324, -0.0, 1e22]}
