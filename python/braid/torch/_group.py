"""The ranks of a process group, as a job: who meets whom, and for how long.

The members of a group meet through its own store, below a prefix of Braid's, when one of them is
first asked for something. Nobody else takes part. A job lasts as long as its group; a failure ends
it for good, and a new group may be made.
"""
from __future__ import annotations

import datetime
import socket
import uuid
import weakref
from typing import Any, Dict, List, Tuple

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d

from braid._errors import InputError, PeerError, UnsupportedError
from braid._job import Job, join

c10d: Any = distributed_c10d  # with names that it does not export

# What operations may hold on a rank, for each kind of device.
DEFAULT_BYTES = 4 << 30


def name_of(group: Any) -> str:
    """The name by which operators know a group: of a ProcessGroup, a DeviceMesh of one dimension,
    a name, or None for the default group."""
    if group is None:
        group = dist.group.WORLD
        if group is None:
            raise InputError("expected torch.distributed.init_process_group() to have been called")
    if isinstance(group, str):
        return group
    if not isinstance(group, dist.ProcessGroup):
        group = group.get_group()
    return str(group.group_name)


def resolve(group_name: str) -> Any:
    """The ProcessGroup of a name. RuntimeError or ValueError if there is none."""
    return c10d._resolve_process_group(group_name)


def place_of(group_name: str) -> Tuple[int, int]:
    """This rank in a group, and how many there are."""
    group = resolve(group_name)
    return int(group.rank()), int(group.size())


def _host() -> str:
    """What ranks of one host have in common."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            boot = file.read().strip()
    except OSError:
        boot = ""
    return f"{socket.gethostname()} {boot}"


class Members:
    """A group, as far as this rank needs it; does not keep it alive."""

    def __init__(self, group: Any, device: torch.device) -> None:
        self.name = str(group.group_name)
        self.rank, self.size = int(group.rank()), int(group.size())
        self.timeout = _timeout_of(group, device)
        self.store = c10d.PrefixStore(f"braid/{device.type}", c10d._get_process_group_store(group))

    def meet(self) -> str:
        """The name of a new job, the same on all members. Blocks until all have come."""
        turn = (self.store.add("arrivals", 1) - 1) // self.size
        if self.rank == 0:
            self.store.set(f"{turn}/job", f"torch {uuid.uuid4()}")
        self.store.set(f"{turn}/host {self.rank}", _host())
        hosts = self._all([f"{turn}/host {rank}" for rank in range(self.size)])
        for rank, host in enumerate(hosts):
            if host != hosts[0]:
                raise UnsupportedError(
                    f"group '{self.name}': expected all ranks on one host, got rank 0 on "
                    f"{hosts[0].split()[0]} and rank {rank} on {host.split()[0]}")
        return self._all([f"{turn}/job"])[0]

    def _all(self, keys: List[str]) -> List[str]:
        try:
            self.store.wait(keys, datetime.timedelta(seconds=self.timeout))
            return [self.store.get(key).decode() for key in keys]
        except RuntimeError as error:
            raise PeerError(f"group '{self.name}', rank {self.rank}: expected the other ranks to "
                            f"come within {self.timeout:g} s: {error}") from None


def _timeout_of(group: Any, device: torch.device) -> float:
    """Seconds, as the group was told."""
    try:
        timeout = group._get_backend(device).options._timeout
    except (AttributeError, RuntimeError):  # of a backend that keeps it to itself
        timeout = c10d.default_pg_timeout
    return float(timeout.total_seconds())


def _join(members: Members, device: torch.device) -> Job:
    on_gpu = device.type == "cuda"
    return join("cuda" if on_gpu else "cpu", timeout=members.timeout,
                device=device.index if on_gpu else None, name=members.meet(), rank=members.rank,
                ranks=members.size)


class GroupJob:
    """The job of a group for one kind of device, once its members have met."""

    def __init__(self, group: Any, device: torch.device) -> None:
        if device.type not in ("cpu", "cuda"):
            raise UnsupportedError(f"expected tensors on CPUs or CUDA GPUs, got {device}")
        self.group, self.device = str(group.group_name), device
        self.job = _join(Members(group, device), device)
        self.on_gpu = device.type == "cuda"
        self.operations: Dict[Any, Any] = {}
        self.sites: Dict[Any, Any] = {}  # the operation of a call that was seen
        self.retired: Dict[Any, Any] = {}  # calls of operations that are gone
        self.choices: List[Tuple[Any, str]] = []  # layouts that were measured, and what was best

    @property
    def rank(self) -> int:
        return self.job.rank

    @property
    def ranks(self) -> int:
        return self.job.ranks


_jobs: "weakref.WeakKeyDictionary[Any, Dict[int, GroupJob]]" = weakref.WeakKeyDictionary()


def job_of(group_name: str, tensor: torch.Tensor) -> GroupJob:
    """The job of a group for the device of a tensor. The first call of a group is collective, and
    blocks until all have come.

    InputError if there is no such group (any more).
    """
    try:
        group = resolve(group_name)
    except Exception as error:
        raise InputError(f"expected a process group, got '{group_name}': {error}") from None
    jobs = _jobs.get(group)
    if jobs is None:
        jobs = _jobs[group] = {}
    device = tensor.get_device() if tensor.is_cuda else -1
    job = jobs.get(device)
    return job if job is not None else _first(jobs, group, tensor.device, device)


def _first(jobs: Dict[int, GroupJob], group: Any, device: torch.device, number: int) -> GroupJob:
    for other in jobs.values():
        if other.device.type == device.type:
            raise InputError(f"group '{other.group}': expected tensors on {other.device}, as in "
                             f"the first call, got {device}")
    if device.type == "cuda" and torch.cuda.is_current_stream_capturing():
        raise InputError(f"group '{group.group_name}': expected a call, or braid.torch.prepare(), "
                         "before the stream is captured")
    job = jobs[number] = GroupJob(group, device)
    return job


def all_jobs() -> List[GroupJob]:
    """Of groups that live."""
    return [job for jobs in list(_jobs.values()) for job in jobs.values()]
