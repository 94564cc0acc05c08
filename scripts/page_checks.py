"""What `scripts/page.py` checks of a page in a browser, and a server of example pages."""

import http.server
import json
import threading
import time
from pathlib import Path

ASSETS = Path(__file__).resolve().parent.parent / "crates/server/src/page/assets"
TYPES = {".html": "text/html; charset=utf-8", ".css": "text/css", ".js": "text/javascript",
         ".svg": "image/svg+xml"}

# Every text of the page with its contrast, by WCAG 2's formula.
CONTRAST = """() => {
  const parse = (color) => color.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => {
    const part = (c) => ((c /= 255) <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
    return 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
  };
  const back = (element) => {
    for (let e = element; e; e = e.parentElement) {
      const color = parse(getComputedStyle(e).backgroundColor);
      if (color.length < 4 || color[3] > 0) return color;
    }
    return [255, 255, 255];
  };
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    const style = getComputedStyle(element);
    if (!walker.currentNode.data.trim() || !element.checkVisibility()) continue;
    if (element.closest("noscript, script, .unseen")) continue;
    const color = parse(element.closest("svg") ? style.fill : style.color);
    const [a, b] = [light(color), light(back(element))].sort((x, y) => y - x);
    found.push([walker.currentNode.data.trim().slice(0, 40), (a + 0.05) / (b + 0.05)]);
  }
  return found;
}"""

# What a keyboard reaches, with the name that a screen reader says.
FOCUSED = """() => {
  const e = document.activeElement;
  const label = e.labels?.[0]?.textContent;
  const style = getComputedStyle(e.id.startsWith("by-") ? e.nextElementSibling : e);
  return [e.id || e.className || e.tagName, label || e.getAttribute("aria-label") || e.textContent,
          style.outlineStyle];
}"""


class Watched:
    """A page of a browser whose errors and requests are kept."""

    def __init__(self, page):
        self.page, self.errors, self.hosts = page, [], set()
        page.on("console", lambda message: message.type in ("error", "warning")
                and self.errors.append(message.text))
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("dialog", lambda dialog: self.errors.append(f"dialog: {dialog.message}"))
        page.on("request", lambda request: self.hosts.add(request.url.split("/")[2]))

    def open(self, url):
        # The stream of events never ends, so the network is never idle.
        self.page.goto(url, wait_until="load")
        self.host = url.split("/")[2]

    def check(self, what):
        """The page is drawn without errors, fits its window, and can be read."""
        width, room = self.page.evaluate(
            "() => [document.documentElement.scrollWidth, innerWidth]")
        assert width <= room, f"{what}: {width} px wide in a window of {room}"
        low = [found for found in self.page.evaluate(CONTRAST) if found[1] < 4.5]
        assert not low, f"{what}: contrast below 4.5: {low}"
        self.check_quiet(what)

    def check_quiet(self, what):
        assert not self.errors, f"{what}: {self.errors}"
        assert self.hosts == {self.host}, f"{what}: asked {self.hosts}"


def check_keyboard(page):
    """Everything that can be used is reached with Tab, has a name, and shows the focus."""
    seen = []
    for _ in range(12):
        page.keyboard.press("Tab")
        name, label, outline = page.evaluate(FOCUSED)
        if name in seen or name == "BODY":
            break
        assert label.strip(), f"{name} has no name"
        assert outline != "none", f"{name} does not show the focus"
        seen.append(name)
    assert seen[:2] == ["skip", "theme"] and "by-height" in seen and "log" in seen, seen
    page.locator("#by-height").focus()
    shown = lambda axis: page.locator(f".picture.by-{axis}").is_visible()  # noqa: E731
    assert shown("height") and not shown("time")
    page.keyboard.press("ArrowRight")
    assert shown("time") and not shown("height"), "the arrow keys do not change the picture"
    page.locator("#theme").focus()
    themes = set()
    for _ in range(2):
        page.keyboard.press("Enter")
        themes.add(page.evaluate("() => document.documentElement.dataset.theme"))
    assert themes == {"light", "dark"}, themes
    for landmark in ("banner", "main", "contentinfo"):
        assert page.get_by_role(landmark).count() == 1, landmark
    assert page.get_by_role("img").count() >= 1, "the picture has no text alternative"


class Examples(http.server.BaseHTTPRequestHandler):
    """Serves the example pages that the Rust tests write, `/NAME/`, with the page's own files."""

    protocol_version = "HTTP/1.1"
    directory, policy = Path(), ""
    # Whether streams of events are answered, and the updates that they send after the first.
    is_up, updates = True, []

    def log_message(self, *_):
        pass

    def do_GET(self):
        _, name, file = self.path.split("/")
        if file == "events":
            return self.events(name)
        path = ASSETS / file if file else self.directory / f"{name}.html"
        content = path.read_bytes()
        self.send_response(200)
        self.send_header("Content-Type", TYPES[path.suffix])
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Content-Security-Policy", self.policy)
        self.end_headers()
        self.wfile.write(content)

    def events(self, name):
        self.close_connection = True
        if not Examples.is_up:
            self.send_response(503)
            self.send_header("Content-Length", "0")
            return self.end_headers()
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        waiting = [json.loads((self.directory / f"{name}.json").read_text())]
        seen = 0
        try:
            while Examples.is_up:
                waiting += Examples.updates[seen:]
                seen = len(Examples.updates)
                for update in waiting or [{}]:
                    self.wfile.write(f"data: {json.dumps(update)}\n\n".encode())
                self.wfile.flush()
                waiting = []
                time.sleep(0.2)
        except OSError:
            pass  # The browser has left.


def serve_examples(directory, policy):
    """Serves the examples in a thread, and returns their address."""
    Examples.directory, Examples.policy = directory, policy
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Examples)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_address[1]}"
