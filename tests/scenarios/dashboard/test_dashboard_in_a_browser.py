"""The pages in a real browser: Debian's chromium, driven by Playwright, and judged by axe."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Dialog, Page, sync_playwright

from afl_stream.dashboard import serving
from afl_stream.settings.dashboard import DashboardSettings
from afl_stream.web.access import Access
from tests.eventually import eventually
from tests.scenarios.dashboard.world import Shop

pytestmark = pytest.mark.long

CHROMIUM = shutil.which("chromium")
PHONE = {"width": 390, "height": 844}
PAGES = [
    "/runs",
    "/runs/good-1",
    "/runs/bad-1",
    "/runs/wait-1/graph",
    "/runs/good-1/timeline",
    "/runs/wait-1/why",
    "/runs/good-1/records",
    "/start?workflow=Checkout",
    "/programs/shop.Checkout",
    "/topics",
    "/topics/afl.control",
    "/servers",
    "/settings",
    "/act/cancel?run=wait-1",
    "/act/deploy",
    "/dead-letters",
]


@pytest.fixture(scope="module")
def address(shop: Shop) -> Iterator[str]:
    served = serving.start(shop.deployment(), Access.of(DashboardSettings(), "127.0.0.1"), 0)
    try:
        yield served.address
    finally:
        served.stop()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    assert CHROMIUM is not None, "chromium is needed: apt-get install chromium"
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield launched
        launched.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    context = browser.new_context()
    opened = context.new_page()
    problems: list[str] = []
    opened.on("pageerror", lambda error: problems.append(str(error)))
    opened.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
    yield opened
    context.close()
    # What the policy for contents refuses is told here, too.
    assert problems == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_page_is_accessible(browser: Browser, address: str, scheme: Any) -> None:
    context = browser.new_context(color_scheme=scheme)
    page = context.new_page()
    found = {}
    for path in PAGES:
        page.goto(address + path)
        violations = Axe().run(page).response["violations"]
        serious = [one for one in violations if one["impact"] in ("serious", "critical")]
        if serious:
            found[path] = [(one["id"], one["nodes"][0]["html"][:200]) for one in serious]
    context.close()
    assert found == {}


def test_no_page_is_wider_than_a_phone(browser: Browser, address: str) -> None:
    context = browser.new_context(viewport=PHONE)  # type: ignore[arg-type]  # a dict of the two is what it takes
    page = context.new_page()
    wider = []
    for path in PAGES:
        page.goto(address + path)
        if page.evaluate("document.documentElement.scrollWidth") > PHONE["width"]:
            wider.append(path)
    context.close()
    assert wider == []


def test_everything_can_be_read_without_a_script(browser: Browser, address: str) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{address}/runs")
    page.click("text=bad-1")
    assert "ValueError" in page.inner_text("main")
    page.click("nav.tabs >> text=Graph")
    assert page.locator("svg rect.failed").count() == 1
    context.close()


def test_a_page_follows_its_run(shop: Shop, page: Page, address: str) -> None:
    shop.local.start("Approval", {"order": "live"}, workflow_id="live-1")
    shop.wait_for("live-1", "PAUSED")
    page.goto(f"{address}/runs/live-1")
    page.wait_for_selector("body[data-following=yes]")
    assert "waiting" in page.inner_text("h1")
    # The first look has to be over: what has changed is what differs from it.
    page.wait_for_timeout(1_500)

    shop.local.client.continue_step(shop.waiting_step("live-1"), {"by": "ada"})

    page.wait_for_selector("h1 .chip.complete", timeout=10_000)
    assert '"ada"' in page.inner_text("#values")


def test_a_run_is_started_and_cancelled_by_keyboard_alone(shop: Shop, page: Page, address: str) -> None:
    def tab_to(text: str) -> None:
        for _ in range(60):
            page.keyboard.press("Tab")
            told = "(e => e.textContent.trim() || e.name || '')(document.activeElement)"
            if page.evaluate(told).startswith(text):
                return
        raise AssertionError(f"no Tab leads to {text}")

    page.goto(f"{address}/start?workflow=Approval")
    tab_to("input-order")
    page.keyboard.type("by-keys")
    tab_to("run-id")
    page.keyboard.type("keys-1")
    tab_to("Start")
    page.keyboard.press("Enter")
    page.wait_for_url("**/runs/keys-1")
    eventually(lambda: shop.status("keys-1") == "PAUSED", 10)
    tab_to("Cancel")
    page.keyboard.press("Enter")
    page.wait_for_url("**/act/cancel**")
    tab_to("Cancel the run")
    page.keyboard.press("Enter")
    page.wait_for_selector("h1 .chip.stopped")
    assert shop.status("keys-1") == "CANCELLED"


def test_a_form_says_at_once_that_a_number_is_none(page: Page, address: str) -> None:
    page.goto(f"{address}/start?workflow=Checkout")
    page.fill("#input-amount", "many")

    assert page.inner_text("#wrong-amount") == "expected a number"


def test_a_graph_is_zoomed_by_buttons_wheel_and_keys(page: Page, address: str) -> None:
    page.goto(f"{address}/runs/good-1/graph")

    def width() -> float:
        return float(page.get_attribute(".picture svg", "viewBox").split()[2])  # type: ignore[union-attr]  # it is there

    whole = width()
    page.click("[data-zoom=in]")
    assert width() < whole
    page.focus("[data-picture]")
    page.keyboard.press("-")
    assert width() == pytest.approx(whole)
    page.hover("[data-picture]")
    page.mouse.wheel(0, 300)
    eventually(lambda: width() > whole, 5)
    page.click("[data-zoom=fit]")
    assert width() == pytest.approx(whole)


def test_markup_runs_nowhere(page: Page, address: str) -> None:
    asked: list[str] = []

    def note(dialog: Dialog) -> None:
        asked.append(dialog.message)
        dialog.dismiss()

    page.on("dialog", note)
    for path in ("/runs", "/runs/good-1", "/runs/bad-1", "/runs/bad-1/timeline"):
        page.goto(address + path)
    assert asked == []
