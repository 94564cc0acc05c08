#!/usr/bin/env python3
"""Drives the web page of running syncs, and example pages of every stage, in a browser.

    scripts/page.py APUS TESTCHAIN EXAMPLES SHOTS     (needs playwright, and Debian's chromium)

EXAMPLES is what the Rust tests have written (APUS_PAGE_EXAMPLES); screenshots go to SHOTS. CHROMIUM
names another browser.
"""

import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from pathlib import Path

from playwright.sync_api import sync_playwright

from page_checks import Examples, Watched, check_keyboard, serve_examples

WIDTHS = {"wide": (1280, 900), "narrow": (360, 740)}
PATIENCE_MS = 120_000
STAGE = "main[data-stage='{}']"


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


@contextlib.contextmanager
def running(command, **options):
    """Runs a command until the end of the block, and yields its process."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                               **options)
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)


class Drive:
    """The program, a browser, and where screenshots go."""

    def __init__(self, browser, apus, shots):
        self.browser, self.apus, self.shots = browser, apus, shots

    @contextlib.contextmanager
    def watched(self, width="wide", **options):
        size = dict(zip(("width", "height"), WIDTHS[width]))
        context = self.browser.new_context(viewport=size, **options)
        try:
            page = Watched(context.new_page())
            page.page.set_default_timeout(PATIENCE_MS)
            yield page
        finally:
            context.close()

    def shoot(self, page, name):
        # Transitions are over.
        page.page.wait_for_timeout(1000)
        page.page.screenshot(path=self.shots / f"{name}.png", full_page=True)

    @contextlib.contextmanager
    def serving(self, *args, public=True):
        """Runs apus with a server, and yields the address of its page, and the process."""
        port = free_port()
        command = [self.apus, args[0], "--regtest", f"--rpcport={port}", "--server", *args[1:]]
        with running(command + ["--pagepublic"] * public) as process:
            wait_for_port(port, process)
            yield f"http://127.0.0.1:{port}/", process


def wait_for_port(port, process):
    while process.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
            return
    raise AssertionError(f"apus has ended: {process.stderr.read()}")


def example_pages(drive, policy, directory):
    """Every stage, wide and narrow, light and dark, with and without JavaScript."""
    address = serve_examples(directory, policy)
    for path in sorted(directory.glob("*.html")):
        name, text = path.stem, {}
        for width in WIDTHS:
            for theme in ("light", "dark"):
                what = f"{name}-{width}-{theme}"
                with drive.watched(width, color_scheme=theme) as page:
                    page.open(f"{address}/{name}/")
                    page.page.wait_for_function("() => document.getElementById('said').textContent")
                    page.check(what)
                    drive.shoot(page, what)
                    text["with"] = page.page.inner_text("main")
        with drive.watched(java_script_enabled=False, color_scheme="dark") as page:
            page.open(f"{address}/{name}/")
            page.check_quiet(f"{name} without JavaScript")
            text["without"] = page.page.inner_text("main")
            assert "reloads itself" in page.page.inner_text("footer")
            if name == "middle":
                drive.shoot(page, "middle-without-script")
                with page.page.expect_navigation():
                    pass
        text["with"] = text["with"].replace("Copy\n", "")
        assert text["with"].split() == text["without"].split(), f"{name}: {text}"
    behaviour(drive, address)


def behaviour(drive, address):
    """The keyboard, the copy button, motion, and a connection that breaks."""
    with drive.watched() as page:
        page.open(f"{address}/middle/")
        check_keyboard(page.page)
    with drive.watched(permissions=["clipboard-read", "clipboard-write"]) as page:
        page.open(f"{address}/finished/")
        page.page.get_by_role("button", name="Copy").press("Enter")
        page.page.get_by_role("button", name="Copied").wait_for()
        copied = page.page.evaluate("() => navigator.clipboard.readText()")
        assert copied == "bitcoind -datadir=/home/ann/.bitcoin", copied
    with drive.watched(reduced_motion="reduce") as page:
        page.open(f"{address}/middle/")
        moving = "() => [...document.querySelectorAll('*')].filter((e) => " \
                 "getComputedStyle(e).transitionDuration !== '0s').length"
        assert page.page.evaluate(moving) == 0, "something moves"
    with drive.watched() as page:
        page.open(f"{address}/middle/")
        page.page.evaluate("() => { window.bar = document.querySelector('.bar .done'); }")
        Examples.updates.append({"title": "64 %", "parts": {
            "now": page.page.inner_html("[data-part=now]").replace("63.40%", "64.10%")}})
        page.page.wait_for_function("() => document.title === '64 %'")
        same = "() => window.bar === document.querySelector('.bar .done') && " \
               "window.bar.getAttribute('width')"
        assert page.page.evaluate(same) == "64.10%", "the bar was not updated in place"
        Examples.is_up = False
        page.page.get_by_text("No connection to Apus").wait_for()
        drive.shoot(page, "lost")
        Examples.is_up = True
        page.page.wait_for_function("() => !document.getElementById('lost').textContent")


def real_runs(drive, chain, work):
    """A sync from a peer as it begins, runs and ends; without peers; on a full disk; at rest."""
    due, ours = work / "due", work / "ours"
    subprocess.run([drive.apus, "sync", "--regtest", "--from", chain, "--datadir", due, "--quiet"],
                   check=True)
    port = free_port()
    source = [drive.apus, "serve", "--regtest", "--datadir", due, f"--bind=127.0.0.1:{port}",
              "--server=0", "--quiet"]
    with running(source):
        sync = ("sync", "--datadir", ours, f"--connect=127.0.0.1:{port}")
        with drive.serving(*sync, "--maxdownload=2") as (address, process), drive.watched() as page:
            page.open(address)
            page.page.locator(STAGE.format("syncing")).wait_for()
            page.page.locator("[data-part=peers] tbody tr").first.wait_for()
            page.page.locator(".bar").wait_for()
            page.check("a sync")
            drive.shoot(page, "real-middle")
            with drive.watched("narrow", java_script_enabled=False) as plain:
                plain.open(address)
                assert re.match(r"\d+(\.\d)?\s%", plain.page.inner_text("h1")), "no figures"
                plain.check_quiet("a sync, without JavaScript")
            page.page.locator(STAGE.format("finished")).wait_for()
            page.page.get_by_role("heading", name="The UTXO set is ready").wait_for()
            page.page.get_by_text("Apus has ended").wait_for()
            command = page.page.inner_text("#command")
            assert command == f"bitcoind -chain=regtest -datadir={ours}", command
            drive.shoot(page, "real-end")
            # The connection has gone with the program, which the browser notes as an error.
            assert process.wait(timeout=60) == 0
    with drive.serving("serve", "--datadir", ours) as (address, _), drive.watched() as page:
        page.open(address)
        page.page.locator(STAGE.format("serving")).wait_for()
        page.check("a directory at rest")
        drive.shoot(page, "real-rest")
    nowhere = ("sync", "--datadir", work / "stalled", f"--connect=127.0.0.1:{free_port()}")
    with drive.serving(*nowhere) as (address, _), drive.watched() as page:
        page.open(address)
        page.page.locator(STAGE.format("stalled")).wait_for()
        page.check("a sync without peers")
        drive.shoot(page, "real-stalled")


def passwords(drive, chain, work):
    """Without --pagepublic the page asks for the password of RPC."""
    datadir = work / "ours"
    with drive.serving("serve", "--datadir", datadir, public=False) as (address, _):
        for path in ("", "events", "page.js"):
            try:
                urllib.request.urlopen(address + path)
                raise AssertionError(f"/{path} is public")
            except urllib.error.HTTPError as error:
                assert error.code == 401 and "Basic" in error.headers["WWW-Authenticate"], error
        user, password = (datadir / "regtest/.cookie").read_text().split(":")
        credentials = {"username": user, "password": password}
        with drive.watched(http_credentials=credentials) as page:
            page.open(address)
            page.page.wait_for_function("() => document.getElementById('said').textContent")


def policy_of(drive, work):
    """Returns the Content-Security-Policy that the program sends."""
    nowhere = ("sync", "--datadir", work / "policy", f"--connect=127.0.0.1:{free_port()}")
    with drive.serving(*nowhere) as (address, _):
        headers = urllib.request.urlopen(address).headers
    assert headers["Content-Type"] == "text/html; charset=utf-8", headers
    return headers["Content-Security-Policy"]


def main():
    apus, testchain, examples, shots = (Path(path).resolve() for path in sys.argv[1:5])
    shots.mkdir(parents=True, exist_ok=True)
    browser = os.environ.get("CHROMIUM") or shutil.which("chromium")
    with tempfile.TemporaryDirectory() as work, sync_playwright() as playwright:
        work = Path(work)
        subprocess.run([testchain, "--blocks", "60", "--bytes", "40M", "--empty", "100",
                        "--output", work / "chain"], check=True, capture_output=True)
        options = {"executable_path": browser, "args": ["--no-sandbox"]}
        drive = Drive(playwright.chromium.launch(**options), apus, shots)
        example_pages(drive, policy_of(drive, work), examples)
        real_runs(drive, work / "chain", work)
        passwords(drive, work / "chain", work)
    print(f"the page holds; screenshots in {shots}")


main()
