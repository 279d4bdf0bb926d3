"""The pages show a deployment: complete without a script, and every value as text."""

from __future__ import annotations

from dataclasses import replace
from html import unescape
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from afl.core.trace_context import trace_id_of
from afl_stream.dashboard.application import make_application, make_dashboard
from afl_stream.dashboard.deployment import Deployment
from afl_stream.errors import ConfigError
from afl_stream.settings.config import EmbeddedSettings, StreamConfig, load_config
from afl_stream.settings.dashboard import DashboardSettings
from afl_stream.web.access import Access
from tests.scenarios.dashboard.world import MARKUP, Shop

PAGES = [
    "/runs",
    "/start",
    "/schedules",
    "/external",
    "/programs",
    "/handlers",
    "/topics",
    "/dead-letters",
    "/tasks",
    "/logs",
    "/servers",
    "/pauses",
    "/locks",
    "/settings",
]
OF_RUN = ["", "/graph", "/timeline", "/records", "/why"]


@pytest.fixture
def browser(shop: Shop) -> TestClient:
    return shop.browser()


@pytest.mark.parametrize("path", [*PAGES, *(f"/runs/bad-1{part}" for part in OF_RUN), "/programs/shop.Checkout"])
def test_every_page_is_there(browser: TestClient, path: str) -> None:
    answer = browser.get(path)

    assert answer.status_code == 200
    assert "<h1" in answer.text


@pytest.mark.parametrize("path", PAGES)
def test_every_page_is_there_before_anything_has_run(tmp_path: Path, path: str) -> None:
    deployment = Deployment(StreamConfig(embedded=EmbeddedSettings(data_dir=str(tmp_path))))
    dashboard = make_dashboard(deployment, Access.of(DashboardSettings(), "127.0.0.1"))
    answer = TestClient(make_application(dashboard), base_url="http://127.0.0.1").get(path)

    # Where even the log is missing, the page says what to do.
    assert answer.status_code in (200, 404)
    assert "afl-stream" in answer.text


@pytest.mark.parametrize("part", OF_RUN)
def test_markup_in_inputs_and_errors_is_text(browser: TestClient, part: str) -> None:
    for run in ("good-1", "bad-1"):
        text = browser.get(f"/runs/{run}{part}").text
        assert "<script>alert" not in text
        assert '<b title="y">' not in text


def test_markup_is_shown_as_it_was_written(browser: TestClient) -> None:
    assert "<script>alert(" in unescape(browser.get("/runs/good-1").text)
    assert f"declined {MARKUP}" in unescape(browser.get("/runs/bad-1").text)


def test_no_template_marks_a_value_as_safe_and_no_page_has_inline_code(browser: TestClient) -> None:
    import afl_stream.dashboard

    templates = Path(afl_stream.dashboard.__file__).parent / "templates"
    for template in templates.glob("*.html"):
        text = template.read_text()
        assert "|safe" not in text
        assert " style=" not in text
        assert " on" + "click=" not in text
        assert "http://" not in text.replace('xmlns="http://', "")


def test_a_failed_run_shows_why_and_where(browser: TestClient) -> None:
    text = browser.get("/runs/bad-1").text

    assert "ValueError" in text
    assert "shop.Checkout.paid" in text
    assert "paid = Charge" in text


def test_the_list_is_filtered_by_the_url(browser: TestClient) -> None:
    failed = browser.get("/runs", params={"state": "failed"}).text
    by_input = browser.get("/runs", params={"input": "order=1"}).text

    assert "bad-1" in failed
    assert "good-1" not in failed
    assert "good-1" in by_input
    assert "bad-1" not in by_input


def test_the_list_is_read_in_pages(browser: TestClient) -> None:
    first = browser.get("/api/runs", params={"limit": 2}).json()
    second = browser.get("/api/runs", params={"limit": 2, "after": first["next_after"]}).json()

    ids = [run["workflow_id"] for run in (*first["workflows"], *second["workflows"])]
    assert len(set(ids)) == 4


