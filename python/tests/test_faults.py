"""What goes wrong: a clear exception each time, and nothing lost."""

import copy
import errno
import hashlib
import os
import pathlib
import pickle
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap

import pytest

import apus


def run(script, *args, **options):
    """Starts a script of Python with arguments."""
    command = [sys.executable, "-c", textwrap.dedent(script), *map(str, args)]
    # From a directory where no sources of the package are.
    options.setdefault("cwd", tempfile.gettempdir())
    return subprocess.Popen(command, text=True, stdout=subprocess.PIPE, **options)


def test_wrong_paths_are_named(tmp_path):
    nothing = tmp_path / "nothing"
    for work in [
        lambda: apus.Chain(nothing),
        lambda: apus.status(datadir=nothing),
        lambda: apus.create_hints(tmp_path / "hints", datadir=nothing),
        lambda: apus.sync(nothing, datadir=tmp_path / "new"),
        lambda: apus.prove(nothing, datadir=tmp_path),
    ]:
        with pytest.raises(apus.Error, match="nothing"):
            work()
    with pytest.raises(OSError) as error:
        apus.sync(nothing, datadir=tmp_path / "new")
    assert error.value.path == str(nothing)


def test_exceptions_are_sent_to_other_processes_whole(tmp_path):
    with pytest.raises(apus.StoreError) as missing:
        apus.sync(tmp_path / "nothing", datadir=tmp_path / "new")
    assert (missing.value.errno, missing.value.filename) == (errno.ENOENT, missing.value.path)
    coin = apus.CoinDifference("ab", 1, 2, "spent", "a coin")
    errors = [
        missing.value,
        apus.DiskFull("full", path="/x", offset=7, errno=errno.ENOSPC),
        apus.Locked("locked", path="/x"),
        apus.RuleError("invalid", block="00", reason="bad-cb-amount", path=None, offset=None),
        apus.HintsError("wrong", path="/h", differences=[("ab", 1, 2, "spent", "a coin")]),
        apus.InputError("wrong"),
    ]
    names = "path offset block reason errno filename differences more_differences".split()
    for error in errors:
        for again in [pickle.loads(pickle.dumps(error)), copy.copy(error)]:
            assert type(again) is type(error) and str(again) == str(error)
            for name in names:
                assert getattr(again, name, None) == getattr(error, name, None), (error, name)
    assert pickle.loads(pickle.dumps(errors[4])).differences == (coin,)


def test_a_directory_of_another_network_or_kind_is_refused(tmp_path, regtest, regtest_blocks):
    with pytest.raises(apus.Error, match="--chain=?.?regtest"):
        apus.sync(regtest_blocks, datadir=tmp_path)
    with pytest.raises(apus.Error):
        apus.Chain(tmp_path)
    with pytest.raises(apus.Error):
        apus.Chain(regtest)


def test_a_running_bitcoind_is_told(regtest, regtest_blocks):
    # bitcoind locks the file .lock with fcntl, and LevelDB its own.
    holder = run(
        """
        import fcntl, sys
        lock = open(sys.argv[1], "r+")
        fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        print("held", flush=True)
        sys.stdin.read()
        """,
        regtest / "regtest" / ".lock",
        stdin=subprocess.PIPE,
    )
    try:
        assert holder.stdout.readline() == "held\n"
        for work in [
            lambda: apus.Chain(regtest, chain="regtest"),
            lambda: apus.sync(regtest_blocks, datadir=regtest, chain="regtest"),
            lambda: apus.reindex(datadir=regtest, chain="regtest"),
            lambda: apus.status(datadir=regtest, chain="regtest"),
        ]:
            with pytest.raises(apus.Locked, match="a lock on this directory") as error:
                work()
            assert error.value.path.startswith(str(regtest))
            assert not isinstance(error.value, apus.StoreError)
    finally:
        holder.communicate()
    assert apus.status(datadir=regtest, chain="regtest").height == 206


def test_readers_share_a_directory_that_no_sync_may_change(regtest, regtest_blocks):
    first = apus.Chain(regtest, chain="regtest")
    with apus.Chain(regtest, chain="regtest") as second:
        assert second[5].hash == first[5].hash
        with pytest.raises(apus.Locked):
            apus.sync(regtest_blocks, datadir=regtest, chain="regtest")
    first.close()
    with pytest.raises(ValueError, match="closed"):
        first[5]
    assert apus.sync(regtest_blocks, datadir=regtest, chain="regtest").height == 206


