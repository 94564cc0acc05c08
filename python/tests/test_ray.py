"""A join on a Ray cluster of four nodes, which are killed while they run tasks."""

import hashlib
import json
import os
import pathlib
import select
import shutil
import struct
import subprocess

import pytest

ray = pytest.importorskip("ray", reason="apus.ray needs Ray: pip install 'ray[data]>=2.40'")
cluster_utils = pytest.importorskip("ray.cluster_utils")

import apus  # noqa: E402
import apus.ray  # noqa: E402

CUTS = {"spans": 5, "partitions": 6, "buckets": 5}
TASKS = sum(CUTS.values())
MAGIC = bytes.fromhex("fabfb5da")


class Nodes:
    """A cluster of four nodes with one CPU each, and a fifth that runs no task."""

    def __init__(self):
        self.cluster = cluster_utils.Cluster(
            initialize_head=True, head_node_args={"num_cpus": 0, "object_store_memory": 80 << 20}
        )
        self.nodes = [self.add() for _ in range(4)]

    def add(self):
        return self.cluster.add_node(
            num_cpus=1, memory=2 << 30, object_store_memory=80 << 20, wait=False
        )

    def kill_that_of(self, worker):
        """Kills the node of a worker, as a machine that loses power, and adds a new one."""
        raylet = int(pathlib.Path(f"/proc/{worker}/stat").read_text().rpartition(")")[2].split()[1])
        for node in self.nodes:
            if node.all_processes["raylet"][0].process.pid == raylet:
                self.nodes.remove(node)
                self.cluster.remove_node(node, allow_graceful=False)
                self.nodes.append(self.add())
                return
        raise AssertionError(f"process {worker} is of none of the nodes")


@pytest.fixture(scope="module")
def nodes():
    os.environ["RAY_AUTH_MODE"] = "disabled"
    nodes = Nodes()
    ray.init(address=nodes.cluster.address, log_to_driver=False)
    nodes.cluster.wait_for_nodes()
    yield nodes
    ray.shutdown()
    nodes.cluster.shutdown()


@pytest.fixture(scope="module")
def chain(tmp_path_factory, program):
    """A file of blocks, the last twenty of which hold only a coinbase."""
    make = program.parent / "apus-testchain"
    if not make.exists():
        pytest.skip(f"{make} is not built")
    path = tmp_path_factory.mktemp("chain") / "blocks.dat"
    options = ["--blocks=40", "--bytes=8M", "--empty=20", "--keys=50", "--varied"]
    subprocess.run([make, *options, "-o", path], check=True, capture_output=True)
    return path


def planned(program, chain, job):
    cuts = [f"--{stage}={count}" for stage, count in CUTS.items()]
    plan = [program, "shard", "plan", "--regtest", f"--job={job}", f"--from={chain}", *cuts]
    more = ["--assumevalid=0", "--dbcache=16", "--quiet"]
    subprocess.run([*plan, *more], check=True, capture_output=True)
    return job


def synced(program, chain, datadir):
    options = ["--method=join", "--assumevalid=0", "--connect=0", "--quiet"]
    sync = [program, "sync", "--regtest", f"--datadir={datadir}", f"--from={chain}", *options]
    subprocess.run(sync, capture_output=True)
    return utxo_set(program, datadir)


def utxo_set(program, datadir):
    info = [program, "txoutset", "info", "--hash=muhash", "--regtest", f"--datadir={datadir}"]
    found = json.loads(subprocess.run(info, check=True, capture_output=True).stdout)
    del found["disk_size"]
    return found


def wrapped(path, script):
    """A program that runs `script` first, which knows the command of `apus shard` as $2."""
    path.write_text(f"#!/bin/sh\n{script}")
    path.chmod(0o755)
    return path


def wait_for_end(pid):
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        select.select([descriptor], [], [])
    finally:
        os.close(descriptor)


