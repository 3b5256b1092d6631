"""The Python package with NumPy arrays: the compiler, jobs, operations, and errors.

usage: core_test.py FOLDER BRAID     (the folder that contains the package, and the command)
"""
import copy
import gc
import json
import os
import pathlib
import pickle
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import weakref
from concurrent.futures import ThreadPoolExecutor

FOLDER, BRAID = sys.argv[1], sys.argv[2]
sys.path.insert(0, FOLDER)

import ml_dtypes  # noqa: E402
import numpy as np  # noqa: E402

import braid  # noqa: E402

EXAMPLE = "examples/ag_matmul.braid"
SIZES = {"M": 12, "K": 8, "N": 4}
NUMPY_TYPES = {"bf16": ml_dtypes.bfloat16, "f16": np.float16, "f32": np.float32, "f64": np.float64}
DTYPES = list(NUMPY_TYPES)


def command(*words):
    return subprocess.run([BRAID, *words], stdout=subprocess.PIPE, text=True, timeout=60,
                          check=True).stdout


def gather(ranks, dtype="f32", rows=12, depth=8, columns=4):
    """Returns a fusion in which every rank has some rows of A and computes all of A * B."""
    f = braid.Fusion("gather")
    D, M, K, N = f.parameters(D=ranks, M=rows, K=depth, N=columns)
    f.mesh(D)
    A = f.input("A", dtype, [braid.didx(D), M / D, K])
    B = f.input("B", dtype, [K, N])
    f.output(f.matmul("C", A, B, dtype, [braid.stream(D), M / D, N]))
    return f


def scatter(ranks, dtype="f32", rows=12, depth=8, columns=4):
    """Returns a fusion in which every rank has some columns of A and some rows of B, and computes
    some rows of A * B."""
    f = braid.Fusion("scatter")
    D, M, K, N = f.parameters(D=ranks, M=rows, K=depth, N=columns)
    f.mesh(D)
    A = f.input("A", dtype, [D, M / D, braid.didx(D), K])
    B = f.input("B", dtype, [braid.didx(D), K, N])
    f.output(f.matmul("C", A, B, dtype, [braid.didx(D), M / D, N]))
    return f


def draw(random, shape, dtype):
    """Returns small integers, whose sums are exact in every type."""
    return random.integers(-2, 3, shape).astype(NUMPY_TYPES[dtype])


class Strange:
    """An array of an unknown library."""

    def __init__(self, array, device=None):
        self.array, self.device = array, device

    def __dlpack__(self, **how):
        return self.array.__dlpack__()

    def __dlpack_device__(self):
        return self.device or self.array.__dlpack_device__()


