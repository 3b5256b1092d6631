"""Cases for `braid p2p`: the report is complete, and its figures match plain copies."""
import json
import os
import tempfile
import time

from gpu_commands import run
from gpu_suite import SKIPPED, only_on

LEAST_SHARE = 0.97  # minimum fraction of the bandwidth of a plain loop of copies
MOST_US = 1  # maximum excess over a plain ping-pong
PEER_PATHS = ("put-engine", "put-kernel", "get-engine", "get-kernel")
SMALL, LARGE = 4, 1 << 28


def measured(braid, devices, flags=()):
    """Runs `braid p2p` and returns the exit code, the seconds, the report and the output."""
    with tempfile.TemporaryDirectory() as folder:
        out, page = os.path.join(folder, "pairs.json"), os.path.join(folder, "pairs.html")
        begin = time.monotonic()
        code, text, err = run([braid, "p2p", "--backend", "cuda", "--ranks", str(len(devices)),
                               "--json", out, "--html", page, *flags], 300, only_on(devices))
        seconds = time.monotonic() - begin
        report = None
        if os.path.exists(out):
            with open(out, encoding="utf-8") as file:
                report = json.load(file)
            if os.path.getsize(page) == 0:
                raise RuntimeError(f"{page} is empty")
        return code, seconds, report, text + err


def points(report, source, destination, path):
    """Returns latency and bandwidth by size, where 0 means not measured."""
    for pair in report["pairs"]:
        if (pair["source"], pair["destination"]) == (source, destination):
            return {point[0]: point[1:] for point in pair["paths"].get(path, {}).get("points", [])}
    raise RuntimeError(f"no pair from {source} to {destination}")


def faults_of(report, ranks, needed, has_nccl):
    """Lists mistakes in a report about working devices, which must contain the `needed` sizes."""
    wrong = []
    pairs = {(pair["source"], pair["destination"]): pair["paths"] for pair in report["pairs"]}
    expected = {(a, b) for a in range(ranks) for b in range(ranks) if a != b}
    if set(pairs) != expected:
        wrong.append(f"pairs {sorted(pairs)}")
    for pair, paths in pairs.items():
        for path in PEER_PATHS + (("messages",) if has_nccl else ()):
            verdict = paths.get(path, {}).get("verdict", "nothing")
            if verdict not in ("ok", "slow"):
                wrong.append(f"{pair} {path}: {verdict} {paths.get(path, {}).get('reason', '')}")
                continue
            sizes = points(report, *pair, path)
            if not needed <= set(sizes):
                wrong.append(f"{pair} {path}: sizes {sorted(sizes)}")
            elif not (sizes[SMALL][0] > 0 and all(each[1] > 0 for each in sizes.values())):
                wrong.append(f"{pair} {path}: {sizes}")
    return wrong


def figures(report):
    """Returns one line for each path from device 0 to device 1."""
    lines = []
    for path in PEER_PATHS + ("messages",):
        sizes = points(report, 0, 1, path)
        if sizes:
            largest = max(sizes)
            lines.append(f"{path}: {sizes[min(sizes)][0]:.2f} us, {sizes[largest][1]:.1f} GB/s at "
                         f"{largest} bytes")
    return "\n".join(lines)


def check_report(suite, devices, has_nccl):
    shares = len(set(devices)) < len(devices)
    # Ranks that share a GPU take turns on it, so large sizes would be slow; NCCL rejects sharing.
    flags = ["--sizes", f"{SMALL},{1 << 20}", "--paths", ",".join(PEER_PATHS)] if shares else []
    code, seconds, report, said = measured(suite.braid, devices, flags)
    if code != 0 or report is None:
        return "failed", f"exit code {code}\n{said[-3000:]}"
    wrong = faults_of(report, len(devices), {SMALL} if shares else {SMALL, LARGE},
                      has_nccl and not shares)
    detail = f"{seconds:.1f} s{', GPUs shared' if shares else ''}\n{figures(report)}"
    return ("failed", "\n".join(wrong + [detail, said[-2000:]])) if wrong else ("passed", detail)


def plain_figures(program, devices):
    """Returns the figures by path, kind and size, or None and the reason if GPUs are missing."""
    code, out, err = run([program], 120, only_on(devices))
    if code == SKIPPED:
        return None, out.strip()
    if code != 0:
        raise RuntimeError(f"{program} ends with {code}\n{out}{err}")
    words = [line.split() for line in out.splitlines()]
    return {(path, kind, int(size)): float(value) for path, kind, size, value in words}, ""


def beside_plain(suite, devices, plain):
    """Returns whether p2p is as fast as plain copies, and a line for each figure."""
    sizes = ",".join(sorted({str(size) for _, _, size in plain}))
    code, _, report, said = measured(suite.braid, devices[:2],
                                     ["--paths", ",".join(PEER_PATHS), "--sizes", sizes])
    if code != 0 or report is None:
        return False, [f"exit code {code}", said[-3000:]]
    lines, is_fine = [], True
    for (path, kind, size), value in sorted(plain.items()):
        latency, bandwidth = points(report, 0, 1, path).get(size, (0, 0))
        if kind == "latency":
            is_as_good = 0 < latency <= value + MOST_US
            lines.append(f"{path} {size} bytes: {latency:.2f} us, plain {value:.2f} us")
        else:
            is_as_good = bandwidth >= LEAST_SHARE * value
            lines.append(f"{path} {size} bytes: {bandwidth:.1f} GB/s, plain {value:.1f} GB/s")
        is_fine = is_fine and is_as_good
        lines[-1] += "" if is_as_good else "  <-"
    return is_fine, lines


def compare_with_plain(suite, devices):
    program = os.path.join(os.path.dirname(suite.braid), "plain_copies")
    if not os.path.exists(program):
        return "skipped", "plain_copies was not built"
    lines = []
    # A copy engine takes 16 us to start, or 19 us in some processes.
    for _ in range(3):
        plain, why = plain_figures(program, devices[:2])
        if plain is None:
            return "skipped", why
        is_fine, more = beside_plain(suite, devices, plain)
        lines += more
        if is_fine:
            break
    return ("passed" if is_fine else "failed"), "\n".join(lines)


def add_pairs(suite, has_nccl):
    suite.add("p2p, 2 ranks", 2, lambda devices: check_report(suite, devices[:2], has_nccl),
              may_share=True)
    suite.add("p2p, 4 ranks", 4, lambda devices: check_report(suite, devices[:4], has_nccl))
    suite.add("p2p, beside plain copies", 2, lambda devices: compare_with_plain(suite, devices))
    suite.add_command("p2p of a GPU that is not here",
                      [suite.braid, "p2p", "--backend", "cuda", "--devices", "0,99"], 1, expect=4)
    suite.add_command("p2p of a GPU twice",
                      [suite.braid, "p2p", "--backend", "cuda", "--devices", "0,0"], 1, expect=2)
