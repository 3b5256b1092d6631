#!/usr/bin/env python3
"""doctor_gpu_test.py BRAID [--only WORD]: tests broken settings on a machine with GPUs.

Each case breaks one setting through the environment, limits or namespaces, never by changing the
device, and expects `braid doctor --json` to report the problem. Needs only the built command. A
case is skipped if the kernel does not allow the change or the machine already has this problem.
Ends with `N passed, N failed, N skipped`; exits with 77 if there is no GPU.
"""
import argparse
import glob
import json
import os
import resource
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
EXAMPLE = os.path.join(ROOT, "examples", "ag_matmul.braid")
SKIPPED = 77
SECONDS = 120


class Skipped(Exception):
    """The reason why a case cannot run here."""


class Wrong(Exception):
    """An unexpected result."""


class Setting:
    """A broken setting: environment variables, a function to call in the process before it executes
    the command, and a prefix for the command."""

    def __init__(self, variables=None, before=None, inside=()):
        self.variables, self.before, self.inside = variables or {}, before, list(inside)

    def run(self, command, variables=None):
        environment = {**os.environ, **(variables or {}), **self.variables}
        return subprocess.run(self.inside + command, env=environment, text=True, timeout=SECONDS,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False,
                              preexec_fn=self.before)

    def expect_possible(self):
        try:
            done = self.run(["true"])
        except (OSError, subprocess.SubprocessError) as error:
            raise Skipped(f"cannot be set here: {error}") from None
        if done.returncode != 0:
            raise Skipped(f"cannot be set here: {done.stderr.strip()}")


def limit(which, amount):
    return lambda: resource.setrlimit(which, (amount, amount))


class Doctor:
    def __init__(self, braid):
        self.braid = braid
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        self.gpus = len(visible.split(",") if visible else glob.glob("/dev/nvidia[0-9]*"))
        self.ranks = 2
        self.base = self.findings(Setting())

    def share(self):
        """Lets ranks share a GPU if there are too few, because the cases only test failures."""
        return {} if self.gpus >= self.ranks else {"BRAID_SHARE_GPUS": "on"}

    def report(self, setting, variables=None):
        done = setting.run([self.braid, "doctor", "--json", "--ranks", str(self.ranks)],
                           {**self.share(), **(variables or {})})
        return self.understood(done.stdout, done.stderr, done.returncode)

    @staticmethod
    def understood(output, errors, code):
        try:
            report = json.loads(output)
        except ValueError:
            raise Wrong(f"expected JSON from braid doctor, got exit status {code}: "
                        f"{errors.strip()}") from None
        if report["exit_code"] != code:
            raise Wrong(f"expected exit status {report['exit_code']}, got {code}")
        return report

    def findings(self, setting, variables=None):
        lines = self.report(setting, variables)["lines"]
        return {f"{line['check']}.{line['line']}": line for line in lines}

    def expect_line(self, setting, name):
        """Fails unless the doctor reports the finding with this setting, and only then."""
        if name in self.base:
            raise Skipped(f"{name} is so without it, too")
        found = self.findings(setting)
        if name not in found:
            raise Wrong(f"expected {name}, got {', '.join(found)}")

    def run(self, setting, backend="cuda"):
        command = [self.braid, "run", EXAMPLE, "--ranks", str(self.ranks), "--backend", backend,
                   "--schedule", "pairwise", "--timeout-ms", "20000", "--flight-records", "none"]
        return setting.run(command, self.share())


def broken(name, finds, setting, fails=False, backend="cuda"):
    """Returns a case in which the doctor must report `finds`, and runs must fail if `fails`."""
    def test(doctor):
        setting.expect_possible()
        doctor.expect_line(setting, finds)
        done = doctor.run(setting, backend)
        if not fails and done.returncode != 0:
            raise Wrong(f"expected a run that works, got {done.returncode}: {done.stderr}")
        if fails and done.returncode not in (4, 5, 6):
            raise Wrong(f"expected a run that fails, got {done.returncode}: {done.stderr}")
    return name, test