def test_a_filter_that_has_no_meaning_is_told(browser: TestClient) -> None:
    answer = browser.get("/runs", params={"since": "yesterday"})

    assert answer.status_code == 400
    assert "since" in answer.text


def test_a_search_leads_to_a_run_a_workflow_or_an_error(browser: TestClient) -> None:
    def place(text: str) -> str:
        return browser.get("/search", params={"q": text}, follow_redirects=False).headers["location"]

    assert place("good-1") == "/runs/good-1"
    assert place("good") == "/runs/good-1"
    assert place("Checkout") == "/runs?workflow=Checkout"
    assert place("Charge") == "/runs?facet=Charge"
    assert place("declined") == "/runs?error=declined"
    assert place("order=1") == "/runs?input=order%3D1"


def test_an_unknown_run_is_not_found(browser: TestClient) -> None:
    answer = browser.get("/runs/none-such")

    assert answer.status_code == 404
    assert "none-such" in answer.text


def test_a_step_shows_its_values_and_who_answered(browser: TestClient, shop: Shop) -> None:
    detail = browser.get("/api/runs/good-1").json()
    paid = next(step for step in detail["root"]["children"] if step["label"].startswith("paid"))

    text = browser.get(f"/runs/good-1/steps/{paid['step_id']}").text

    assert "r-1" in text
    assert "afl.agent.shop.Charge" in text
    assert "afl.events.shop.Charge[" in text


def test_the_graph_has_the_states_of_steps(browser: TestClient) -> None:
    text = browser.get("/runs/bad-1/graph").text

    assert "box event failed" in text
    assert "box step complete" in text


def test_a_run_of_thousands_of_steps_is_folded(browser: TestClient, shop: Shop) -> None:
    shop.local.start("Many", {"items": list(range(1_000))}, workflow_id="many-1")
    shop.wait_for("many-1", "COMPLETED")

    text = browser.get("/runs/many-1").text
    graph = browser.get("/runs/many-1/graph").text
    later = browser.get(
        "/runs/many-1", params={"at": browser.get("/api/runs/many-1").json()["root"]["step_id"], "from": 990}
    )

    assert "900 more" in text
    assert len(text) < 150_000
    assert "1,000" in graph
    assert len(graph) < 50_000
    assert "[999]" in later.text


def test_a_record_of_a_topic_is_decoded(browser: TestClient) -> None:
    found = browser.get("/api/topics/afl.control/messages", params={"key": "good-1"}).json()

    assert found["messages"][0]["type"] == "StepContinue"
    assert found["messages"][0]["value"]["result"] == {"receipt": "r-1"}


def test_topics_of_others_are_not_shown(browser: TestClient) -> None:
    assert browser.get("/topics/somebody.elses").status_code == 404


def test_secrets_of_the_settings_are_masked(shop: Shop) -> None:
    from dataclasses import replace

    from afl_stream.settings.config import KafkaSettings

    config = replace(shop.config, kafka=KafkaSettings(client={"sasl.password": "c4nary"}), transport="embedded")
    dashboard = make_dashboard(Deployment(config), Access.of(DashboardSettings(), "127.0.0.1"))
    text = TestClient(make_application(dashboard), base_url="http://127.0.0.1").get("/settings").text

    assert "sasl.password" in text
    assert "c4nary" not in text


def test_a_run_leads_to_its_trace_where_the_settings_name_a_viewer(shop: Shop) -> None:
    settings = replace(shop.config.dashboard, trace_url="https://traces.example/t/{trace_id}?from=afl")
    linked = replace(shop, config=replace(shop.config, dashboard=settings))

    shown = linked.browser().get("/runs/bad-1").text

    assert f'href="https://traces.example/t/{trace_id_of("bad-1")}?from=afl"' in shown
    assert "traces.example" not in shop.browser().get("/runs/bad-1").text


@pytest.mark.parametrize("url", ["https://traces.example/", "traces.example/{trace_id}", "javascript:{trace_id}"])
def test_an_address_of_traces_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(ConfigError, match=r"dashboard\.trace_url.*\{trace_id\}"):
        load_config(environ={"AFL_DASHBOARD_TRACE_URL": url})
