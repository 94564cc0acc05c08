"""A join on many machines with Ray: ``pip install 'ray[data,default]>=2.40'``.

``apus shard plan`` makes a job; :func:`verify` runs its tasks on the machines of a Ray cluster. Ray
decides where and when a task runs, and runs it again if its machine is lost; what is left to do
follows from the files of the job, so :func:`verify` may itself be stopped and called again.

All machines need Ray, the program ``apus``, the blocks, and the directory of the job.
"""

from __future__ import annotations

import json
import logging
import os
import random
import subprocess
import time
import warnings
from collections import deque
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Callable, Dict, List, Optional, Sequence, Set, Tuple, Union

from ._errors import Error, RefusedWarning
from ._ray_tables import error_in, export, import_ray, read

__all__ = ["Progress", "Refused", "TaskFailed", "Verified", "export", "read", "verify"]

StrPath = Union[str, "os.PathLike[str]"]

_LOG = logging.getLogger("apus")
_OPTIONS = {"read": "--span", "match": "--partition", "check": "--bucket"}
# The exit status of `apus shard finish` if a block is refused, and of any command that is stopped.
_REFUSED, _INTERRUPTED = 3, 130
# Settings of glibc, with which a task keeps the memory that it frees: it will need as much again,
# and new memory costs a tenth of its CPU.
_MALLOC = {"MALLOC_MMAP_THRESHOLD_": f"{32 << 20}", "MALLOC_TRIM_THRESHOLD_": f"{256 << 20}"}
# Machines see new files of others a little later on some network file systems.
_ROUNDS_MAX = 60


@dataclass(frozen=True)
class Progress:
    """The state of a stage at one moment."""

    stage: str
    """The stage: read, match, check or finish."""
    done: int
    """Tasks that are done, of those that had no result when the stage began."""
    count: int
    """All tasks that had no result when the stage began."""
    running: int
    """Tasks that Ray runs or is about to run; a task that runs twice counts twice."""
    seconds: float
    """Seconds since the stage began."""
    eta: Optional[float]
    """Seconds to the end of the stage, if the other tasks are as fast; None before the first."""


@dataclass(frozen=True)
class Refused:
    """The block that ends the chain, because it breaks a rule."""

    block: Optional[str]
    """The hash of the block."""
    reason: str
    """Bitcoin Core's reject reason, with details."""


@dataclass(frozen=True)
class Verified:
    """The verdict: the blocks up to ``height`` are valid. Fields are those of ``apus shard finish
    --json``."""

    height: int
    bestblock: str
    txouts: int
    """The number of coins in the UTXO set."""
    total_amount_satoshi: Optional[int]
    blocks: int
    transactions: int
    inputs: int
    scripts: int
    """The number of scripts that were checked."""
    refused: Optional[Refused]
    rechecked: int
    """Tasks that ran twice, and wrote the same bytes."""


class TaskFailed(Error):
    """A task: it has failed, and would fail again; or two runs of it differ. What other tasks have
    done remains: the same call goes on from there."""

    task: str = ""
    """The task, such as "read 17"."""
    node: Optional[str] = None
    """Ray's name of the machine, if it is known."""


