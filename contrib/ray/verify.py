#!/usr/bin/env python3
"""Verifies a job of `apus shard plan` on a Ray cluster, or on this machine alone if there is none.

    pip install target/wheels/apus_bitcoin-*.whl 'ray[data,default]>=2.40'
    apus shard plan --datadir /old/node --job job --assumevalid 0
    contrib/ray/verify.py job --datadir new

Exit status: 0 if all blocks are valid, 3 if one is refused.
"""

import argparse
import fractions
import sys

import apus.ray


def show(state):
    eta = "" if state.eta is None else f", {state.eta:.0f} s left"
    tasks = f"{state.done} of {state.count} tasks, {state.running} running"
    print(f"{state.stage}: {tasks}{eta}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("job", help="the directory of the job, which all machines see")
    parser.add_argument("--datadir", help="make a Bitcoin Core data directory here")
    parser.add_argument("--snapshot", help="write the UTXO set to this file")
    parser.add_argument("--program", default="apus", help="the program apus on all machines")
    parser.add_argument("--recheck", default="0", help="share of tasks to run twice, as 1/256")
    parser.add_argument("--max-tasks", type=int, help="most tasks that Ray is given at a time")
    args = vars(parser.parse_args())
    args["recheck"] = float(fractions.Fraction(args["recheck"]))
    try:
        verdict = apus.ray.verify(args.pop("job"), progress=show, **args)
    except apus.Error as error:
        sys.exit(f"Error: {error}")
    print(verdict)
    sys.exit(3 if verdict.refused else 0)


if __name__ == "__main__":
    main()
