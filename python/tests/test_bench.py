"""contrib/bench/mainnet.py on the blocks that come with Apus: its report, and when it makes none."""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "contrib" / "bench" / "mainnet.py"
BLOCKS = ROOT / "apus" / "data" / "mainnet-0-14131.dat"
MUHASH = "859e27f17a6cce9768b75dd0dbd969890157d29a152b0f4a0afa6c67cbcd5975"


def bench(work, apus, *more):
    command = [sys.executable, SCRIPT, f"--from={BLOCKS}", f"--work={work}", f"--apus={apus}", *more]
    return subprocess.run(command, capture_output=True, text=True)


def wrapped(tmp_path, program, script):
    """A program that does something before it is apus."""
    path = tmp_path / "apus"
    path.write_text(f"#!/bin/sh\n{script}\nexec {program} \"$@\"\n")
    path.chmod(0o755)
    return path


def report(work):
    return json.loads((work / "report.json").read_text())


def test_a_report_says_what_was_measured(tmp_path, program):
    bitcoind = os.environ.get("BITCOIND")
    more = [f"--bitcoind={bitcoind}"] if bitcoind else []
    work = tmp_path / "work"
    ran = bench(work, program, "--assumevalid=0", "--machine=a test", *more)
    assert ran.returncode == 0, ran.stderr
    made = report(work)
    due = ["sync", "order", "join", "hints", "swiftsync"] + (["core"] if bitcoind else [])
    assert list(made["steps"]) == due
    assert made["utxo_set"]["muhash"] == MUHASH and made["utxo_set"]["height"] == 14131
    assert made["utxo_set_of"] == sorted(step for step in due if step != "hints")
    for name in ["sync", "order", "join", "swiftsync"]:
        step = made["steps"][name]
        assert (step["blocks"], step["scripts_checked"], step["parts"]) == (14131, 865, 1)
        assert step["seconds"] > 0 and step["peak_memory_bytes"] > 1 << 20
        assert ("times_core" in step) == (bitcoind is not None and name != "sync")
    assert re.fullmatch("[0-9a-f]{64}", made["programs"]["apus"]["sha256"])
    text = (work / "report.md").read_text()
    for words in ["14,131 blocks", MUHASH, "a test", "## Arithmetic", "865 of 865 scripts"]:
        assert words in text, words
    # It can be published: neither page has a path of this machine.
    for page in [text, (work / "report.json").read_text()]:
        assert str(tmp_path) not in page and str(ROOT) not in page
    assert (work / "logs" / "apus-debug.log").stat().st_size > 0
    # What is done is not done again.
    again = bench(work, program, "--assumevalid=0", "--machine=a test", *more)
    assert again.returncode == 0 and "apus sync" not in again.stdout
    assert report(work)["steps"] == made["steps"]


def test_an_interrupted_step_goes_on_and_a_killed_one_begins_again(tmp_path, program):
    work = tmp_path / "work"
    for kind, words in [(signal.SIGINT, "interrupted"), (signal.SIGKILL, "")]:
        # Once, in the step of the method in order, the script gets the signal from the program.
        once = tmp_path / f"once-{kind}"
        act = f"""
case "$*" in *--method=order*)
    if mkdir {once} 2>/dev/null; then kill -{int(kind)} $PPID; exec sleep 0.3; fi
esac"""
        apus = wrapped(tmp_path, program, act)
        ran = bench(work, apus, "--steps=sync,order")
        if kind == signal.SIGINT:
            assert ran.returncode == 1 and words in ran.stderr, ran.stderr
        else:
            assert ran.returncode == -signal.SIGKILL
        assert once.exists() and not (work / "report.md").exists()
        # The wrapper is the program whose SHA-256 counts.
        act = act.replace(str(once), str(tmp_path))
        ran = bench(work, apus, "--steps=sync,order")
        assert ran.returncode == 0, ran.stderr
        made = report(work)["steps"]["order"]
        assert made["parts"] == (2 if kind == signal.SIGINT else 1)
        assert ("made again" in ran.stdout) == (kind == signal.SIGKILL)
        assert made["blocks"] == 14131
        work = tmp_path / "another"


@pytest.mark.parametrize(
    "script, words",
    [
        ('[ "$1 $2" = "txoutset info" ] && [ -e ORDER ] && echo \'{"height": 1, "bestblock": "00", '
         '"txouts": 1, "muhash": "00"}\' && exit 0\ncase "$*" in *--method=order*) touch ORDER ;; esac',
         "the UTXO sets differ"),
        ('case "$*" in *--method=order*) set -- $(echo "$*" | sed s/=order/=join/) ;; esac',
         "used the method join"),
        ('case "$*" in *--method=order*) echo no room >&2; exit 1 ;; esac', "no room"),
    ],
    ids=["another set", "another method", "an error"],
)
def test_what_was_not_measured_is_not_reported(tmp_path, program, script, words):
    work = tmp_path / "work"
    apus = wrapped(tmp_path, program, script.replace("ORDER", str(tmp_path / "order")))
    ran = bench(work, apus, "--steps=sync,order")
    assert ran.returncode == 1 and words in ran.stderr, ran.stderr
    assert not (work / "report.md").exists() and not (work / "report.json").exists()


def test_other_settings_and_other_directories_are_refused(tmp_path, program):
    work = tmp_path / "work"
    assert bench(work, program, "--steps=sync").returncode == 0
    for more, words in [(["--dbcache=100"], "dbcache"), (["--steps=order"], "need sync")]:
        ran = bench(work, program, "--steps=sync", *more)
        assert ran.returncode == 1 and words in ran.stderr, ran.stderr
    ran = bench(work, wrapped(tmp_path, program, ":"), "--steps=sync")
    assert ran.returncode == 1 and "another apus" in ran.stderr
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "report.md").write_text("mine")
    ran = bench(theirs, program, "--steps=sync")
    assert ran.returncode == 1 and "is not empty" in ran.stderr
    assert [path.name for path in theirs.iterdir()] == ["report.md"]
    assert (theirs / "report.md").read_text() == "mine"