def test_a_pruned_directory_says_what_it_lacks(pruned):
    status = apus.status(datadir=pruned, chain="regtest")
    lowest = status.blocks_from
    assert status.pruned and lowest > 100
    with apus.Chain(pruned, chain="regtest") as chain:
        assert chain[lowest].height == lowest and chain[-1].height == status.height
        for work in [lambda: chain[5], lambda: chain.undo(5), chain.outputs, chain.inputs]:
            with pytest.raises(apus.InputError, match="pruned"):
                work()
        chain.outputs(lowest)
        chain.coins()
    with pytest.raises(apus.InputError, match="pruned"):
        apus.create_hints(pruned / "hints", datadir=pruned, chain="regtest")


def test_a_damaged_block_file_is_named_with_its_offset(tmp_path, regtest):
    damaged = tmp_path / "damaged"
    shutil.copytree(regtest, damaged)
    blocks = damaged / "regtest" / "blocks" / "blk00000.dat"
    with open(blocks, "r+b") as file:
        file.seek(3000)
        file.write(bytes(400))
    with apus.Chain(damaged, chain="regtest") as chain:
        with pytest.raises(apus.StoreError) as error:
            list(chain)
        assert error.value.path == str(blocks) and error.value.offset > 0
        pyarrow = pytest.importorskip("pyarrow")
        with pytest.raises(Exception, match="blk00000.dat"):
            pyarrow.table(chain.outputs())
    apus.sync(regtest, datadir=damaged, chain="regtest", connect=0)


def test_an_invalid_block_is_refused_and_the_rest_synced(tmp_path, regtest_blocks):
    framed = bytearray(regtest_blocks.read_bytes())
    # The last byte of the last block is of its coinbase's lock time.
    framed[-1] ^= 1
    broken = tmp_path / "broken.dat"
    broken.write_bytes(framed)
    with pytest.warns(apus.RefusedWarning, match="bad-txnmrklroot"):
        summary = apus.sync(broken, datadir=tmp_path / "new", chain="regtest")
    assert summary.height == 205 and "bad-txnmrklroot" in summary.refused[0].reason
    assert summary.refused[0].file == str(broken)


def sha256d(data):
    return hashlib.sha256(hashlib.sha256(data).digest()).digest()


def with_greedy_coinbase(block):
    """Returns a block of regtest whose coinbase takes a satoshi too much, mined again."""
    coinbase, *others = block.transactions
    raw = bytearray(coinbase.raw)
    at = raw.index(coinbase.outputs[0].value.to_bytes(8, "little"))
    raw[at : at + 8] = (coinbase.outputs[0].value + 1).to_bytes(8, "little")
    # Without marker, flag and the witness: one item of 32 bytes.
    txid = sha256d(raw[:4] + raw[6:-38] + raw[-4:])
    (other,) = others
    root = sha256d(txid + bytes.fromhex(other.txid)[::-1])
    header, nonce = bytearray(block.raw[:36] + root + block.raw[68:80]), 0
    while sha256d(header)[31] >= 0x80 or nonce == 0:
        nonce += 1
        header[76:] = nonce.to_bytes(4, "little")
    return bytes(header) + block.raw[80 : 80 + 1] + bytes(raw) + other.raw


def test_a_block_that_breaks_a_rule_is_blamed(tmp_path, regtest, regtest_blocks):
    with apus.Chain(regtest, chain="regtest") as chain:
        good, bad = chain[206], with_greedy_coinbase(chain[206])
    framed = regtest_blocks.read_bytes()
    assert good.raw in framed and len(bad) == len(good.raw)
    broken = tmp_path / "broken.dat"
    broken.write_bytes(framed.replace(good.raw, bad))
    with pytest.warns(apus.RefusedWarning, match="bad-cb-amount"):
        summary = apus.sync(broken, datadir=tmp_path / "new", chain="regtest")
    assert summary.height == 205 and summary.refused[0].block is not None
    hints = tmp_path / "regtest.hints"
    apus.create_hints(hints, datadir=regtest, chain="regtest")
    with pytest.raises(apus.RuleError, match="bad-cb-amount") as error:
        apus.prove(hints, broken, datadir=regtest, chain="regtest", full=True)
    assert error.value.block == summary.refused[0].block
    assert error.value.reason.startswith("bad-cb-amount")


def test_wrong_hints_are_blamed_and_nothing_is_committed(tmp_path, regtest, regtest_blocks):
    hints = tmp_path / "regtest.hints"
    apus.create_hints(hints, datadir=regtest, chain="regtest", height=200)
    wrong = bytearray(hints.read_bytes())
    wrong[-1] ^= 0x55
    hints.write_bytes(wrong)
    new = tmp_path / "new"
    with pytest.raises(apus.HintsError) as error:
        apus.sync(regtest_blocks, datadir=new, chain="regtest", hints=hints)
    assert error.value.path == str(hints)
    with pytest.raises(apus.InputError, match="there is no such directory"):
        apus.status(datadir=new, chain="regtest")
    assert apus.sync(regtest_blocks, datadir=new, chain="regtest").height == 206


