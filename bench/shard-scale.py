#!/usr/bin/env python3
"""On paper: mainnet as a job of `apus shard`, on clusters of several sizes. Prints a table.

    bench/shard-scale.py [--scripts ENGINE] [--spans N] [--partitions N] [--buckets N]

Tasks take what was measured for a generated chain (docs/bench/shard-scale.md), scaled to mainnet's
bytes and inputs, and are started in order of their numbers, each where a core is free first. Each
machine of 16 cores moves bytes at the speed of its network, which its tasks share; the storage is
as fast as all machines together.
"""

import argparse
import dataclasses
import heapq
import random

# Mainnet, with the coins of late 2025.
BLOCK_BYTES, INPUTS, HEADERS = 770e9, 3.2e9, 900e3
CORES_OF_MACHINE = 16
# USD an hour: AWS c7a.4xlarge (16 cores of Zen 4), on demand in us-east-1.
PRICE_OF_MACHINE = 0.82112
# The speed of a core varies, and so does the work in blocks of the same size.
SPREAD = 0.25
# Seconds of CPU to start a task: for each header, and for each result whose index it reads, with
# one piece for each part.
SECONDS_OF_HEADER, SECONDS_OF_RESULT, SECONDS_OF_PIECE = 0.20 / 269e3, 15e-6, 16e-9
PIECE_BYTES = 12
# Seconds until a network file system answers, and how many answers a task awaits at a time.
SECONDS_OF_ANSWER, ANSWERS_AT_A_TIME = 0.5e-3, 4
# Seconds of CPU for an input's script: AVX-512, AVX2 or Bitcoin Core's engine (docs/budget.md).
SCRIPTS = {"AVX-512": 3.0e-6, "AVX2": 9.5e-6, "core": 30e-6}


@dataclasses.dataclass
class Stage:
    name: str
    # Bytes of blocks for each task, as `apus shard plan` cuts them.
    block_bytes: float
    # Seconds of CPU for a GB of blocks, scripts aside.
    seconds: float
    # Bytes read and written for each byte of blocks.
    read: float
    written: float

    def count(self):
        return max(int(BLOCK_BYTES / self.block_bytes), 1)


def stages(args):
    mib = 1 << 20
    spans, partitions, buckets = (
        BLOCK_BYTES / count if count else each * mib
        for count, each in [(args.spans, 768), (args.partitions, 768), (args.buckets, 512)]
    )
    return [
        Stage("read", spans, 2.9, 1.0, 0.29),
        Stage("match", partitions, 1.1, 0.29, 0.18),
        Stage("check", buckets, 0.8, 1.1, 0.155),
    ]


def results_seen(stage, all_stages):
    """The results whose index a task reads, and the pieces in them."""
    spans, partitions, buckets = (stage.count() for stage in all_stages)
    of_span, of_partition = 2 * partitions + buckets, buckets + 1
    # While spans are read, half of the results are there.
    read = spans / 2 if stage.name == "read" else spans
    matched = partitions if stage.name == "check" else 0
    return read + matched, read * of_span + matched * of_partition


def tasks(stage, all_stages, script_seconds):
    """Seconds of CPU of a task, and the bytes and answers that it waits for."""
    cpu = stage.seconds * stage.block_bytes / 1e9
    if stage.name == "check":
        cpu += script_seconds * INPUTS * stage.block_bytes / BLOCK_BYTES
    results, pieces = results_seen(stage, all_stages)
    started = SECONDS_OF_HEADER * HEADERS + SECONDS_OF_RESULT * results + SECONDS_OF_PIECE * pieces
    moved = (stage.read + stage.written) * stage.block_bytes + PIECE_BYTES * pieces
    # Indices are read one after the other, and then, some at a time, a part of each result.
    parts = 0 if stage.name == "read" else results
    answers = SECONDS_OF_ANSWER * (results + parts / ANSWERS_AT_A_TIME)
    return cpu, started, moved, answers


def speed_of_core(cores, gbits):
    """Bytes a second for each core: tasks share the network of their machine."""
    return gbits * 1e9 / 8 / min(cores, CORES_OF_MACHINE)


def makespan(stage, all_stages, cores, gbits, script_seconds, rng):
    """Seconds until all tasks of a stage are done, and the seconds of CPU that they take."""
    cpu, started, moved, answers = tasks(stage, all_stages, script_seconds)
    speed = speed_of_core(cores, gbits)
    free = [0.0] * cores
    all_cpu = 0
    for _ in range(stage.count()):
        factor = rng.uniform(1 - SPREAD, 1 + SPREAD)
        # Bytes are read ahead of use, so the slower of the two counts.
        seconds = started + answers + max(cpu * factor, moved / speed)
        all_cpu += started + cpu * factor
        heapq.heapreplace(free, free[0] + seconds)
    return max(free), all_cpu


def bottleneck(of_stages):
    """What takes most of the time: of the longest stage, its largest part."""
    stage, parts = max(of_stages, key=lambda item: sum(item[1].values()))
    return f"{max(parts, key=parts.get)} of {stage}"


def run(args, cores, gbits, script_seconds):
    rng, all_stages = random.Random(1), stages(args)
    seconds, cpu, of_stages = [], 0, []
    for stage in all_stages:
        wall, of_stage = makespan(stage, all_stages, cores, gbits, script_seconds, rng)
        task_cpu, started, moved, answers = tasks(stage, all_stages, script_seconds)
        network = moved / speed_of_core(cores, gbits)
        work = {"CPU": task_cpu, "network": network, "starts": started, "answers": answers}
        of_stages.append((stage.name, {name: each * stage.count() for name, each in work.items()}))
        seconds.append(wall)
        cpu += of_stage
    return seconds, cpu, bottleneck(of_stages)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--scripts", choices=SCRIPTS, default="AVX-512", help="what checks them")
    for name in ["spans", "partitions", "buckets"]:
        parser.add_argument(f"--{name}", type=int, help="default: as apus shard plan does")
    args = parser.parse_args()
    print(
        "| cores | network of 16 | read | match | check | all | core hours | USD | most time for |"
    )
    print("|--:|--:|--:|--:|--:|--:|--:|--:|---|")
    for cores in [1, 4, 16, 64, 256]:
        for gbits in [10, 25]:
            seconds, cpu, most = run(args, cores, gbits, SCRIPTS[args.scripts])
            minutes = [f"{second / 60:.1f}" for second in [*seconds, sum(seconds)]]
            price = sum(seconds) / 3600 * cores / CORES_OF_MACHINE * PRICE_OF_MACHINE
            figures = [cores, f"{gbits} Gbit/s", *minutes, f"{cpu / 3600:.1f}", f"{price:.2f}"]
            print("| " + " | ".join(map(str, [*figures, most])) + " |")


if __name__ == "__main__":
    main()
