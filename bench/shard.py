#!/usr/bin/env python3
"""What a join costs as tasks: `apus sync`, `apus shard run`, and Ray with 1 and 2 workers.

    bench/shard.py BLOCKS [--assumevalid HASH] [--tasks N] [--rounds N] [--program APUS]

BLOCKS is a file of apus-testchain. Each way ends with a data directory. CPU seconds are those of
`apus`; those of Ray's own processes, from when its workers are ready, are shown apart. Needs
the wheel, `pip install 'ray[data,default]'`, and disk space of twice the blocks.
"""

import argparse
import contextlib
import os
import pathlib
import shutil
import subprocess
import tempfile
import time

TICKS = os.sysconf("SC_CLK_TCK")


def seconds_of_tree(root):
    """CPU seconds of a process and its descendants, and of those of them that have ended."""
    parents, seconds = {}, {}
    for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = path.read_text().rpartition(")")[2].split()
            pid = int(path.parent.name)
            parents[pid] = int(fields[1])
            user, system, user_of_ended, system_of_ended = map(int, fields[11:15])
            seconds[pid] = (user + system) / TICKS, (user_of_ended + system_of_ended) / TICKS
    running = ended = 0
    for pid in parents:
        at = pid
        while at != root and at in parents:
            at = parents[at]
        if at == root:
            running, ended = running + seconds[pid][0], ended + seconds[pid][1]
    return running, ended


def seconds_of_machine():
    fields = list(map(int, pathlib.Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]))
    return (sum(fields) - fields[3] - fields[4]) / TICKS


class Bench:
    def __init__(self, args, place):
        self.args, self.place = args, place
        self.apus = str(pathlib.Path(args.program).resolve())
        self.blocks = str(pathlib.Path(args.blocks).resolve())

    def run(self, *args):
        subprocess.run([self.apus, *args], check=True, stdout=subprocess.DEVNULL)

    def sync(self, new, job):
        chain = [f"--from={self.blocks}", f"--assumevalid={self.args.assumevalid}", "--regtest"]
        self.run("sync", "--quiet", "--method=join", "--connect=0", f"--datadir={new}", *chain)

    def plan(self, job):
        chain = [f"--from={self.blocks}", f"--assumevalid={self.args.assumevalid}", "--regtest"]
        cuts = [f"--{name}={self.args.tasks}" for name in ["spans", "partitions", "buckets"]]
        self.run("shard", "plan", "--quiet", f"--job={job}", *cuts, *chain)

    def threads(self, new, job):
        self.plan(job)
        self.run("shard", "run", "--quiet", f"--job={job}")
        self.run("shard", "finish", "--quiet", f"--job={job}", f"--datadir={new}")

    def ray(self, new, job):
        import apus.ray

        self.plan(job)
        apus.ray.verify(job, datadir=new, program=self.apus)

    def measure(self, name, way):
        new, job = self.place / "new", self.place / "job"
        os.sync()
        began, machine = time.monotonic(), seconds_of_machine()
        before = seconds_of_tree(os.getpid())
        way(new, job)
        wall = time.monotonic() - began
        # Ray's processes still run, and those of `apus` have ended.
        ray, cpu = (now - then for now, then in zip(seconds_of_tree(os.getpid()), before))
        others = (seconds_of_machine() - machine - cpu - ray) / wall
        moved = sum(file.stat().st_size for file in job.iterdir()) if job.exists() else 0
        for path in [new, job]:
            shutil.rmtree(path, ignore_errors=True)
        figures = f"{wall:.1f} s | {cpu:.1f} s | {ray:.1f} s | {moved / 1e9:.2f} GB | {others:.1f}"
        print(f"| {name} | {figures} |", flush=True)
        return wall, cpu


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("blocks")
    parser.add_argument("--assumevalid", default="0")
    parser.add_argument("--tasks", type=int, default=8, help="tasks of each stage")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--program", default=shutil.which("apus") or "target/release/apus")
    args = parser.parse_args()
    # Ray's workers give way to other processes of a machine, which `apus sync` does not.
    os.environ["RAY_worker_niceness"] = "0"
    import ray

    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR")) as place:
        bench = Bench(args, pathlib.Path(place))
        print("| | wall | CPU of apus | CPU of Ray | the job | cores busy with other work |")
        print("|---|--:|--:|--:|--:|--:|")
        for _ in range(args.rounds):
            ways = {"`apus sync --method join`": bench.sync, "`apus shard run`": bench.threads}
            costs = {name: bench.measure(name, way) for name, way in ways.items()}
            for workers in [1, 2]:
                ray.init(num_cpus=workers, log_to_driver=False, logging_level="error")
                # Workers start before the clock does, as in a cluster that is there.
                ready = ray.remote(lambda: time.sleep(1))
                ray.get([ready.remote() for _ in range(workers)])
                name = f"Ray, {workers} worker{'s' * (workers > 1)}"
                costs[name] = bench.measure(name, bench.ray)
                ray.shutdown()
            wall, cpu = costs["`apus sync --method join`"]
            for name, (its_wall, its_cpu) in costs.items():
                print(f"{name}: {its_wall / wall:.2f} of the time, {its_cpu / cpu:.2f} of the CPU")


if __name__ == "__main__":
    main()