class Compiler(unittest.TestCase):
    def test_says_what_the_command_says(self):
        program = braid.compile(braid_path(EXAMPLE), ranks=4, schedule="ring;chunks=2", M=64)
        words = [EXAMPLE, "--ranks", "4", "--schedule", "ring;chunks=2", "--set", "M=64"]
        self.assertEqual(program.program, command("compile", *words))
        self.assertEqual(program.check(), command("check", *words))
        plans = "".join(program.plan(rank) for rank in range(4))
        self.assertEqual(plans, command("compile", *words, "--emit", "plan"))
        explained = command("run", *words, "--explain").split("choices\n")[1]
        self.assertEqual(program.explain(), explained[:explained.index("  ranks ")])
        self.assertEqual(braid.__version__, command("--version").split()[1])

    def test_knows_tensors(self):
        program = braid.compile(gather(3))
        self.assertEqual(program.inputs, [("A", "f32", (1, 4, 8)), ("B", "f32", (8, 4))])
        self.assertEqual(program.outputs, [("C", "f32", (3, 4, 4))])
        self.assertEqual((program.ranks, program.name), (3, "gather_pairwise"))

    def test_builder_writes_the_example(self):
        f = braid.Fusion("ag_matmul")
        D, M, K, N = f.parameters(D=8, M=1024, K=1024, N=1024)
        f.mesh(D)
        A = f.input("A", "bf16", [braid.didx(D), M / D, K])
        B = f.input("B", "bf16", [K, N])
        f.output(f.matmul("C", A, B, "bf16", [braid.stream(D), M / D, N]))
        self.assertEqual(braid.compile(f).program, command("compile", EXAMPLE))

    def test_builder_writes_every_node(self):
        f = braid.Fusion("all")
        D, M, K = f.parameters(D=2, M=7, K=4)
        f.mesh(D)
        block = braid.ceil(M, D)
        X = f.input("X", "bf16", [braid.didx(D), block, K])
        W = f.input("W", "bf16", [2 * K - K, K])
        b = f.input("b", "bf16", [K])
        G = f.reshard("G", X, "bf16", [braid.stream(D), block, K])
        H = f.linear("H", X, W, "bf16", [braid.stream(D), block, K], bias=b)
        R = f.pointwise("R", "relu", H, dtype="bf16", axes=[braid.stream(D), block, K])
        f.output(G, R)
        self.assertIn("%H = linear %X, %W, %b : bf16[Stream{D}, ceil(M, D), K]", str(f))
        self.assertEqual(len(braid.compile(f).outputs), 2)

    def test_builder_adds_products(self):
        f = braid.Fusion("sum")
        D, M = f.parameters(D=2, M=6)
        f.mesh(D)
        A, X = (f.input(name, "f32", [D, M / D, braid.didx(D), depth])
                for name, depth in (("A", 5), ("X", 3)))
        B, Y = (f.input(name, "f32", [4, braid.didx(D), depth])
                for name, depth in (("B", 5), ("Y", 3)))
        b = f.input("b", "f32", [4])
        T = ("f32", [braid.didx(D), M / D, 4])
        f.output(f.linear("C", [A, X], [B, Y], *T, bias=b), f.linear("E", (A,), (B,), *T))
        self.assertIn("%C = linear %A, %B, %X, %Y, %b : f32[DIDx{D}, (M / D), 4]", str(f))
        self.assertIn("%E = linear %A, %B : f32[DIDx{D}, (M / D), 4]", str(f))
        self.assertEqual(len(braid.compile(f).outputs), 2)
        f.matmul("F", [A, X], [B, Y], *T, partial="f32")
        self.assertIn("%F = matmul %A, %B, %X, %Y partial f32 : ", str(f))
        with self.assertRaisesRegex(braid.InputError, "expected equal, nonzero numbers of first"):
            f.matmul("G", [A, X], B, *T)

    def test_places_mistakes(self):
        text = "fusion @f(D = 2) {\n  mesh [0 .. D)\n  %A = input f33[D]\n  output %A\n}\n"
        with self.assertRaises(braid.InputError) as caught:
            braid.compile(text)
        error = caught.exception
        self.assertEqual((error.filename, error.lineno, error.offset), ("<text>", 3, 14))
        self.assertIn("f33", error.text)
        self.assertRegex(str(error), r"^<text>:3:14: error: .*\n.*f33.*\n +\^")
        for kind in (braid.Error, ValueError, RuntimeError):
            self.assertIsInstance(error, kind)

    def test_refuses(self):
        for options, kind, words in [
                ({"schedule": "fast"}, braid.InputError, "expected one of pairwise"),
                ({"Q": 3}, braid.InputError, "Q"),
                ({"entry": "nobody"}, braid.InputError, "nobody"),
                ({"M": 13}, braid.InputError, "13"),
                ({"schedule": "collective;protocol=put"}, braid.InputError, "protocol"),
                ({"schedule": "auto;bogus=7"}, braid.InputError, "got 'bogus=7'"),
                ({"schedule": "ring\0zzz"}, braid.InputError, "schedule: .* NUL"),
                ({"M": 2**64 + 12}, braid.InputError, "M: expected an integer from"),
                ({"M": 1.5}, braid.InputError, "M: expected an integer, got 1.5"),
                ({"ranks": 2**64 + 3}, braid.InputError, "ranks: expected an integer from 1"),
                ({"entry": 5}, braid.InputError, "entry: expected a str, got 5"),
                ({"auto_seconds": "1"}, braid.InputError, "auto_seconds: expected a non-neg"),
                ({"schedule": b"ring"}, braid.InputError, "schedule: expected a str or None")]:
            with self.assertRaisesRegex(kind, words, msg=str(options)) as caught:
                braid.compile(gather(3), **options)
            self.assertEqual(caught.exception.code, kind.code)
        with self.assertRaisesRegex(braid.InputError, "nowhere.braid"):
            braid.compile(braid_path("nowhere.braid"))

    def test_speaks_of_arguments(self):
        """Error messages name Python arguments, not command-line flags."""
        fixed = str(gather(3)).replace("mesh [0 .. D)", "mesh [0 .. 3)")
        program = str(braid.compile(gather(3)))
        reduction = str(scatter(3)).replace("[DIDx{D}, M / D, N]", "[D, M / D, N]")
        for source, options, words in [
                (gather(3), {"ranks": 5}, "error: ranks=5: "),
                (gather(3), {"ranks": 4, "M": 10, "K": 4}, "error: ranks=4, M=10, K=4: "),
                (gather(3), {"Q": 3}, "@gather has no parameter 'Q'"),
                (gather(3), {"ranks": 4, "D": 2},
                 "expected D=4, got 2: D is the mesh size, and ranks=4"),
                (fixed, {"ranks": 4}, "expected ranks=3, the size of the mesh, got 4"),
                (f"{fixed}{str(gather(3)).replace('@gather', '@g')}", {}, "specify which one"),
                (program, {"ranks": 4}, "expected ranks=3, the size"),
                (program, {"M": 4}, "parameter M applies to a fusion"),
                (program, {"schedule": "ring"}, "schedule applies to a fusion"),
                (reduction, {"schedule": "ring", "reproducible": True}, "reproducible sums add")]:
            with self.assertRaisesRegex(braid.InputError, words) as caught:
                braid.compile(source, **options)
            self.assertNotIn("--", str(caught.exception))
        program = braid.compile(gather(3))
        for ask, words in [(lambda: program.plan(3), "expected a rank from 0 to 2, got 3"),
                           (lambda: program.plan(2**64), "rank: expected an integer from"),
                           (lambda: program.check(queues=2**32), "queues: expected an integer"),
                           (lambda: program.check(runs=-1), "runs: expected an integer from 0"),
                           (lambda: braid.compile(f"{program}\0 )("), "source: .* NUL"),
                           (lambda: braid.compile(EXAMPLE), "pathlib.Path to a file, got the str"),
                           (lambda: braid.compile(None), "a Fusion, or .* got the NoneType"),
                           (lambda: braid.compile(program), "a Fusion, or .* got the Program"),
                           (lambda: braid.Fusion("f").input("A", "f32", 5), "axes: expected a")]:
            with self.assertRaisesRegex(braid.InputError, words):
                ask()

    def test_is_asked_by_threads(self):
        program = braid.compile(gather(3))
        wanted = [program.plan(rank) for rank in range(3)], program.explain()
        with ThreadPoolExecutor(4) as threads:
            asked = threads.map(lambda _: ([program.plan(rank) for rank in range(3)],
                                           program.explain()), range(200))
            self.assertTrue(all(each == wanted for each in asked))

    def test_shows_a_counterexample(self):
        text = braid.compile(gather(2)).program
        unsafe = text.replace("    synchronize stream(%j)", "    synchronize stream(0)")
        self.assertNotEqual(unsafe, text)
        with self.assertRaisesRegex(braid.RejectedError, "unsafe.*not ordered") as caught:
            braid.compile(unsafe).check()
        self.assertEqual(caught.exception.code, 3)

    def test_declares_the_whole_c_interface(self):
        with open("api/c.h", encoding="utf-8") as file:
            declared = file.read().split("#ifdef __cplusplus")[1]
        functions = set(re.findall(r"\bbraid_(\w+)\(", declared))
        self.assertEqual(functions, set(braid._library._FALLIBLE) | set(braid._library._OTHERS))