def test_a_node_is_killed_in_each_stage(tmp_path, nodes, program, chain):
    held = tmp_path / "held"
    held.mkdir()
    os.mkfifo(held / "never")
    # The first task of each stage never ends: it waits for a line that nothing writes.
    script = f"""cd {held}
    case $2 in read|match|check)
        if mkdir $2 2>/dev/null; then
            echo $PPID $$ > $2/new && mv $2/new $2/pids
            read line < never
        fi
    esac
    exec {program} "$@"
    """
    slow, killed, stages = wrapped(tmp_path / "slow", script), {}, []

    def kill(state):
        pids = held / state.stage / "pids"
        stages.append(state.stage)
        assert 0 <= state.done <= state.count and (state.eta is None or state.eta >= 0)
        if state.stage not in killed and pids.exists():
            worker, killed[state.stage] = map(int, pids.read_text().split())
            nodes.kill_that_of(worker)

    job, new = planned(program, chain, tmp_path / "job"), tmp_path / "new"
    verdict = apus.ray.verify(job, datadir=new, program=slow, progress=kill)
    assert list(killed) == ["read", "match", "check"] and stages[-1] == "finish"
    assert verdict.refused is None and verdict.scripts == verdict.inputs > 0
    due = synced(program, chain, tmp_path / "synced")
    assert utxo_set(program, new) == due
    assert (verdict.height, verdict.bestblock) == (due["height"], due["bestblock"])
    assert verdict.txouts == due["txouts"]
    for pid in killed.values():
        wait_for_end(pid)


def test_what_a_killed_task_has_not_done_is_done_again(tmp_path, nodes, program, chain):
    script = f'mkdir {tmp_path}/$2 2>/dev/null && kill -9 $$\nexec {program} "$@"\n'
    job = planned(program, chain, tmp_path / "job")
    # Neither `todo` nor `finish`, which run here, is killed.
    for name in ["todo", "finish"]:
        (tmp_path / name).mkdir()
    verdict = apus.ray.verify(
        job,
        program=wrapped(tmp_path / "killed", script),
        snapshot=tmp_path / "utxo.dat",
        max_tasks=2,
    )
    assert (tmp_path / "check").exists()
    assert (tmp_path / "utxo.dat").stat().st_size > 0 and verdict.refused is None


def test_each_task_runs_twice_and_a_forged_result_is_named(tmp_path, nodes, program, chain):
    job = planned(program, chain, tmp_path / "job")
    assert apus.ray.verify(job, program=program, recheck=1.0).rechecked == TASKS
    assert apus.ray.verify(job, program=program, recheck=1.0).rechecked == 0
    script = f"""{program} "$@" || exit
    case "$*" in *--compare) exit 0 ;; esac
    if [ $2 = match ]; then
        for result in {tmp_path}/forged/match-00003-????????; do
            printf '\\377' | dd of=$result bs=1 seek=12 conv=notrunc 2>/dev/null
        done
    fi
    """
    liar = wrapped(tmp_path / "liar", script)
    job = planned(program, chain, tmp_path / "forged")
    with pytest.raises(apus.ray.TaskFailed, match="match-00003.* at byte 12") as raised:
        apus.ray.verify(job, program=liar, recheck=1.0)
    assert raised.value.task == "match 3" and raised.value.node


def test_a_task_that_fails_is_named(tmp_path, nodes, program, chain):
    blocks = shutil.copy(chain, tmp_path / "blocks.dat")
    job = planned(program, blocks, tmp_path / "job")
    os.rename(blocks, tmp_path / "elsewhere")
    with pytest.raises(apus.ray.TaskFailed, match="read .*blocks.dat"):
        apus.ray.verify(job, program=program)
    os.rename(tmp_path / "elsewhere", blocks)
    assert apus.ray.verify(job, program=program).refused is None
    with pytest.raises(apus.Error, match="holds no job"):
        apus.ray.verify(tmp_path / "nothing", program=program)
    for wrong in [{"recheck": 2}, {"datadir": "a", "snapshot": "b"}]:
        with pytest.raises(ValueError):
            apus.ray.verify(job, program=program, **wrong)


