"""What operators do on pages and through the API: it happens, and the log says who did it."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import cast

import pytest
from starlette.testclient import TestClient

from afl.compiled.program import CompiledProgram
from afl.compiler import compile_text
from afl.engine.model.store import Batch, ScheduleChange, ScheduleRow, Store
from afl.engine.types import Value
from afl_stream.schedules.documents import Schedule, to_document
from afl_stream.schedules.firings import ScheduleState
from afl_stream.schedules.spec import ScheduleSpec
from tests.eventually import eventually
from tests.scenarios.dashboard.world import PROGRAM, Shop, act, csrf_of


@pytest.fixture
def browser(shop: Shop) -> TestClient:
    return shop.browser()


def _start(shop: Shop, workflow_id: str) -> str:
    shop.local.start("Approval", {"order": workflow_id}, workflow_id=workflow_id)
    shop.wait_for(workflow_id, "PAUSED")
    return shop.waiting_step(workflow_id)


def test_a_run_is_started_by_a_form_of_its_signature(shop: Shop, browser: TestClient) -> None:
    form = browser.get("/start", params={"workflow": "Checkout"})
    values = {"workflow": "shop.Checkout", "csrf": csrf_of(form.text), "run-id": "form-1", "input-order": "7"}
    page = browser.post("/start", data={**values, "input-amount": "2.5", "input-gift": "true"})

    assert "Checks an order out." in form.text
    assert "is started as form-1" in page.text
    row = shop.local.store.load_workflow("form-1")
    assert row is not None
    assert dict(row.inputs) == {"order": "7", "amount": 2.5, "gift": True}


def test_a_form_says_which_input_does_not_fit(shop: Shop, browser: TestClient) -> None:
    csrf = csrf_of(browser.get("/start", params={"workflow": "Checkout"}).text)
    values = {"workflow": "shop.Checkout", "csrf": csrf, "run-id": "form-2", "input-order": "kept"}
    page = browser.post("/start", data={**values, "input-amount": "many"})

    assert page.status_code == 422
    assert "amount" in page.text
    assert "Double" in page.text
    assert 'value="kept"' in page.text
    assert shop.status("form-2") == ""


def test_a_start_form_says_what_happens_if_a_run_has_the_id(shop: Shop, browser: TestClient) -> None:
    csrf = csrf_of(browser.get("/start", params={"workflow": "Approval"}).text)
    values = {"workflow": "shop.Approval", "csrf": csrf, "run-id": "wait-1", "input-order": "other"}

    pages = [browser.post("/start", data={**values, "if-exists": chosen}) for chosen in ("", "refuse", "use")]

    assert [page.status_code for page in pages] == [422, 422, 200]
    assert "choose another id" in pages[1].text
    assert "is started as wait-1" in pages[2].text


def test_a_run_is_moved_to_the_version_that_is_deployed_now(
    shop: Shop, browser: TestClient, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "afl_stream.dashboard.actions")
    step = _start(shop, "move-1")
    assert "/act/migrate?run=move-1" in browser.get("/runs/move-1").text
    following = CompiledProgram(
        compile_text(PROGRAM.replace("by = approved.by", 'by = approved.by ++ "!"')).program_json
    )
    shop.local.deploy(following)

    moved = act(browser, "migrate", run="move-1", to="current", reason="louder")
    again = act(browser, "migrate", run="move-1", to=following.fingerprint[:8])
    act(browser, "continue", step=step, result='{"by": "ada"}')

    assert f"move-1 is moved to version {following.fingerprint[:12]}" in moved.text
    assert again.status_code == 422
    shop.wait_for("move-1", "COMPLETED")
    row = shop.local.store.load_workflow("move-1")
    assert row is not None
    assert row.outputs == {"by": "ada!"}
    assert "local did migrate move-1" in caplog.text


def test_a_version_that_does_not_fit_is_told_on_the_form(shop: Shop, browser: TestClient) -> None:
    _start(shop, "move-2")
    shop.local.deploy(CompiledProgram(compile_text(PROGRAM.replace("approved", "allowed")).program_json))

    page = act(browser, "migrate", run="move-2", to="current")
    by_api = browser.post("/api/runs/move-2/migrate", json={"to": "current"})

    assert page.status_code == 422
    assert "approved" in page.text
    assert by_api.status_code == 409
    assert shop.status("move-2") == "PAUSED"


def test_a_step_is_answered_by_hand(shop: Shop, browser: TestClient) -> None:
    step = _start(shop, "hand-1")
    wrong = act(browser, "continue", step=step, result='{"by": 7}')
    right = act(browser, "continue", step=step, result='{"by": "ada"}')

    assert wrong.status_code == 422
    assert "String" in wrong.text
    assert f"answered step {step}" in right.text
    shop.wait_for("hand-1", "COMPLETED")


def test_a_step_is_failed_by_hand_and_its_run_retried(shop: Shop, browser: TestClient) -> None:
    step = _start(shop, "hand-2")
    act(browser, "fail", step=step, message="no", type="Declined")
    shop.wait_for("hand-2", "ERROR")
    row = shop.local.store.load_workflow("hand-2")
    assert row is not None
    assert row.error is not None
    assert (row.error.type, row.error.message) == ("Declined", "no")

    assert "hand-2 is retried" in act(browser, "retry", run="hand-2", reason="").text
    shop.wait_for("hand-2", "PAUSED")


def test_a_run_is_cancelled_and_knows_by_whom(shop: Shop, browser: TestClient) -> None:
    _start(shop, "cancel-1")
    page = act(browser, "cancel", run="cancel-1", reason="ordered twice")

    assert "cancel-1 is cancelled" in page.text
    row = shop.local.store.load_workflow("cancel-1")
    assert row is not None
    assert row.error is not None
    assert "ordered twice (by local)" in row.error.message


def test_what_has_ended_is_not_cancelled(shop: Shop, browser: TestClient) -> None:
    answer = browser.post("/api/runs/good-1/cancel", json={})

    assert answer.status_code == 409
    assert shop.status("good-1") == "COMPLETED"


def test_a_run_is_reset_and_a_step_run_again(shop: Shop, browser: TestClient) -> None:
    step = _start(shop, "again-1")
    act(browser, "continue", step=step, result='{"by": "ada"}')
    shop.wait_for("again-1", "COMPLETED")

    assert "is run again" in act(browser, "rerun", step=step, reason="").text
    shop.wait_for("again-1", "PAUSED")
    assert "again-1 is reset" in act(browser, "reset", run="again-1", reason="").text


def test_a_run_is_paused_and_resumed(shop: Shop, browser: TestClient) -> None:
    _start(shop, "pause-1")

    assert "run pause-1 is paused" in act(browser, "pause-run", run="pause-1", reason="wait").text
    assert "pause-1" in browser.get("/pauses").text
    assert "run pause-1 is resumed" in act(browser, "resume-run", run="pause-1").text


def test_an_event_is_raised(shop: Shop, browser: TestClient) -> None:
    shop.local.start("News", {}, workflow_id="news-2")
    shop.wait_for("news-2", "PAUSED")
    page = act(browser, "raise", run="news-2", name="news", data='{"headline": "x"}')

    assert "event news of news-2 is taken" in page.text
    shop.wait_for("news-2", "COMPLETED")


def test_pasted_afl_is_compiled_deployed_and_can_be_started(shop: Shop, browser: TestClient) -> None:
    text = "namespace pasted { workflow Add(a: Long) => (b: Long) andThen { yield Add(b = $.a + 1) } }"
    wrong = act(browser, "deploy", text="workflow {")
    right = act(browser, "deploy", text=text)
    started = browser.post("/api/runs", json={"workflow": "Add", "inputs": {"a": 1}, "id": "add-1"})

    assert wrong.status_code == 422
    assert "error" in wrong.text
    assert "pasted.Add" in right.text
    assert started.status_code == 202
    shop.wait_for("add-1", "COMPLETED")


def test_the_log_says_who_did_what(shop: Shop, browser: TestClient, caplog: pytest.LogCaptureFixture) -> None:
    _start(shop, "log-1")
    with caplog.at_level(logging.INFO, "afl_stream.dashboard.actions"):
        browser.post("/api/runs/log-1/cancel", json={"reason": "x"})
        browser.post("/api/runs/none-such%0Aline/cancel", json={})

    lines = [record.getMessage() for record in caplog.records if record.name == "afl_stream.dashboard.actions"]
    assert lines[0] == "local did cancel log-1: log-1 is cancelled"
    assert lines[1].startswith("local asked for cancel none-such")
    assert "\n" not in lines[1]


def test_a_dead_letter_is_shown_and_replayed(shop: Shop, browser: TestClient) -> None:
    transport = shop.deployment()
    with transport.transport() as opened:
        producer = opened.producer()
        producer.produce("afl.control", b"garbage <script>", key=b"good-1")
        producer.flush(5.0)
        producer.close()

    def letters() -> list[dict[str, object]]:
        found: list[dict[str, object]] = browser.get("/api/dead-letters").json()["letters"]
        return found

    eventually(letters, 10)
    place = str(letters()[0]["place"])
    page = browser.get(f"/dead-letters/{place}")
    assert "garbage &lt;script&gt;" in page.text
    assert "1 sent again" in act(browser, "replay", place=place).text
    assert "replayed" in browser.get(f"/dead-letters/{place}").text
    # Replayed garbage is garbage again: a new letter, which a filter finds.
    eventually(letters, 10)
    assert "0 dead letters sent again" in act(browser, "replay-chosen", reason="none-such").text
    assert "1 dead letter sent again" in act(browser, "replay-chosen", hop="control").text


def test_a_registered_handler_is_listed_and_removed(shop: Shop, browser: TestClient) -> None:
    from afl.engine.model.entities import HandlerRegistration

    shop.local.store.save_handler_registration(
        HandlerRegistration("shop.Pack", "shop.handlers", metadata={"region": "eu", "api_token": "c4nary"})
    )
    page = browser.get("/handlers")

    assert "shop.handlers" in page.text
    assert "c4nary" not in page.text
    assert "the handler of shop.Pack is removed" in act(browser, "remove-handler", facet="shop.Pack").text
    assert shop.local.store.list_handler_registrations() == []


def test_a_handler_is_registered_and_changed(shop: Shop, browser: TestClient) -> None:
    new = act(
        browser, "register-handler", facet="shop.Wrap", module="shop.wrap", entrypoint="wrap", limit="5", retry=""
    )
    first = shop.local.store.get_handler_registration("shop.Wrap")
    wrong = act(browser, "register-handler", facet="shop.Wrap", module="m", entrypoint="wrap", limit="5", retry="often")
    act(
        browser,
        "register-handler",
        facet="shop.Wrap",
        module="shop.wrap",
        entrypoint="wrap",
        limit="0",
        retry="attempts=2",
    )
    second = shop.local.store.get_handler_registration("shop.Wrap")
    act(browser, "remove-handler", facet="shop.Wrap")

    assert "the handler of shop.Wrap is registered" in new.text
    assert wrong.status_code == 422
    assert first is not None
    assert second is not None
    assert (first.timeout_ms, second.timeout_ms) == (5_000, 0)
    assert first.checksum != second.checksum
    assert "attempts=2" in second.retry


def test_a_schedules_sensitive_inputs_are_hidden_and_its_refusals_do_not_tell_them(
    shop: Shop, browser: TestClient
) -> None:
    spec = ScheduleSpec(workflow="shop.Enter", inputs={"password": "c4nary"}, interval_ms=3_600_000)
    state = ScheduleState(decided_ms=0, last_refusal="password: found c4nary, expected a longer one")
    schedule = Schedule("nightly", spec, state, frozenset({"password"}))
    document = cast("Mapping[str, Value]", to_document(schedule))
    change = ScheduleChange("nightly", 0, ScheduleRow("nightly", 1, None, document))
    cast("Store", shop.local.store).commit_batch(Batch(schedules=[change]))

    for path in ("/schedules", "/schedules/nightly", "/api/schedules", "/api/schedules/nightly"):
        found = browser.get(path)
        assert (found.status_code, "nightly" in found.text, "c4nary" in found.text) == (200, True, False)


def test_a_sensitive_value_is_hidden_everywhere(shop: Shop, browser: TestClient) -> None:
    browser.post("/api/runs", json={"workflow": "Enter", "inputs": {"password": "c4nary"}, "id": "secret-1"})
    shop.wait_for("secret-1", "PAUSED")
    step = shop.waiting_step("secret-1")

    for path in ("", "/graph", "/timeline", "/records", "/why", f"/steps/{step}"):
        assert "c4nary" not in browser.get(f"/runs/secret-1{path}").text
    assert "c4nary" not in browser.get("/api/runs/secret-1").text
    for topic in ("afl.commands", "afl.events.shop.Login"):
        found = browser.get(f"/api/topics/{topic}/messages", params={"key": "secret-1" if "comm" in topic else step})
        assert found.json()["messages"]
        assert "c4nary" not in found.text
