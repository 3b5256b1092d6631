"""Runs a script in a virtual environment with some packages.

usage: in_venv.py FOLDER PACKAGE... [--no-deps PACKAGE...] -- SCRIPT ARGUMENT...

Packages behind --no-deps are installed without the packages on which they depend.
If the environment does not exist, creates it with packages from PyPI, and keeps it. Concurrent
tests wait until it has been created. If it cannot be created, prints the reason and exits with 77.
Otherwise, exits with the exit code of the script.
"""
import fcntl
import os
import shutil
import subprocess
import sys

SKIPPED = 77


def run(*command):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          check=False)


def make(folder, packages):
    """Creates the environment. Returns the reason if that is impossible, or ""."""
    wanted = "\n".join([sys.version, *packages])
    stamp = os.path.join(folder, "packages.txt")
    if os.path.exists(stamp):
        with open(stamp, encoding="utf-8") as file:
            if file.read() == wanted:
                return ""
    shutil.rmtree(folder, ignore_errors=True)
    made = run(sys.executable, "-m", "venv", folder)
    if made.returncode != 0:
        return f"expected `python3 -m venv` to work (package python3-venv), got:\n{made.stdout}"
    pip = os.path.join(folder, "bin", "pip")
    split = packages.index("--no-deps") if "--no-deps" in packages else len(packages)
    for part in filter(None, (packages[:split], packages[split:])):
        for _ in range(2):  # because a download may arrive damaged
            made = run(pip, "install", "--quiet", "--retries", "1", *part)
            if made.returncode == 0:
                break
        else:
            return f"expected {' '.join(part)} from PyPI, got:\n{made.stdout}"
    with open(stamp, "w", encoding="utf-8") as file:
        file.write(wanted)
    return ""


def main():
    folder, *packages = sys.argv[1:sys.argv.index("--")]
    script = sys.argv[sys.argv.index("--") + 1:]
    with open(folder + ".lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        problem = make(folder, packages)
    if problem:
        print(f"skipped: {problem}")
        return SKIPPED
    python = os.path.join(folder, "bin", "python")
    return subprocess.run([python, *script], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
