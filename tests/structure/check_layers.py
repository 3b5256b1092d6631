#!/usr/bin/env python3
"""check_layers.py ROOT: fails if the source tree violates the rules that separate its parts.

* A folder includes and links only itself and the layers below it.
* A subfolder of runtime (a room) includes only itself and the rooms below it. All rooms may include
  the files in runtime itself.
* There are at most eight public headers, all directly in api. They include only standard headers
  and each other, and use no names of LLVM or CUDA. Two of them may be included by all layers.
* CUDA and NCCL headers are included only in their backends and in a few programs.
* Includes of this project's headers are relative to the root of the repository.
* Every source file is listed in a CMakeLists.txt.
* No source calls functions that newer versions of LLVM lack.
* No line contains a path on a developer's machine or a note about unfinished work, and no line of
  code is longer than 100 columns.
* Every example is listed in examples/README.md.

Prints one line for each violation.
"""
import os
import re
import sys

# The layers that each layer may include. `backends` stands for each folder in it.
LAYERS = {
    "ir": {"ir"},
    "lowering": {"ir", "lowering"},
    "runtime": {"ir", "runtime"},
    "backends": {"ir", "runtime", "backends"},
    "api": {"ir", "lowering", "runtime", "backends", "api"},
    "tools": {"ir", "lowering", "runtime", "backends", "api", "tools"},
    "python": {"api", "python"},
    "examples": {"ir", "lowering", "runtime", "backends", "api", "examples"},
    "tests": {"ir", "lowering", "runtime", "backends", "api", "tools", "examples", "tests"},
}
# The rooms that each room may include. execute and tune include each other (prepare() tunes).
ROOMS = {
    "runtime/plan": {"runtime/plan"},
    "runtime/reference": {"runtime/reference"},
    "runtime/job/bootstrap": {"runtime/job/bootstrap"},
    "runtime/check": {"runtime/plan", "runtime/check"},
    "runtime/execute": {"runtime/plan", "runtime/execute", "runtime/tune",
                        "runtime/job/bootstrap"},
    "runtime/tune": {"runtime/plan", "runtime/execute", "runtime/tune", "runtime/job/bootstrap"},
    "runtime/simulate": {"runtime/plan", "runtime/execute", "runtime/simulate"},
    "runtime/job/network": {"runtime/job/bootstrap", "runtime/job/network"},
    "runtime/job": {"runtime/plan", "runtime/execute", "runtime/job", "runtime/job/bootstrap"},
}
# Public headers, and the public headers that all layers may include.
PUBLIC = re.compile(r"api/\w+\.h$")
MOST_PUBLIC = 8
SHARED = {"api/dtype.h", "api/status.h"}
FOREIGN = re.compile(r"\b(llvm::|cuda|nccl)", re.IGNORECASE)
VENDOR_HEADER = re.compile(r"(cuda|cublas|nccl|nvml|nvToolsExt)", re.IGNORECASE)
VENDOR_FOLDERS = ("backends/cuda/", "backends/nccl/")
# Programs for users that contain CUDA code.
VENDOR_USERS = ("examples/cuda_rank/", "tests/gpu/")
SOURCE = re.compile(r"\.(h|def|cpp|cu|cuh)$")
TEXT = re.compile(r"\.(h|def|cpp|cu|cuh|py|sh|md|txt|cmake|in|json|braid|test)$|^[^.]+$")
# Files whose lines may be longer, because a line is a paragraph, an operation or an output.
PROSE = re.compile(r"\.(md|braid|test)$|/inputs/")
INCLUDE = re.compile(r'^\s*#\s*include\s+(["<])([^">]+)[">]')
GONE_FROM_LLVM = re.compile(r"[.>](starts|ends)with\(")
LINKED = re.compile(r"\bbraid_(ir|lowering|runtime|backend_\w+|api)\b")
MACHINE_PATH = re.compile(r"(?<![\w.$}])/(home|root|work|Users|mnt)/\w")
PUT_OFF = re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X)\b")
LONGEST_LINE = 100
# Files that others have written, and folders that contain no text of this project.
EXEMPT_FILES = {"LICENSE"}
EXEMPT_FOLDERS = {".git", "build", "__pycache__", "corpus"}


