"""Runs the Python code of the documents as a reader would. PyTorch pages run on two CPU ranks.

usage: pages_test.py PACKAGE_FOLDER     (from the root of the repository, with PyTorch)

All ```python blocks of a page form one script. A ```output block shows what rank 0 prints in the
block above it; "..." stands for any text within a line, or for any lines.
"""
import os
import re
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "docs"))
from docs_test import blocks, pattern_of  # noqa: E402

PACKAGE = ""
MARK = "=== block"


def script_of(page):
    """Returns the script, and for each block the output that the page shows, or None."""
    script, shown = "", []
    for language, _, text in blocks(page):
        if language == "python":
            script += f'print("{MARK}", flush=True)\n{text}'
            shown.append(None)
        elif language == "output":
            shown[-1] = text
    return script, shown


def run(script, ranks):
    launcher = [] if ranks == 1 else [
        "-m", "torch.distributed.run", "--nproc-per-node", str(ranks), "--rdzv-backend", "c10d",
        "--rdzv-endpoint", "localhost:0", "--local-ranks-filter", "0"]
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "page.py")
        with open(path, "w", encoding="utf-8") as file:
            file.write(script)
        environment = dict(os.environ, PYTHONPATH=PACKAGE, OMP_NUM_THREADS="1",
                           BRAID_CACHE_DIR=folder)
        return subprocess.run([sys.executable, *launcher, path], env=environment,
                              capture_output=True, text=True, timeout=900, check=False)


class Pages(unittest.TestCase):
    def test_blocks_run_and_print_what_is_shown(self):
        for page, ranks in (("README.md", 2), ("docs/pytorch.md", 2), ("docs/python.md", 1),
                            ("docs/frameworks/transformers.md", 2),
                            ("docs/frameworks/megatron.md", 1)):
            with self.subTest(page=page):
                script, shown = script_of(page)
                self.assertTrue(shown)
                done = run(script, ranks)
                self.assertEqual(done.returncode, 0, done.stderr)
                printed = done.stdout.split(MARK + "\n")[1:]
                self.assertEqual(len(printed), len(shown), done.stdout)
                for expected, got in zip(shown, printed):
                    if expected is not None:
                        self.assertIsNotNone(re.fullmatch(pattern_of(expected), got),
                                             f"shown:\n{expected}\nprinted:\n{got}")


if __name__ == "__main__":
    PACKAGE = os.path.abspath(sys.argv.pop(1))
    unittest.main()