def verify(
    job: StrPath,
    *,
    datadir: Optional[StrPath] = None,
    snapshot: Optional[StrPath] = None,
    program: StrPath = "apus",
    num_cpus: float = 1,
    memory: Optional[int] = None,
    max_retries: int = 3,
    max_tasks: Optional[int] = None,
    recheck: float = 0.0,
    progress: Optional[Callable[[Progress], object]] = None,
) -> Verified:
    """Runs the tasks of a job that have no result yet on a Ray cluster, and then ``apus shard
    finish`` on this machine, which writes a data directory, a snapshot, or the verdict alone.

    The cluster is the one that this process is connected to (``ray.init``), else the one of this
    machine or of ``RAY_ADDRESS``, else a new one on this machine alone.

    ``program`` is the path of ``apus`` on all machines. ``num_cpus``, ``memory`` (bytes; twice the
    job's dbcache by default) and ``max_retries`` are those of a Ray task. ``max_tasks`` limits the
    tasks that Ray is given at a time: by default there are two for each CPU of the cluster, as it
    grows. ``recheck`` is the share of tasks that run a second time, on another machine if there is
    one: both runs must have the same result, byte by byte. ``progress`` is called about once a
    second.

    Raises :class:`TaskFailed` if a task fails. A block that breaks a rule ends the chain below it,
    with a :class:`~apus.RefusedWarning`.

    >>> verify("/shared/job", datadir="new", recheck=1 / 256, progress=print)  # doctest: +SKIP
    """
    if not 0 <= recheck <= 1:
        raise ValueError(f"recheck must be a share from 0 to 1, not {recheck}")
    if datadir is not None and snapshot is not None:
        raise ValueError("datadir and snapshot exclude each other")
    place = os.fsdecode(job)
    shard = _Shard(os.fsdecode(program), place if "://" in place else os.path.abspath(place))
    todo = shard.todo()
    resources = {"num_cpus": num_cpus, "max_retries": max_retries}
    resources["memory"] = (2 * todo.dbcache << 20) if memory is None else memory
    cluster = _Cluster(shard, resources, max_tasks, recheck, progress)
    same = 0
    while todo.stage != "finish":
        cluster.run(todo)
        before, todo = todo, shard.todo()
        same = same + 1 if todo == before else 0
        if same == _ROUNDS_MAX:
            raise TaskFailed(f"{todo.stage}: results are not seen here", task=todo.stage)
        if same:
            time.sleep(1)
    _report(progress, Progress("finish", 0, 1, 1, 0, None))
    verdict = shard.finish(datadir, snapshot)
    refused = verdict.pop("refused", None)
    verdict.setdefault("total_amount_satoshi", None)
    if refused:
        what = f"refused: {refused['block']}: {refused['reason']}"
        warnings.warn(what, RefusedWarning, stacklevel=2)
    refusal = Refused(**refused) if refused else None
    return Verified(**verdict, refused=refusal, rechecked=cluster.rechecked)


@dataclass(frozen=True)
class _Todo:
    """What ``apus shard todo --json`` says."""

    stage: str
    numbers: Tuple[int, ...]
    end_height: int
    dbcache: int


class _Shard:
    """The commands ``apus shard`` of one job."""

    def __init__(self, program: str, job: str) -> None:
        self._program = program
        self._job = job

    def task(self, stage: str, number: int, *more: str) -> List[str]:
        return self._command(stage, _OPTIONS[stage], str(number), *more)

    def todo(self) -> _Todo:
        todo = json.loads(self._run("todo", "--json"))
        return _Todo(todo["stage"], tuple(todo["numbers"]), todo["end_height"], todo["dbcache"])

    def finish(self, datadir: Optional[StrPath], snapshot: Optional[StrPath]) -> Dict[str, Any]:
        args = [] if datadir is None else [f"--datadir={os.fsdecode(datadir)}"]
        args += [] if snapshot is None else [f"--snapshot={os.fsdecode(snapshot)}"]
        verdict: Dict[str, Any] = json.loads(self._run("finish", "--json", *args))
        return verdict

    def _command(self, name: str, *args: str) -> List[str]:
        return [self._program, "shard", name, f"--job={self._job}", *args]

    def _run(self, name: str, *args: str) -> str:
        command, environment = self._command(name, *args), {**os.environ, **_MALLOC}
        ran = subprocess.run(command, capture_output=True, text=True, env=environment)
        if ran.returncode not in (0, _REFUSED):
            raise Error(f"apus shard {name}: {error_in(ran.stderr) or ran.returncode}")
        return ran.stdout


@dataclass(frozen=True)
class _Task:
    number: int
    is_second: bool
    """Whether it is compared with the result of a first run."""