class Runs(unittest.TestCase):
    def job(self, ranks, **options):
        job = braid.create(ranks=ranks, **options)
        self.addCleanup(job._handle.free)
        return job

    def expect_gather(self, op, ranks, dtype, random):
        A, B = draw(random, (12, 8), dtype), draw(random, (8, 4), dtype)
        outputs = op(list(A.reshape(ranks, 1, 12 // ranks, 8)), [B] * ranks)
        expected = A.astype(np.float64) @ B.astype(np.float64)
        for C in outputs if ranks > 1 else [outputs]:
            self.assertEqual(C.dtype, NUMPY_TYPES[dtype])
            np.testing.assert_array_equal(C.reshape(12, 4).astype(np.float64), expected)

    def test_gathers_in_every_type(self):
        random = np.random.default_rng(1)
        for dtype in DTYPES:
            for ranks, schedule in ((2, "pairwise"), (3, "ring"), (4, "collective")):
                with self.subTest(dtype=dtype, schedule=schedule), self.job(ranks) as job:
                    op = job.prepare(braid.compile(gather(ranks, dtype), schedule=schedule))
                    for _ in range(3):
                        self.expect_gather(op, ranks, dtype, random)
                    self.assertEqual(op.runs, 3)
                    op.close()

    def test_error_after_issuing(self):
        """A call may issue a run and then raise its job's failure. It must return only when the
        arrays are no longer written."""
        text = ("program @long mesh [0 .. 1) (%A: f32[256, 256], %X: f32[1]) -> (%C: f32[256, 256],"
                " %Y: f32[1]) {\n  for %i in 0 .. 500 {\n    matmul %C, %A, %A\n  }\n"
                "  set %Y, %X\n}\n")
        job = self.job(1)
        op = job.prepare(braid.compile(text))
        A, X = np.ones((256, 256), np.float32), np.ones(1, np.float32)
        C, Y = np.zeros((256, 256), np.float32), np.zeros(1, np.float32)

        def issue_and_raise(*arguments):
            run(*arguments)
            raise braid.InputError("the job has failed")
        from braid import _job
        run, _job._run = _job._run, issue_and_raise
        try:
            with self.assertRaises(braid.InputError):
                op(A, X, out=(C, Y))
            self.assertEqual(Y[0], 1)  # written last
        finally:
            _job._run = run

    def test_reduces(self):
        random = np.random.default_rng(2)
        job = self.job(3)
        op = job.prepare(braid.compile(scatter(3)))
        A, B = draw(random, (3, 3, 4, 1, 8), "f32"), draw(random, (3, 1, 8, 4), "f32")
        outputs = op(list(A), list(B))
        full = sum(A[r].reshape(12, 8) @ B[r][0] for r in range(3))
        for rank in range(3):
            np.testing.assert_array_equal(outputs[rank][0], full[4 * rank:4 * rank + 4])

    def test_one_rank_needs_no_lists(self):
        with self.job(1) as job:
            op = job.prepare(braid.compile(gather(1)))
            A, B = np.ones((1, 12, 8), np.float32), np.ones((8, 4), np.float32)
            out = np.zeros((1, 12, 4), np.float32)
            self.assertIs(op(A, B, out=out), out)
            self.assertTrue((out == 8).all())
            self.assertTrue((op(Strange(A), Strange(B), out=Strange(out)).array == 8).all())
        with self.assertRaisesRegex(braid.InputError, "this operation is closed"):
            op(A, B)

    def test_several_outputs(self):
        f = braid.Fusion("two")
        (D,) = f.parameters(D=2)
        f.mesh(D)
        X = f.input("X", "f32", [braid.didx(D), 3, 4])
        W = f.input("W", "f32", [4, 5])
        f.output(f.reshard("G", X, "f32", [braid.stream(D), 3, 4]),
                 f.matmul("Y", X, W, "f32", [braid.stream(D), 3, 5]))
        op = self.job(2).prepare(braid.compile(f))
        X = np.arange(24, dtype=np.float32).reshape(2, 1, 3, 4)
        W = np.ones((4, 5), np.float32)
        G, Y = op(list(X), [W, W])
        np.testing.assert_array_equal(G[1], X[:, 0])
        np.testing.assert_array_equal(Y[0], X[:, 0] @ W)

    def interrupted(self, op, inputs, out):
        """Calls an operation, and simulates a signal handler that raises an exception right after
        the run has started."""
        run = braid._job._run

        def run_and_raise(*arguments):
            run(*arguments)
            raise KeyboardInterrupt
        braid._job._run = run_and_raise
        try:
            with self.assertRaises(KeyboardInterrupt):
                op(*inputs, out=out)
        finally:
            braid._job._run = run

    def test_nothing_runs_behind_an_interrupt(self):
        job = self.job(2)
        op = job.prepare(braid.compile(gather(2, rows=512, depth=512, columns=512)))
        A, B = np.ones((2, 1, 256, 512), np.float32), np.ones((512, 512), np.float32)
        out = [np.zeros((2, 256, 512), np.float32) for _ in range(2)]
        self.interrupted(op, (list(A), [B, B]), out)
        for each in out:
            each[...] = -1
        time.sleep(0.2)
        self.assertTrue(all((each == -1).all() for each in out))
        self.assertEqual(job._used, [])
        with self.assertRaisesRegex(braid.PeerError, "was interrupted"):
            op(list(A), [B, B])

    def test_what_a_stuck_run_uses_lives_on(self):
        ask = braid._library.ask
        for is_given_up in (False, True):
            job = braid.create(ranks=2)
            op = job.prepare(braid.compile(gather(2)))
            braid._library.ask = lambda name, *rest: name == "job_is_stuck" or ask(name, *rest)
            try:
                A, B = np.ones((2, 1, 6, 8), np.float32), np.ones((8, 4), np.float32)
                used = weakref.ref(B)
                self.interrupted(op, (list(A), [B, B]), None)
                if is_given_up:
                    job._give_up(KeyboardInterrupt())
                del op, job, A, B
                gc.collect()
            finally:
                braid._library.ask = ask
            self.assertIsNotNone(used())

    def test_what_runs_in_flight_use_lives_on(self):
        """Calls only issue work, as on a GPU. The test controls which marks have passed."""
        says = {"job_mark": 0, "job_passed_marks": 0}
        job = self.job(1)
        op = job.prepare(braid.compile(gather(1)))
        ask, stream = braid._library.ask, 0
        B = np.ones((8, 4), np.float32)

        def issue(how):
            says["job_mark"] += 1
            A = np.ones((1, 12, 8), np.float32)
            how(A)
            return weakref.ref(A)

        def call(A):
            op(A, B, stream=stream)

        def record(A):
            op.capture(A, B)
            op.replay(stream)

        braid._library.ask = lambda name, *rest: says[name] if name in says else ask(name, *rest)
        op._is_on_host = False
        try:
            used = [issue(call) for _ in range(5)]
            self.assertEqual([each() is None for each in used], [False] * 5)
            says["job_passed_marks"] = 3
            used.append(issue(call))
            self.assertEqual([each() is None for each in used], [True] * 3 + [False] * 3)
            used = [issue(record) for _ in range(2)]  # the second replaces the first
            self.assertIsNotNone(used[0]())
            says["job_passed_marks"] = says["job_mark"]
            issue(call)
            self.assertIsNone(used[0]())
            op.close()
            self.assertIsNotNone(used[1]())
        finally:
            braid._library.ask = ask
            op._is_on_host = True
        job.synchronize()
        self.assertIsNone(used[1]())

    def test_what_graphs_of_the_caller_use_lives_on(self):
        job = self.job(1)
        op = job.prepare(braid.compile(gather(1)))
        ask, A, B = braid._library.ask, np.ones((1, 12, 8), np.float32), np.ones((8, 4), np.float32)
        used = weakref.ref(A)
        braid._library.ask = lambda name, *rest: 0 if name == "job_mark" else ask(name, *rest)
        op._is_on_host = False
        try:
            op(A, B, stream=0)
            del A
            job.synchronize()
            self.assertIsNotNone(used(), "such a graph may be launched again")
        finally:
            braid._library.ask = ask
            op._is_on_host = True

    def test_nothing_is_copied(self):
        job = self.job(2)
        op = job.prepare(braid.compile(gather(2)))
        for each in (job, op):
            for copied in (copy.copy, copy.deepcopy, pickle.dumps):
                name = f"braid.{type(each).__name__}"
                with self.assertRaisesRegex(TypeError, f"cannot copy or pickle {name}"):
                    copied(each)

    def test_programs_are_copied_and_pickled(self):
        ring = braid.compile(gather(2), schedule="ring")
        from_file = braid.compile(pathlib.Path(EXAMPLE), ranks=2, **SIZES)
        chosen = self.job(2).prepare(braid.compile(gather(2), schedule="auto")).program
        for program in (ring, from_file, chosen):
            for copied in (copy.copy(program), pickle.loads(pickle.dumps(program))):
                self.assertEqual(copied.program, program.program)
                self.assertEqual(copied.schedule, program.schedule)
                self.assertEqual(copied.inputs, program.inputs)

    def test_what_the_command_has(self):
        program = braid.compile(gather(2), schedule="ring")
        self.assertEqual([each["name"] for each in program.json()["programs"]], ["gather_ring"])
        [eager] = program.simulate()["predictions"]
        [graph] = program.simulate(machine="dgx-h100-8", launch="graph")["predictions"]
        self.assertLess(graph["us"], eager["us"])
        self.assertRegex(program.verify(iterations=2), "2 iterations(.|\n)*: all equal")
        trace = program.trace()
        self.assertTrue(trace["traceEvents"])
        for page in (program.view(), program.view(trace=trace)):
            self.assertIn("gather_ring", page)
            self.assertTrue(page._repr_html_().startswith("<iframe srcdoc="))
        self.assertIn(braid.doctor()["exit_code"], (0, 4))

    def test_an_interrupt_ends_the_call_that_it_came_in(self):
        from braid._interrupt import _Watch
        watch, ended = _Watch(), []
        before = signal.set_wakeup_fd(-1)
        try:
            with watch._lock:  # delays the thread that listens for signals
                watch.begin(lambda: ended.append("first"))
                with self.assertRaises(KeyboardInterrupt):
                    signal.raise_signal(signal.SIGINT)
                # The interrupt ended end() early.
                watch.end(watch.begin(lambda: ended.append("second")))
            self.assertEqual(ended, ["first"])
        finally:
            signal.set_wakeup_fd(before)

    def test_examples(self):
        shown = {"gather_matmul.py": "0 of 64 elements wrong", "look_and_verify.py": ": all equal",
                 "simulate.py": r"8  bulk +\d+ us +\d+%"}
        self.assertEqual(sorted(shown), sorted(os.listdir("examples/python")))
        for script, expected in shown.items():
            printed = subprocess.run([sys.executable, "examples/python/" + script], text=True,
                                     env={**os.environ, "PYTHONPATH": FOLDER}, timeout=60,
                                     stdout=subprocess.PIPE, check=True).stdout
            self.assertRegex(printed, expected)

    def test_mistakes_in_options_of_the_command(self):
        program = braid.compile(gather(2))
        with self.assertRaisesRegex(braid.InputError, "^unknown option 'colour'; the options are "
                                    "the flags listed by `braid simulate --help`$"):
            program.simulate(colour="red")
        with self.assertRaisesRegex(braid.InputError, r"'timeout' \(did you mean 'timeout_ms'\?\)"):
            program.verify(timeout=5)
        with self.assertRaisesRegex(braid.InputError, "(?i)machine"):
            program.simulate(machine="nowhere.json")
        with self.assertRaisesRegex(braid.InputError, "no-such-backend"):
            program.verify(backend="no-such-backend")

    def test_calibrates(self):
        model = braid.calibrate(ranks=2, dtype="f32", shapes="8x8x8")
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump(model, file)
            file.flush()
            prediction = braid.compile(gather(2)).simulate(machine=file.name)
        self.assertGreater(prediction["predictions"][0]["us"], 0)

    def test_replays(self):
        op = self.job(2).prepare(braid.compile(gather(2)))
        with self.assertRaisesRegex(braid.InputError, r"capture\(\) must be called before"):
            op.replay()
        random = np.random.default_rng(8)
        A, B = np.empty((2, 1, 6, 8), np.float32), np.empty((8, 4), np.float32)
        C = op.capture(list(A), [B, B])
        for _ in range(5):
            A[...], B[...] = draw(random, A.shape, "f32"), draw(random, B.shape, "f32")
            op.replay()
            np.testing.assert_array_equal(C[1].reshape(12, 4), A.reshape(12, 8) @ B)
        self.assertEqual(op.runs, 5)

    def test_chooses_by_measuring(self):
        job = self.job(2)
        program = braid.compile(gather(2), schedule="auto", auto_seconds=0.1)
        self.assertIn("Job.prepare() will choose one", program.explain())
        op = job.prepare(program)
        self.assertIn("chosen by auto", op.program.explain())
        self.expect_gather(op, 2, "f32", np.random.default_rng(3))

    def test_names_wrong_tensors(self):
        job = self.job(1)
        op = job.prepare(braid.compile(gather(1)))
        A, B = np.ones((1, 12, 8), np.float32), np.ones((8, 4), np.float32)
        for inputs, out, words in [
                ((A,), None, r"expected 2 inputs \(%A, %B\), got 1"),
                ((A, B[:7]), None, r"%B: expected f32\[8, 4\], got f32\[7, 4\]"),
                ((A, B.astype(np.int32)), None, r"input %B: expected f32\[8, 4\], got int32"),
                ((A, B.astype(np.float64)), None, "%B.*f64"),
                ((A, np.ones((4, 8), np.float32).T), None, "input %B: expected a contiguous"),
                ((A, Strange(np.ones((4, 8), np.float32).T)), None, "%B: expected a contiguous"),
                ((A, Strange(B.astype(np.int32))), None, r"got 32-bit DLPack type 0\[8, 4\]"),
                ((A, [1, 2]), None, "input %B: expected an array from NumPy.*got list"),
                ((A, B), A, "%C"),
                ((A, Strange(B, (2, 0))), None, "%B: .* host memory, .* DLPack device type 2"),
                ((A, Strange(B, "x")), None, "%B: cannot access the array through DLPack: Val"),
                ((A, Strange(None)), None, "%B: cannot access the array through DLPack: Attrib"),
                ((A, B), np.frombuffer(bytes(192), np.float32).reshape(1, 12, 4), "%C: .*writable"),
                ((A, B), (A, B), "output %C: expected an array"),
                ((Strange(A), Strange(B)), None, "output %C: .*pass out=")]:
            with self.assertRaisesRegex(braid.InputError, words):
                op(*inputs, out=out)
        with self.assertRaisesRegex(braid.InputError, "stream: expected an integer, got 'x'"):
            op(A, B, stream="x")
        self.assertEqual(op.runs, 0)
        self.assertTrue((op(A, B) == 8).all())

    def test_bounds_what_it_holds(self):
        job = self.job(2, max_bytes=5000)
        first = job.prepare(braid.compile(gather(2)))
        self.assertEqual(job.usage()[:3], (1, *first.usage()[:2]))
        self.assertFalse(first.usage().is_in_graph)
        with self.assertRaisesRegex(braid.UnsupportedError, "allows only 5000 in total"):
            job.prepare(braid.compile(gather(2, rows=1200)))
        with self.assertRaisesRegex(braid.InputError, "input %A: expected a list of 2 arrays"):
            first(np.ones((1, 6, 8), np.float32), [np.ones((8, 4), np.float32)] * 2)
        first.close()
        job.prepare(braid.compile(gather(2))).close()
        self.assertEqual(job.usage()[:3], (0, 0, 0))
        self.assertGreater(job.usage().held, 0)
        job.give_back()
        self.assertEqual(job.usage(), (0,) * 6)

    def test_closes_once_nothing_lives(self):
        job = self.job(2)
        op = job.prepare(braid.compile(gather(2)))
        with self.assertRaisesRegex(braid.InputError, "rank 0 still has 1 of its sessions"):
            job.close()
        self.expect_gather(op, 2, "f32", np.random.default_rng(5))
        op.close()
        job.close()
        job.close()
        with self.assertRaisesRegex(braid.InputError, "this job is closed"):
            job.synchronize()
        with self.assertRaisesRegex(braid.InputError, "this operation is closed"):
            op([], [])

    def test_refuses_jobs(self):
        for make, words in [(lambda: braid.create(ranks=0), "at least 1 rank"),
                            (lambda: self.job(3).prepare(braid.compile(gather(2))), "for 2 ranks"),
                            (lambda: braid.join(ranks=2, rank=2, name="x"), "got rank=2"),
                            (lambda: braid.join(ranks=2, name=""), "expected a job name"),
                            (lambda: braid.join(rank=1), "rank 1 requires a job name"),
                            (lambda: braid.join(device=-7), "device: expected an integer from 0"),
                            (lambda: braid.create(ranks=2**64 + 1), "ranks: expected an integer"),
                            (lambda: braid.create(2, max_bytes=-1), "max_bytes: expected an"),
                            (lambda: braid.create(2, timeout=float("inf")), "timeout: expected"),
                            (lambda: braid.create(2, timeout=float("nan")), "timeout: expected"),
                            (lambda: braid.create(2, timeout="1"), "timeout: expected a non-neg"),
                            (lambda: braid.create(2, backend=None), "backend: expected a str"),
                            (lambda: braid.join(ranks="2", name="x"), "ranks: expected an integer"),
                            (lambda: braid.join(ranks=2, name=5), "name: expected a str, got 5"),
                            (lambda: self.job(1).fail(5), "message: expected a str, got 5"),
                            (lambda: self.job(1).fail("x", "y"), "code: expected an integer"),
                            (lambda: self.job(3).prepare(
                                braid.compile(gather(2), ranks=2, schedule="auto")),
                             "is for 2 ranks, but the job has 3"),
                            (lambda: braid.join(ranks=2), "start it with torchrun")]:
            with self.assertRaisesRegex(braid.InputError, words):
                make()
        with self.assertRaisesRegex(braid.UnsupportedError, "got 'gpu'"):
            braid.create(ranks=2, backend="gpu")

    def test_a_child_of_fork_is_refused(self):
        job = self.job(2)
        op = job.prepare(braid.compile(gather(2)))
        child = os.fork()
        if child == 0:
            try:
                self.expect_gather(op, 2, "f32", np.random.default_rng(6))
            except braid.InputError as error:
                os._exit(7 if "fork()" in str(error) else 1)
            os._exit(1)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 7)
        self.expect_gather(op, 2, "f32", np.random.default_rng(7))


# Parts of tests whose ranks are processes. Each process runs this script with its part's name.

def joined(**options):
    job = braid.join(**options)
    return job, job.prepare(braid.compile(gather(job.ranks), ranks=job.ranks))


def run_gather(job, op, seed):
    random = np.random.default_rng(seed)
    A, B = draw(random, (12, 8), "f32"), draw(random, (8, 4), "f32")
    C = op(A.reshape(job.ranks, 1, -1, 8)[job.rank], B)
    np.testing.assert_array_equal(C.reshape(12, 4), A @ B)


def part_runs():
    job, op = joined()
    for seed in range(20):
        run_gather(job, op, seed)
    job.commit()
    op.close()
    job.close()


def part_leaves_everything_open():
    job, op = joined()
    run_gather(job, op, 1)
    job.commit()


def part_raises():
    """If one rank raises an exception, the others get its text, and all can join a new job."""
    try:
        with braid.join() as job:
            op = job.prepare(braid.compile(gather(job.ranks)))
            run_gather(job, op, 1)
            if job.rank == 1:
                raise KeyError("no such layer")
            for seed in range(1000):
                run_gather(job, op, seed)
                time.sleep(0.01)
    except KeyError:
        pass
    except braid.Error as error:
        assert "KeyError: 'no such layer'" in str(error), error
    else:
        raise AssertionError("expected an error on every rank")
    os.environ["BRAID_JOB"] += "-again"
    part_runs()


def part_is_killed():
    job, op = joined(timeout=5.0)
    run_gather(job, op, 1)
    if job.rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    begin = time.monotonic()
    try:
        for seed in range(1000):
            run_gather(job, op, seed)
            time.sleep(0.01)
    except braid.PeerError as error:
        assert "rank 1" in str(error), error
    else:
        raise AssertionError("expected an error")
    assert time.monotonic() - begin < 7
    del op, job
    os.environ.update(BRAID_JOB=os.environ["BRAID_JOB"] + "-again", BRAID_RANKS="2")
    os.environ["BRAID_RANK"] = str(int(os.environ["BRAID_RANK"]) // 2)
    part_runs()


def part_is_interrupted():
    """Ctrl-C interrupts a rank that waits for a rank that makes no call."""
    import threading
    job, op = joined()
    run_gather(job, op, 1)
    if job.rank == 0:
        threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
        begin = time.monotonic()
        try:
            job.commit()
        except KeyboardInterrupt:
            assert time.monotonic() - begin < 10
        else:
            raise AssertionError("expected KeyboardInterrupt")
    else:
        time.sleep(1)
    try:
        job.commit()
    except braid.PeerError as error:
        assert "rank 0 was interrupted" in str(error), error
    else:
        raise AssertionError("expected an error on every rank")


def part_ends_by_ctrl_c():
    """Ctrl-C interrupts a run. The job still exists when the interpreter exits."""
    global kept
    import threading
    kept = braid.create(ranks=2)
    op = kept.prepare(braid.compile(gather(2, rows=4096, depth=1024, columns=4096)))
    A, B = np.ones((2, 1, 2048, 1024), np.float32), np.ones((1024, 4096), np.float32)
    threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
    while True:
        op(list(A), [B, B])


def part_closes_the_library():
    """All handles are freed and the library is closed; exit functions must still work."""
    import _ctypes
    job = braid.create(ranks=1)
    job.prepare(braid.compile(gather(1))).close()
    job.close()
    gc.collect()
    _ctypes.dlclose(braid._library._library._handle)


def part_interrupts_no_other():
    """Ctrl-C during a call of one job does not abort the next call of another job."""
    import threading
    program, due = braid.compile(gather(1)), threading.Event()
    delays = np.random.default_rng(9).uniform(0, 6e-4, 400)

    def interrupt():
        for delay in delays:
            due.wait()
            due.clear()
            time.sleep(delay)
            os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()
    for _ in delays:
        first, second = braid.create(ranks=1), braid.create(ranks=1)
        try:
            due.set()
            while True:
                try:
                    first.synchronize()
                except braid.PeerError as error:  # the interrupt arrived during the call
                    assert "was interrupted" in str(error), error
        except KeyboardInterrupt:
            second.prepare(program).close()


def part_calls_in_a_handler():
    """A signal handler makes calls at arbitrary points of other calls."""
    job = braid.create(ranks=1)
    heard = []
    signal.signal(signal.SIGALRM, lambda *_: (job.synchronize(), heard.append(1)))
    signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
    while len(heard) < 1000:
        job.synchronize()
    signal.setitimer(signal.ITIMER_REAL, 0)


def part_passes_signals_on():
    """Under asyncio, Ctrl-C ends a blocking call, and asyncio still handles other signals."""
    import asyncio
    import threading
    job = braid.join()
    if job.rank != 0:
        time.sleep(1)
        try:
            job.commit()
        except braid.PeerError:
            return

    async def waits():
        heard = []
        asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, heard.append, 1)
        threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGUSR1)).start()
        threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
        begin = time.monotonic()
        try:
            job.commit()
        except braid.PeerError as error:
            assert "rank 0 was interrupted" in str(error), error
        assert time.monotonic() - begin < 10  # without Ctrl-C, the call would wait forever
        for _ in range(100):
            if heard:
                return
            await asyncio.sleep(0.01)
        raise AssertionError("expected SIGUSR1 to be heard")

    try:
        asyncio.run(waits())
    except KeyboardInterrupt:  # asyncio raises this for a cancelled task
        pass


