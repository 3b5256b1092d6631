"""Runs the `braid` command for features that the shared library lacks: predictions, HTML pages,
traces, and machine checks."""
from __future__ import annotations

import html
import json
import os
import re
import shutil
import subprocess
import sysconfig
from typing import Any, Collection, Dict, List

from braid._errors import UnsupportedError, error_of


class Page(str):
    """A str that contains a self-contained HTML page. Jupyter renders the page inline."""

    def _repr_html_(self) -> str:
        return (f'<iframe srcdoc="{html.escape(self)}" width="100%" height="700" '
                'style="border: 0"></iframe>')


def _path() -> str:
    """Returns the path of the `braid` executable, which is in bin/ of the build directory, in
    Python's scripts directory, or on PATH."""
    here = os.path.dirname(os.path.abspath(__file__))
    built = os.path.join(here, os.pardir, os.pardir, "bin", "braid")
    installed = os.path.join(sysconfig.get_path("scripts"), "braid")
    path = next((path for path in (built, installed) if os.access(path, os.X_OK)),
                shutil.which("braid"))
    if path is None:
        raise UnsupportedError(f"cannot find the braid command at {built}, at {installed} or on "
                               "the PATH")
    return path


def flags(options: Dict[str, Any]) -> List[str]:
    """Converts keyword arguments to flags: timeout_ms=500 becomes "--timeout-ms=500", and
    graph=True becomes "--graph". Skips arguments that are None or False."""
    return ["--" + name.replace("_", "-") + ("" if value is True else f"={value}")
            for name, value in options.items() if value is not None and value is not False]


def run(*arguments: str, text: str = "", codes: Collection[int] = (0,)) -> str:
    """Runs `braid` with `text` as standard input, and returns its standard output. If the exit
    code is not in `codes`, raises the corresponding exception."""
    command = subprocess.run([_path(), *arguments], input=text, capture_output=True,
                             encoding="utf-8", check=False)
    if command.returncode not in codes:
        message = (command.stderr.strip() or command.stdout.strip()).replace("<stdin>", "<text>")
        raise error_of(command.returncode, _of_keywords(message.removeprefix("braid: error: ")))
    return command.stdout


def _of_keywords(message: str) -> str:
    """Makes an "unknown flag" message refer to keyword arguments. Returns other messages as is."""
    found = re.match(r"unknown flag '(--[\w-]+).*?'(.*)\nSee (braid \w+ --help)\.$", message)
    if not found:
        return message
    names = re.sub(r"--([\w-]+)", lambda flag: flag[1].replace("-", "_"), found[1] + "'" + found[2])
    return f"unknown option '{names}; the options are the flags listed by `{found[3]}`"


def doctor(**options: Any) -> Dict[str, Any]:
    """Checks whether programs can run on this machine, like `braid doctor`.

    Returns the JSON output: {"exit_code": 0, "gpus": [...], "lines": [{"check", "severity", "seen",
    "advice", ...}, ...]}. exit_code is 4 if there is a problem. Uses no GPU and changes nothing.

        for line in braid.doctor()["lines"]:
            print(line["severity"], line["seen"])

    options: the command's flags, such as ranks=2.
    """
    return dict(json.loads(run("doctor", "--json", *flags(options), codes=(0, 4))))


def calibrate(**options: Any) -> Dict[str, Any]:
    """Measures this machine, like `braid calibrate`. Returns the cost model as a JSON object. Save
    the model to a file to use it in Program.simulate(machine=...) and Program.view(machine=...).

        with open("machine.json", "w") as file:
            json.dump(braid.calibrate(backend="cuda"), file)

    Takes minutes. Starts one process per rank.
    options: the command's flags, such as backend="cuda" or ranks=2.
    """
    return dict(json.loads(run("calibrate", "-", *flags(options))))