def test_an_exception_of_the_callback_ends_the_tasks(tmp_path, nodes, program, chain):
    os.mkfifo(tmp_path / "never")
    script = f"""cd {tmp_path}
    if [ $2 = read ]; then
        echo $$ >$5.new && mv $5.new $5.pid
        read line < never
    fi
    exec {program} "$@"
    """
    job = planned(program, chain, tmp_path / "job")
    pids = []

    def stop(state):
        pids.extend(int(path.read_text()) for path in tmp_path.glob("*.pid"))
        if pids:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        apus.ray.verify(job, program=wrapped(tmp_path / "stuck", script), progress=stop)
    for pid in pids:
        wait_for_end(pid)
    assert apus.ray.verify(job, program=program).refused is None


def test_stages_run_again_below_a_block_that_is_refused(tmp_path, nodes, program, chain):
    blocks = blocks_of(chain)
    bad = len(blocks) - 10
    (tmp_path / "bad.dat").write_bytes(framed(with_greedy_miner(blocks, bad)))
    job, new = planned(program, tmp_path / "bad.dat", tmp_path / "job"), tmp_path / "new"
    stages = []
    with pytest.warns(apus.RefusedWarning, match="bad-cb-amount"):
        verdict = apus.ray.verify(
            job, datadir=new, program=program, progress=lambda state: stages.append(state.stage)
        )
    assert list(dict.fromkeys(stages)) == ["read", "match", "check", "finish"]
    assert stages.index("check") < len(stages) - stages[::-1].index("read")
    assert "bad-cb-amount" in verdict.refused.reason
    due = synced(program, tmp_path / "bad.dat", tmp_path / "synced")
    assert utxo_set(program, new) == due and verdict.height == due["height"] == bad - 1


def blocks_of(path):
    """The blocks of a file without genesis, in order of height, which is their index."""
    data, at, blocks = path.read_bytes(), 0, []
    while at < len(data):
        assert data[at : at + 4] == MAGIC
        (size,) = struct.unpack_from("<I", data, at + 4)
        blocks.append(data[at + 8 : at + 8 + size])
        at += 8 + size
    return blocks


def framed(blocks):
    return b"".join(MAGIC + struct.pack("<I", len(block)) + block for block in blocks)


def double_sha256(data):
    return hashlib.sha256(hashlib.sha256(data).digest()).digest()


def with_greedy_miner(blocks, height):
    """The same chain, but a block with nothing but a coinbase pays one bitcoin more."""
    block = blocks[height]
    assert block[80] == 1, "the block has only a coinbase"
    coinbase = block[81:]
    is_segwit = coinbase[4] == 0
    # Version, marker and flag, number of inputs, outpoint, script, sequence, number of outputs.
    at = (6 if is_segwit else 4) + 1 + 36
    at += 1 + coinbase[at] + 4 + 1
    (value,) = struct.unpack_from("<q", coinbase, at)
    coinbase = coinbase[:at] + struct.pack("<q", value + 10**8) + coinbase[at + 8 :]
    base = coinbase
    if is_segwit:
        # One witness of 32 bytes: its count, its length, and the bytes, before the lock time.
        base = coinbase[:4] + coinbase[6:-38] + coinbase[-4:]
    changed = blocks[:height] + [block[:36] + double_sha256(base) + block[68:81] + coinbase]
    for block in [changed.pop(), *blocks[height + 1 :]]:
        previous = double_sha256(changed[-1][:80])
        changed.append(mined(block[:4] + previous + block[36:]))
    return changed


def mined(block):
    """The block with a nonce for the proof of work of regtest: the first bit of the hash is 0."""
    for nonce in range(1 << 32):
        header = block[:76] + struct.pack("<I", nonce)
        if double_sha256(header)[31] < 0x7F:
            return header + block[80:]