def part_brings_another():
    job = braid.join()
    try:
        job.prepare(braid.compile(gather(job.ranks, columns=4 + job.rank)))
    except braid.Error as error:
        assert isinstance(error, braid.InputError) and "rank" in str(error), error
    else:
        raise AssertionError("expected an error")


def part_is_placed():
    """The even and the odd ranks form two concurrent jobs, regardless of the environment."""
    number = int(os.environ["BRAID_RANK"])
    job, op = joined(name=f"{os.environ['BRAID_JOB']} {number % 2}", rank=number // 2, ranks=2)
    assert (job.rank, job.ranks) == (number // 2, 2)
    for seed in range(20):
        run_gather(job, op, seed)
    op.close()
    job.close()


class Ranks(unittest.TestCase):
    def expect(self, part, codes):
        ranks = []
        begin = time.monotonic()
        for rank in range(len(codes)):
            environment = dict(os.environ, BRAID_RANK=str(rank), BRAID_RANKS=str(len(codes)),
                               BRAID_JOB=f"python-{os.getpid()}-{part}", BRAID_CACHE_DIR="none")
            ranks.append(subprocess.Popen([sys.executable, __file__, FOLDER, BRAID, "--part", part],
                                          env=environment, text=True, stderr=subprocess.PIPE))
        said = [each.communicate(timeout=60)[1] for each in ranks]
        self.assertEqual([each.returncode for each in ranks], codes, "\n".join(said))
        return time.monotonic() - begin

    def test_end_with_everything_open(self):
        self.assertLess(self.expect("leaves_everything_open", [0, 0, 0]), 20)

    def test_can_be_interrupted(self):
        self.assertLess(self.expect("is_interrupted", [0, 0]), 20)

    @unittest.skipIf(sys.version_info < (3, 11), "asyncio has no handler of Ctrl-C before 3.11")
    def test_pass_signals_on(self):
        self.expect("passes_signals_on", [0, 0])


for _part, _codes in (("runs", [0, 0, 0]), ("raises", [0, 0, 0]),
                      ("is_killed", [0, -signal.SIGKILL, 0]),
                      ("ends_by_ctrl_c", [-signal.SIGINT]), ("closes_the_library", [0]),
                      ("interrupts_no_other", [0]), ("calls_in_a_handler", [0]),
                      ("is_placed", [0, 0, 0, 0]), ("brings_another", [0, 0])):
    def _test(self, part=_part, codes=_codes):
        self.expect(part, codes)
    setattr(Ranks, f"test_{_part}", _test)


def braid_path(path):
    from pathlib import Path
    return Path(path)


if __name__ == "__main__":
    if "--part" in sys.argv:
        globals()["part_" + sys.argv[-1]]()
    else:
        unittest.main(argv=sys.argv[:1])