def broken_cublaslt(folder):
    """Creates empty library files that the loader finds before the real libraries."""
    for major in range(11, 16):
        with open(os.path.join(folder, f"libcublasLt.so.{major}"), "wb"):
            pass
    return Setting({"LD_LIBRARY_PATH": os.pathsep.join(
        filter(None, [folder, os.environ.get("LD_LIBRARY_PATH")]))})


def in_name_space(*flags):
    return Setting(inside=["unshare", *flags])


def cases(folder):
    small_shm = 'mount -t tmpfs -o size=1m tmpfs /dev/shm && exec "$@"'
    new_pids = in_name_space("--pid", "--fork", "--mount-proc")
    new_ipc = in_name_space("--ipc")
    return [
        broken("no visible device", "cuda.hidden", Setting({"CUDA_VISIBLE_DEVICES": ""}),
               fails=True),
        broken("an unknown device", "cuda.unknown",
               Setting({"CUDA_VISIBLE_DEVICES": "GPU-00000000-dead-beef-0000-000000000000"}),
               fails=True),
        broken("launches that block", "launch-blocking.on", Setting({"CUDA_LAUNCH_BLOCKING": "1"}),
               fails=True),
        broken("an NCCL that is none", "nccl.wrong", Setting({"BRAID_NCCL_LIBRARY": EXAMPLE}),
               fails=True, backend="nccl"),
        broken("a cuBLASLt that is none", "cublaslt.missing", broken_cublaslt(folder), fails=True),
        broken("few open files", "open-files.few",
               Setting(before=limit(resource.RLIMIT_NOFILE, 40)), fails=True),
        broken("few addresses", "address-space.little-for-gpus",
               Setting(before=limit(resource.RLIMIT_AS, 4 << 30)), fails=True),
        broken("no NVML", "nvml.missing", Setting({"BRAID_NVML_LIBRARY": "/nowhere/libnvml.so"})),
        broken("no cache", "cache.none", Setting({"BRAID_CACHE_DIR": "none"})),
        broken("one hardware queue", "hardware-queues.few",
               Setting({"CUDA_DEVICE_MAX_CONNECTIONS": "1"})),
        broken("NCCL without peers", "nccl-variables.set", Setting({"NCCL_P2P_DISABLE": "1"})),
        broken("a PID namespace", "pid-namespace.own", new_pids),
        broken("an IPC namespace", "ipc-namespace.own", new_ipc),
        broken("a small /dev/shm", "shared-memory.full",
               Setting(inside=["unshare", "--mount", "sh", "-c", small_shm, "-"])),
        broken("no GPU for each rank", "job-gpus.few",
               Setting({"CUDA_VISIBLE_DEVICES": "0", "BRAID_SHARE_GPUS": "off"}), fails=True),
    ]


def outcome(test, doctor):
    try:
        test(doctor)
    except Skipped as reason:
        return "skipped", str(reason)
    except (Wrong, subprocess.TimeoutExpired) as reason:
        return "failed", str(reason)
    return "passed", ""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("braid")
    parser.add_argument("--only", default="", help="cases whose names have this in them")
    arguments = parser.parse_args()
    if not glob.glob("/dev/nvidia[0-9]*"):
        print("skipped: no GPU found")
        sys.exit(SKIPPED)
    doctor = Doctor(os.path.abspath(arguments.braid))
    counts = dict.fromkeys(("passed", "failed", "skipped"), 0)
    with tempfile.TemporaryDirectory() as folder:
        for name, test in cases(folder):
            if arguments.only not in name:
                continue
            word, why = outcome(test, doctor)
            counts[word] += 1
            print(f"{word:8} {name}{': ' + why if why else ''}", flush=True)
    print(", ".join(f"{count} {word}" for word, count in counts.items()))
    sys.exit(1 if counts["failed"] else 0)


if __name__ == "__main__":
    main()