class _Cluster:
    """Gives tasks to Ray."""

    def __init__(
        self,
        shard: _Shard,
        resources: Dict[str, Any],
        max_tasks: Optional[int],
        recheck: float,
        progress: Optional[Callable[[Progress], object]],
    ) -> None:
        self._ray = import_ray()
        if not self._ray.is_initialized():
            self._ray.init(log_to_driver=False)
        self._remote = _remote(self._ray)
        self._resources = resources
        self._shard = shard
        self._max_tasks = max_tasks
        self._recheck = recheck
        self._progress = progress
        self.rechecked = 0

    def run(self, todo: _Todo) -> None:
        """Runs the tasks of a stage, until all are done or one has failed."""
        stage, began = todo.stage, time.monotonic()
        queue, count, done = deque(todo.numbers), len(todo.numbers), 0
        running: Dict[Any, _Task] = {}
        failure: Optional[TaskFailed] = None
        try:
            while running or (queue and failure is None):
                while queue and failure is None and len(running) < self._limit():
                    task = _Task(queue.popleft(), False)
                    running[self._start(stage, task, None)] = task
                for ref in self._ray.wait(list(running), timeout=1)[0]:
                    task = running.pop(ref)
                    try:
                        node = self._result(stage, task, ref)
                    except TaskFailed as error:
                        if task.is_second:
                            raise
                        failure = failure or error
                        continue
                    done += not task.is_second
                    self.rechecked += task.is_second
                    if not task.is_second and random.random() < self._recheck:
                        task = _Task(task.number, True)
                        running[self._start(stage, task, node)] = task
                seconds = time.monotonic() - began
                eta = seconds / done * (count - done) if done else None
                _report(self._progress, Progress(stage, done, count, len(running), seconds, eta))
        except BaseException:
            for ref in running:
                self._ray.cancel(ref)
            raise
        # When a block is refused, other tasks of the stage fail, since earlier ones come first.
        if failure is not None and self._shard.todo().end_height == todo.end_height:
            raise failure
        _LOG.info("%s: %d tasks in %.1f s", stage, done, time.monotonic() - began)

    def _limit(self) -> float:
        """Returns the most tasks that Ray is given at a time."""
        if self._max_tasks is not None:
            return max(self._max_tasks, 1)
        cpus: float = self._ray.cluster_resources().get("CPU", 0)
        # More than there are CPUs, so that none is idle and a cluster that grows by itself does so.
        return max(2 * cpus / (self._resources["num_cpus"] or 1), 16)

    def _start(self, stage: str, task: _Task, first: Optional[str]) -> Any:
        """Gives Ray a task, for a machine other than ``first``. Returns Ray's reference to it."""
        name = f"apus {stage} {task.number}" + (" --compare" if task.is_second else "")
        args = self._shard.task(stage, task.number, *["--compare"] * task.is_second)
        where = "SPREAD" if first is None else self._other_than(first)
        remote = self._remote.options(name=name, scheduling_strategy=where, **self._resources)
        return remote.remote(args)

    def _other_than(self, first: str) -> Any:
        nodes: Set[str] = {
            node["NodeID"]
            for node in self._ray.nodes()
            if node["Alive"] and node["Resources"].get("CPU", 0) >= self._resources["num_cpus"]
        }
        others = sorted(nodes - {first})
        if not others:
            return "DEFAULT"
        strategies = import_module("ray.util.scheduling_strategies")
        return strategies.NodeAffinitySchedulingStrategy(random.choice(others), soft=True)

    def _result(self, stage: str, task: _Task, ref: Any) -> str:
        """Returns the machine that a task has run on."""
        name = f"{stage} {task.number}"
        try:
            status, text, node = self._ray.get(ref)
        except self._ray.exceptions.RayError as error:
            raise TaskFailed(f"{name}: {error}", task=name) from None
        if status != 0:
            raise TaskFailed(f"{name}: {error_in(text) or status}", task=name, node=node)
        return str(node)


def _report(progress: Optional[Callable[[Progress], object]], state: Progress) -> None:
    if progress is not None:
        progress(state)


def _remote(ray: Any) -> Any:
    """Returns the function that Ray runs. It is made here, and imports what it uses, since Ray
    sends such a function to machines that do not have this package."""
    interrupted, malloc = _INTERRUPTED, {**_MALLOC, "MALLOC_ARENA_MAX": "1"}

    def run(command: Sequence[str]) -> Tuple[int, str, str]:
        import ctypes
        import os
        import signal
        import subprocess

        parent, prctl = os.getpid(), getattr(ctypes.CDLL(None), "prctl", None)

        def die_with_parent() -> None:
            # Where the worker of Ray is killed, and cannot end the program.
            if prctl is not None:
                prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
                if os.getppid() != parent:
                    os._exit(interrupted)

        pipe, environment = subprocess.PIPE, {**os.environ, **malloc}
        with subprocess.Popen(
            command,
            stdout=pipe,
            stderr=pipe,
            text=True,
            env=environment,
            preexec_fn=die_with_parent,
        ) as child:
            try:
                while True:
                    # Python sees that Ray cancels the task between two of these calls.
                    try:
                        _, text = child.communicate(timeout=1)
                        break
                    except subprocess.TimeoutExpired:
                        pass
            except BaseException:
                child.kill()
                child.wait()
                raise
        if child.returncode < 0 or child.returncode == interrupted:
            # Something has killed it, such as a lack of memory. Ray runs it again.
            raise ChildProcessError(f"{' '.join(command)} was killed ({child.returncode})")
        return child.returncode, text.strip()[-2000:], ray.get_runtime_context().get_node_id()

    return ray.remote(retry_exceptions=[ChildProcessError])(run)
