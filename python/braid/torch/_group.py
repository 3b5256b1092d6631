"""The jobs of process groups.

At the first call of an operator, the members of the group connect through the group's store, under
a key prefix. Ranks outside the group do not participate. A job lives as long as its group. A
failure ends the job permanently, but the user can then create a new group.
"""
from __future__ import annotations

import copy
import itertools
import socket
import threading
import time
import uuid
import weakref
from typing import Any, Callable, Dict, List, Optional, Tuple

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d

from braid._errors import Error, InputError, PeerError, UnsupportedError
from braid._job import Job, join

c10d: Any = distributed_c10d  # as Any, to access private names

LEAST_PAUSE, MOST_PAUSE = 0.0005, 0.02  # seconds between two polls of a store


def name_of(group: Any) -> str:
    """Returns the name by which the operators identify `group`: a ProcessGroup, a one-dimensional
    DeviceMesh, a name, or None for the default group."""
    if isinstance(group, str):
        return group
    if group is None:
        group = dist.group.WORLD
        if group is None:
            raise InputError("torch.distributed.init_process_group() must be called first")
    if group is dist.GroupMember.NON_GROUP_MEMBER:
        raise InputError("this rank is not a member of the group")
    if not isinstance(group, dist.ProcessGroup):
        if not hasattr(group, "get_group") or getattr(group, "ndim", 1) != 1:
            raise InputError("expected a ProcessGroup, a one-dimensional DeviceMesh, a name or "
                             f"None, got {group!r}")
        group = group.get_group()
    return str(group.group_name)


def resolve(group_name: str) -> Any:
    """Returns the ProcessGroup with this name. Raises InputError if none exists."""
    try:
        return c10d._resolve_process_group(group_name)
    except Exception as error:
        raise InputError(f"cannot find the process group '{group_name}': {error}") from None


def place_of(group_name: str) -> Tuple[int, int]:
    """Returns this process's rank in the group, and the number of ranks in the group."""
    group = resolve(group_name)
    return int(group.rank()), int(group.size())


# Dynamo evaluates place_of() while tracing, and treats its result as a constant.
# torch.compiler.assume_constant_result() does the same, but first imports the compiler, which takes
# longer than importing the rest of this package.
setattr(place_of, "_dynamo_marked_constant", True)


def _host() -> str:
    """Returns a string that identifies this host, and differs between hosts with the same name."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            boot = file.read().strip()
    except OSError:
        boot = ""
    return f"{socket.gethostname()} {boot}"


def _timeout_of(group: Any, device: torch.device) -> float:
    """Returns the group's timeout in seconds."""
    try:
        timeout = group._get_backend(device).options._timeout
    except (AttributeError, RuntimeError):  # the backend does not expose its timeout
        timeout = c10d.default_pg_timeout
    return float(timeout.total_seconds())