@pytest.mark.skipif(shutil.which("unshare") is None, reason="needs mounts of its own")
def test_a_full_disk_is_told_and_the_work_goes_on(tmp_path, mainnet_blocks):
    (tmp_path / "disk").mkdir()
    script = f"""
        import subprocess, apus
        try:
            apus.sync({str(mainnet_blocks)!r}, datadir="disk", minimumchainwork="0")
        except apus.DiskFull as error:
            print("full:", error)
        subprocess.run("mount -o remount,size=200m disk".split(), check=True)
        print(apus.sync({str(mainnet_blocks)!r}, datadir="disk", minimumchainwork="0").coins)
    """
    mount = 'mount -t tmpfs -o size=2m none disk && exec "$@"'
    shell = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", mount, "sh"]
    if subprocess.run([*shell, "true"], cwd=tmp_path, capture_output=True).returncode != 0:
        pytest.skip("mounts are not allowed here")
    python = [sys.executable, "-c", textwrap.dedent(script)]
    done = subprocess.run([*shell, *python], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    told, coins = done.stdout.splitlines()
    assert told.startswith("full: ") and "disk" in told and coins == "13416"


INTERRUPTED = """
    import sys, apus
    told = False

    def wait(progress):
        global told
        if not told:
            told = True
            print("begun", flush=True)
            sys.stdin.readline()

    try:
        apus.sync(sys.argv[1], datadir=sys.argv[2], progress=wait, minimumchainwork="0",
                  assumevalid=0, method=sys.argv[3])
    except KeyboardInterrupt:
        print("interrupted")
"""


@pytest.mark.parametrize("method", ["order", "join"])
def test_ctrl_c_saves_what_is_done(tmp_path, mainnet_blocks, method):
    child = run(INTERRUPTED, mainnet_blocks, tmp_path, method, stdin=subprocess.PIPE)
    assert child.stdout.readline() == "begun\n"
    child.send_signal(signal.SIGINT)
    out, _ = child.communicate("\n")
    assert out == "interrupted\n" and child.returncode == 0
    apus.status(datadir=tmp_path)
    summary = apus.sync(
        mainnet_blocks, datadir=tmp_path, minimumchainwork="0", assumevalid=0, method=method
    )
    assert (summary.height, summary.coins) == (14131, 13416)


def test_ctrl_c_ends_the_reading_of_a_table(mainnet):
    child = run(
        """
        import _thread, sys, threading, apus, pyarrow
        chain = apus.Chain(sys.argv[1])
        begun = threading.Event()
        threading.Thread(target=lambda: begun.wait() and _thread.interrupt_main()).start()
        try:
            begun.set()
            while True:
                pyarrow.table(chain.inputs())
        except KeyboardInterrupt:
            print("interrupted", len(pyarrow.table(chain.blocks())))
        """,
        mainnet,
    )
    assert child.communicate()[0] == "interrupted 14132\n" and child.returncode == 0


def test_a_signal_that_comes_while_python_waits_is_seen(tmp_path, mainnet_blocks):
    # The handler of a timer runs when the waiting thread looks for signals.
    class Stop(Exception):
        pass

    def handler(number, frame):
        raise Stop

    before = signal.signal(signal.SIGALRM, handler)
    begun = []

    def begin(progress):
        if not begun:
            begun.append(progress)
            os.kill(os.getpid(), signal.SIGALRM)

    try:
        with pytest.raises(Stop):
            apus.sync(mainnet_blocks, datadir=tmp_path, minimumchainwork="0", progress=begin)
    finally:
        signal.signal(signal.SIGALRM, before)
    assert apus.sync(mainnet_blocks, datadir=tmp_path, minimumchainwork="0").height == 14131


def test_other_threads_of_python_run_meanwhile(tmp_path, mainnet_blocks):
    import threading

    counted, done = [0], threading.Event()

    def count():
        while not done.is_set():
            counted[0] += 1

    thread = threading.Thread(target=count)
    seen = []
    thread.start()
    apus.sync(
        mainnet_blocks,
        datadir=tmp_path,
        minimumchainwork="0",
        progress=lambda progress: seen.append(counted[0]),
    )
    done.set()
    thread.join()
    assert len(set(seen)) == len(seen) >= 1


def test_paths_of_bytes_that_are_no_text_work(tmp_path, regtest_blocks):
    odd = pathlib.Path(os.fsdecode(os.fsencode(tmp_path) + b"/odd-\xff"))
    assert apus.sync(regtest_blocks, datadir=odd, chain="regtest").height == 206
    assert len(apus.Chain(odd, chain="regtest")) == 207
