"""contrib/slurm/verify.sh, with programs in the place of Slurm's that run what they are given."""

import os
import pathlib
import subprocess

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "contrib" / "slurm" / "verify.sh"
SBATCH = """\
for argument; do
    case $argument in
    --array=*) last=${argument##*-} ;;
    --wrap=*) task=${argument#--wrap=} ;;
    --dependency=afterany:7) shift; exec sh "$@" ;;
    esac
done
for SLURM_ARRAY_TASK_ID in $(seq 0 $last); do
    export SLURM_ARRAY_TASK_ID
    echo "$SLURM_ARRAY_TASK_ID of $TASKS" >>log
    sh -c "$task" >>log
done
echo 7
"""


def slurm(place, job, program, *more):
    """Runs the script as Slurm would. Returns its standard output and error."""
    programs = place / "programs"
    programs.mkdir(exist_ok=True)
    commands = {"sbatch": SBATCH, "scontrol": f"echo '   Command={SCRIPT}'", "apus": program}
    for name, script in commands.items():
        (programs / name).write_text(f"#!/bin/sh\n{script}\n")
        (programs / name).chmod(0o755)
    names = {"PATH": f"{programs}:{os.environ['PATH']}", "JOB": str(job), "SLURM_JOB_ID": "1"}
    environment = {**os.environ, **names}
    return subprocess.run(
        ["sh", SCRIPT, *more], cwd=place, env=environment, capture_output=True, text=True
    )


def planned(program, blocks, job):
    cuts = ["--spans=3", "--partitions=12", "--buckets=2", "--assumevalid=0", "--quiet"]
    plan = [program, "shard", "plan", f"--job={job}", f"--from={blocks}", *cuts]
    subprocess.run([*plan, "--regtest"], check=True, capture_output=True)
    return job


def test_arrays_of_tasks_end_with_the_verdict(tmp_path, program, regtest_blocks):
    job, new = planned(program, regtest_blocks, tmp_path / "a job"), tmp_path / "new"
    # The first run of a task is killed, so that it runs again, in an array of its own.
    killed = f'[ "$2 $6" = "match 10" ] && mkdir {tmp_path}/once 2>/dev/null && kill -9 $$'
    ran = slurm(tmp_path, job, f'{killed}\nexec {program} "$@"', f"--datadir={new}")
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.startswith("The blocks up to height 206,"), ran.stdout
    assert (new / "regtest" / "chainstate").is_dir()
    log = (tmp_path / "log").read_text()
    assert all(f"match {number}: done" in log for number in range(12))
    assert "0 of 10\n" in log and "0 of 0 1 2\n" in log


def test_tasks_that_always_fail_end_it(tmp_path, program, regtest_blocks):
    job = planned(program, regtest_blocks, tmp_path / "job")
    ran = slurm(tmp_path, job, f'[ $2 = match ] && exit 1\nexec {program} "$@"')
    assert ran.returncode == 1
    assert "no task of the stage match succeeds" in ran.stderr, ran.stderr