class GroupJob:
    """The job of a group for one kind of device.

    lock: must be held to use the job, because the job is not thread-safe, and autograd runs
        backward passes on other threads.
    error: the failure that ended or prevented the job, unless the library itself reports it.
    job: the job; set if `has_met` is True.
    """

    job: Job
    has_met = False

    def __init__(self, group: Any, device: torch.device) -> None:
        self.group, self.device = str(group.group_name), device
        self.rank, self.ranks = int(group.rank()), int(group.size())
        self.lock = threading.RLock()
        self.error: Optional[Exception] = None
        self.on_gpu = device.type == "cuda"
        self.side: Any = None  # the stream of transfers that run beside GEMMs; see _transfer.py
        self.operations: Dict[Any, Any] = {}
        self.turns = itertools.count()  # the sequence numbers of calls
        self.sites: Dict[Any, Any] = {}  # cached calls; see _operations._run()
        self.counts: Dict[Any, Any] = {}  # Counts, keyed by operator, shape and schedule
        # If set (by prepare()), calls pass their layout to this function instead of running.
        self.instead_of_run: Optional[Callable[[Any], None]] = None

    def meet(self, group: Any) -> None:
        """Joins the job. The first call is collective and blocks. The caller must hold `lock`."""
        if self.has_met:
            return
        self.raise_error()
        if self.on_gpu and torch.cuda.is_current_stream_capturing():
            raise InputError(f"group '{self.group}': the ranks cannot connect during graph "
                             "capture: call an operator or braid.torch.prepare() before capturing")
        timeout = _timeout_of(group, self.device)
        store = c10d.PrefixStore(f"braid/{self.device.type}", c10d._get_process_group_store(group))
        try:
            self.job = join("cuda" if self.on_gpu else "cpu", timeout=timeout,
                            device=self.device.index if self.on_gpu else None,
                            name=self._agree_on_name(store, timeout), rank=self.rank,
                            ranks=self.ranks)
            self.has_met = True
        except Error as error:  # permanent, because a retry would wait for ranks that have left
            self.error = copy.copy(error)
            raise
        except KeyboardInterrupt:  # permanent, because this rank is already counted as arrived
            self.error = PeerError(f"group '{self.group}', rank {self.rank}: the first operator "
                                   "call was interrupted")
            raise

    def _agree_on_name(self, store: Any, timeout: float) -> str:
        """Returns a new job name, the same on all ranks. Blocks until all ranks have arrived."""
        turn = (store.add("arrivals", 1) - 1) // self.ranks
        if self.rank == 0:
            store.set(f"{turn}/job", f"torch {uuid.uuid4()}")
        store.set(f"{turn}/host {self.rank}", _host())
        keys = [f"{turn}/host {rank}" for rank in range(self.ranks)]
        try:
            self._wait_for(store, keys, timeout)
            hosts: List[str] = [store.get(key).decode() for key in keys]
            job: str = store.get(f"{turn}/job").decode()
        except Error:
            raise
        except RuntimeError as error:
            raise PeerError(f"group '{self.group}', rank {self.rank}: the group's store does not "
                            f"respond: {error}") from None
        for rank, host in enumerate(hosts):
            if host != hosts[0]:
                raise UnsupportedError(
                    f"group '{self.group}': expected all ranks on one host, got rank 0 on "
                    f"{hosts[0].split()[0]} and rank {rank} on {host.split()[0]}")
        return job

    def _wait_for(self, store: Any, keys: List[str], timeout: float) -> None:
        """Blocks until all ranks have set their keys. Polls, because all groups in a process share
        one store client: waiting in the client would block the other groups' calls, on which ranks
        of this group may depend."""
        deadline, pause = time.monotonic() + timeout, LEAST_PAUSE
        while not store.check(keys):
            if time.monotonic() >= deadline:
                absent = [rank for rank, key in enumerate(keys) if not store.check([key])]
                raise PeerError(f"group '{self.group}', rank {self.rank}: expected the other ranks "
                                f"to make the call within {timeout:g} s, but these ranks did not: "
                                + ", ".join(map(str, absent)))
            time.sleep(pause)
            pause = min(2 * pause, MOST_PAUSE)

    def raise_error(self) -> None:
        """Raises the error that ended the job, if any. Raises a copy, because a raised exception
        keeps alive the stack frames that it has passed through, and their tensors."""
        if self.error is not None:
            raise copy.copy(self.error)


_jobs: "weakref.WeakKeyDictionary[Any, Dict[int, GroupJob]]" = weakref.WeakKeyDictionary()


def job_of(group_name: str, tensor: torch.Tensor) -> GroupJob:
    """Returns the job of a group for the device of `tensor`. The first call for a group is
    collective and blocks until all ranks have arrived. Thread-safe.

    Raises InputError if the group does not exist or has been destroyed.
    """
    group = resolve(group_name)
    jobs = _jobs.setdefault(group, {})
    number = tensor.get_device() if tensor.is_cuda else -1
    job = jobs.get(number)
    if job is not None and job.has_met:
        return job
    device = tensor.device
    if device.type not in ("cpu", "cuda"):
        raise UnsupportedError(f"expected tensors on CPUs or CUDA GPUs, got {device}")
    for other in list(jobs.values()):
        if other.device.type == device.type and other.device != device:
            raise InputError(f"group '{other.group}': expected tensors on {other.device}, as in "
                             f"the first call, got {device}")
    job = jobs.setdefault(number, GroupJob(group, device))
    with job.lock:
        job.meet(group)
    return job


def all_jobs() -> List[GroupJob]:
    """Returns the jobs of all live groups whose ranks have connected."""
    return [job for jobs in list(_jobs.values()) for job in list(jobs.values()) if job.has_met]
