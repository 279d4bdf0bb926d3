// Live updates, zoom and typed forms. Every page is complete without this script.
"use strict";

// On a change the page is asked for again, and its parts are replaced: each element with `data-part` and an id.
function replaceParts(text) {
  const fresh = new DOMParser().parseFromString(text, "text/html");
  for (const part of document.querySelectorAll("[data-part]")) {
    const next = fresh.getElementById(part.id);
    if (!next || next.outerHTML === part.dataset.shown) continue;
    // What somebody types or has the focus on stays: moving it would lose their place.
    if (part.contains(document.activeElement) && document.activeElement.matches("input, textarea, select, button")) continue;
    const shown = next.outerHTML;
    const focused = part.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
    const view = part.querySelector("svg[data-view]")?.getAttribute("viewBox");
    part.replaceWith(next);
    next.dataset.shown = shown;
    if (focused) [...next.querySelectorAll("a")].find((link) => link.getAttribute("href") === focused)?.focus();
    prepare(next, view);
  }
}

function follow(address) {
  let asking = false, again = false;
  async function update() {
    if (asking || document.hidden) { again = true; return; }
    asking = true; again = false;
    try {
      const answer = await fetch(location.href, { headers: { "X-Part": "1" }, credentials: "same-origin" });
      if (answer.ok) replaceParts(await answer.text());
    } catch { /* the next change asks again */ }
    asking = false;
    if (again && !document.hidden) setTimeout(update, 500);
  }
  const events = new EventSource(address);
  events.addEventListener("changed", update);
  events.addEventListener("open", () => { document.body.dataset.following = "yes"; });
  events.addEventListener("error", () => { document.body.dataset.following = "no"; });
  document.addEventListener("visibilitychange", () => { if (!document.hidden && again) update(); });
  addEventListener("pagehide", () => events.close());
}

// A picture is moved by dragging and by arrow keys, and zoomed by the wheel, by buttons and by + and -.
function zoomable(picture, view) {
  const svg = picture.querySelector("svg");
  const whole = svg.getAttribute("viewBox").split(" ").map(Number);
  picture.classList.add("live-zoom");
  // A small graph keeps its size: its frame grows, in the middle of which it stands.
  const room = picture.getBoundingClientRect(), grown = Math.min(room.width / whole[2], room.height / whole[3]) / 1.2;
  if (grown > 1) { whole[0] -= whole[2] * (grown - 1) / 2; whole[1] -= whole[3] * (grown - 1) / 2; whole[2] *= grown; whole[3] *= grown; }
  let [x, y, width, height] = view ? view.split(" ").map(Number) : whole;
  function show() { svg.setAttribute("viewBox", `${x} ${y} ${width} ${height}`); svg.setAttribute("data-view", ""); }
  function zoom(factor, atX = 0.5, atY = 0.5) {
    const next = Math.min(Math.max(width * factor, 60), whole[2] * 4);
    const by = next / width;
    x += width * (1 - by) * atX; y += height * (1 - by) * atY; width = next; height *= by;
    show();
  }
  function move(dx, dy) { x += dx * width; y += dy * height; show(); }
  svg.removeAttribute("width"); svg.removeAttribute("height");
  picture.addEventListener("wheel", (event) => {
    event.preventDefault();
    const box = svg.getBoundingClientRect();
    zoom(event.deltaY > 0 ? 1.15 : 1 / 1.15, (event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height);
  }, { passive: false });
  let from = null, moved = false;
  picture.addEventListener("pointerdown", (event) => { from = event.target.closest("button") ? null : [event.clientX, event.clientY]; moved = false; });
  picture.addEventListener("pointermove", (event) => {
    if (!from || !event.buttons) return;
    const scale = svg.getScreenCTM().a, dx = event.clientX - from[0], dy = event.clientY - from[1];
    if (!moved && Math.hypot(dx, dy) < 4) return;
    if (!moved) picture.setPointerCapture(event.pointerId);
    moved = true;
    x -= dx / scale; y -= dy / scale; from = [event.clientX, event.clientY];
    show();
  });
  picture.addEventListener("pointerup", () => { from = null; });
  picture.addEventListener("click", (event) => { if (moved) { event.preventDefault(); moved = false; } }, true);
  picture.addEventListener("dragstart", (event) => event.preventDefault());
  picture.tabIndex = 0;
  picture.addEventListener("keydown", (event) => {
    const keys = { "+": () => zoom(1 / 1.25), "=": () => zoom(1 / 1.25), "-": () => zoom(1.25), ArrowLeft: () => move(-0.1, 0), ArrowRight: () => move(0.1, 0), ArrowUp: () => move(0, -0.1), ArrowDown: () => move(0, 0.1) };
    if (keys[event.key] && !event.ctrlKey && !event.metaKey) { keys[event.key](); event.preventDefault(); }
  });
  picture.querySelectorAll("[data-zoom]").forEach((button) => button.addEventListener("click", () => {
    if (button.dataset.zoom === "fit") { [x, y, width, height] = whole; show(); } else zoom(button.dataset.zoom === "in" ? 1 / 1.25 : 1.25);
  }));
  show();
}

// A field of JSON or of a whole number says at once what is wrong with it.
function typed(field) {
  field.addEventListener("input", () => {
    let wrong = "";
    const text = field.value.trim();
    if (text && field.dataset.type === "json") {
      try { JSON.parse(text); } catch (error) { wrong = `not JSON: ${error.message}`; }
    } else if (text && field.dataset.type === "whole" && !/^-?[0-9]+$/.test(text)) wrong = "expected a whole number";
    else if (text && field.dataset.type === "number" && !Number.isFinite(Number(text))) wrong = "expected a number";
    field.setCustomValidity(wrong);
    field.setAttribute("aria-invalid", wrong ? "true" : "false");
    const told = document.getElementById(field.getAttribute("aria-describedby"));
    if (told) told.textContent = wrong;
  });
}

function prepare(root, view) {
  root.querySelectorAll("[data-picture]").forEach((picture) => zoomable(picture, view));
  root.querySelectorAll("[data-type]").forEach(typed);
}

prepare(document, null);
if (matchMedia("(max-width: 48rem)").matches) document.querySelector("details.menu")?.removeAttribute("open");
if (document.body.dataset.live && window.EventSource) follow(document.body.dataset.live);
