"""A trace context is read as W3C says, and what is none is left alone."""

import pytest

from afl.core.trace_context import TraceContext, context_in, context_of, is_sampled, link_to, parse_context

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
FOUND = TraceContext("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331", "01")


@pytest.mark.parametrize(
    ("text", "flags"),
    [
        (PARENT, "01"),
        (PARENT[:-2] + "00", "00"),
        # Flags that this version does not know are not passed on.
        (PARENT[:-2] + "ff", "03"),
        # A later version is read as far as this one goes.
        ("cc" + PARENT[2:] + "-what-the-future-holds", "01"),
    ],
)
def test_a_context_is_read(text: str, flags: str) -> None:
    assert parse_context(text) == FOUND._replace(flags=flags)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "00-1",
        PARENT + "-more",
        PARENT.upper(),
        "ff" + PARENT[2:],
        f"00-{'0' * 32}-b7ad6b7169203331-01",
        f"00-0af7651916cd43dd8448eb211c80319c-{'0' * 16}-01",
        PARENT.replace("b7", "é7"),
    ],
)
def test_what_is_no_context_is_none(text: str) -> None:
    assert parse_context(text) is None
    assert link_to((("a", b""), ("b", b""), ("traceparent", text.encode()))) is None


def test_a_context_keeps_its_state_and_comes_back_from_its_text() -> None:
    found = context_of((("traceparent", PARENT.encode()), ("tracestate", b"shop=1,bank=2")))

    assert found == FOUND._replace(state="shop=1,bank=2")
    assert context_in(found.text) == found
    assert context_in(FOUND.text) == FOUND
    assert context_of(found.headers) == found


@pytest.mark.parametrize("state", [b"", b"a=" + b"x" * 600, b"\x00", "ü".encode(), b" a=b"])
def test_a_state_that_cannot_be_passed_on_is_dropped(state: bytes) -> None:
    assert context_of((("traceparent", PARENT.encode()), ("tracestate", state))) == FOUND


def test_a_share_decides_as_opentelemetrys_sampler_does() -> None:
    from opentelemetry.sdk.trace.sampling import Sampler, TraceIdRatioBased

    ids = [f"{number * 0x1234567890ABCDEF1234567890ABCD % (1 << 128):032x}" for number in range(1, 400)]
    for ratio in (0.0, 0.1, 0.5, 1.0):
        theirs: Sampler = TraceIdRatioBased(ratio)
        decided = [theirs.should_sample(None, int(trace_id, 16), "a").decision.is_sampled() for trace_id in ids]  # type: ignore[no-untyped-call]  # as OpenTelemetry has it
        assert [is_sampled(trace_id, ratio) for trace_id in ids] == decided