def files_below(root):
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(f for f in folders if f not in EXEMPT_FOLDERS)
        for name in sorted(names):
            path = os.path.relpath(os.path.join(folder, name), root)
            if path not in EXEMPT_FILES:
                yield path


def read(root, path):
    with open(os.path.join(root, path), encoding="utf-8") as file:
        return file.read()


def check_include(path, bracket, header):
    layer = path.split("/")[0]
    is_standard = bracket == "<" and re.fullmatch(r"\w+|std\w+\.h", header)
    if PUBLIC.match(path) and not is_standard and not PUBLIC.match(header):
        return "expected a header for users to include only those, and standard ones"
    if VENDOR_HEADER.match(header) and not path.startswith(VENDOR_FOLDERS + VENDOR_USERS):
        return f"expected CUDA and NCCL headers below {' and '.join(VENDOR_FOLDERS)} only"
    if layer not in LAYERS or bracket == "<":
        return None
    target = header.split("/")[0]
    if "/" not in header:
        return 'expected an include rooted at the repository, like "ir/program.h"'
    if header in SHARED:
        return None
    if target in LAYERS and target not in LAYERS[layer]:
        return f"expected {layer} to include only {', '.join(sorted(LAYERS[layer]))}"
    room, inner = os.path.dirname(path), os.path.dirname(header)
    if room in ROOMS and inner in ROOMS and inner not in ROOMS[room]:
        return f"expected {room} to include only {', '.join(sorted(ROOMS[room]))}"
    return None


def check_links(path, line):
    layer = path.split("/")[0]
    if layer not in LAYERS:
        return None
    for name in LINKED.findall(line.split("#")[0]):
        target = "backends" if name.startswith("backend_") else name
        if target not in LAYERS[layer]:
            return f"expected {layer} to link only {', '.join(sorted(LAYERS[layer]))}"
    return None


def check_line(path, line):
    if len(line) > LONGEST_LINE and not PROSE.search(path):
        return f"expected at most {LONGEST_LINE} columns, got {len(line)}"
    if line != line.rstrip():
        return "expected no blanks at the end of a line"
    if MACHINE_PATH.search(line):
        return "expected no path of one particular machine"
    if PUT_OFF.search(line):
        return "expected no note about work put off"
    if PUBLIC.match(path) and FOREIGN.search(line.split("//")[0]):
        return "expected a header for users to name nothing of LLVM or CUDA"
    if SOURCE.search(path) and GONE_FROM_LLVM.search(line):
        return "expected take_front() or starts_with(): LLVM 19 has no StringRef::startswith()"
    include = INCLUDE.match(line) if SOURCE.search(path) else None
    if include:
        return check_include(path, include.group(1), include.group(2))
    if path.endswith("CMakeLists.txt"):
        return check_links(path, line)
    return None


def check_listed(paths, root):
    """Every source file is listed in the CMakeLists.txt of its folder or of a parent folder."""
    lists = {p: read(root, p) for p in paths if p.endswith("CMakeLists.txt")}
    for path in paths:
        if not path.endswith((".cpp", ".cu")):
            continue
        folder = path
        while folder:
            folder = os.path.dirname(folder)
            text = lists.get(os.path.join(folder, "CMakeLists.txt"), "")
            if os.path.relpath(path, folder or ".") in text:
                break
        else:
            yield f"{path}: expected a CMakeLists.txt that names it"


def check_examples(paths, root):
    """Every example is listed in examples/README.md, where new users find it."""
    examples = [p for p in paths if re.fullmatch(r"examples/\w+\.braid", p)]
    text = read(root, "examples/README.md") if examples else ""
    for path in examples:
        if f"({os.path.basename(path)})" not in text:
            yield f"{path}: expected examples/README.md to name it"


def violations(root):
    paths = list(files_below(root))
    for path in paths:
        if not TEXT.search(os.path.basename(path)):
            continue
        for number, line in enumerate(read(root, path).splitlines(), 1):
            problem = check_line(path, line)
            if problem:
                yield f"{path}:{number}: {problem}"
    public = [path for path in paths if PUBLIC.match(path)]
    if len(public) > MOST_PUBLIC:
        yield f"api: expected at most {MOST_PUBLIC} headers for users, got {len(public)}"
    yield from check_listed(paths, root)
    yield from check_examples(paths, root)


def main():
    found = list(violations(sys.argv[1]))
    for line in found:
        print(line)
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
