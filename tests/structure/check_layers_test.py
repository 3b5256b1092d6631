#!/usr/bin/env python3
"""Violates each rule of check_layers.py once, in a temporary tree."""
import os
import tempfile
import unittest

import check_layers


class CheckLayers(unittest.TestCase):
    def check(self, files):
        with tempfile.TemporaryDirectory() as root:
            for path, text in files.items():
                os.makedirs(os.path.dirname(os.path.join(root, path)) or root, exist_ok=True)
                with open(os.path.join(root, path), "w", encoding="utf-8") as file:
                    file.write(text)
            return list(check_layers.violations(root))

    def test_accepts_a_sound_tree(self):
        self.assertEqual([], self.check({
            "ir/CMakeLists.txt": "braid_library(braid_ir SOURCES a.cpp)\n",
            "ir/a.cpp": '#include "ir/a.h"\n#include "llvm/ADT/ArrayRef.h"\n#include <vector>\n',
            "backends/cpu/x.h": '#include "runtime/execute/device.h"\n',
            "backends/cuda/x.h": "#include <cuda_runtime.h>\n",
            "lowering/CMakeLists.txt": "braid_library(braid_lowering LINK braid_ir)\n",
        }))

    def test_refuses_an_include_upwards(self):
        self.assertEqual(
            ["lowering/a.h:2: expected lowering to include only ir, lowering"],
            self.check({"lowering/a.h": '#pragma once\n#include "runtime/plan/plan.h"\n'}))

    def test_refuses_an_include_of_a_room_above(self):
        self.assertEqual([], self.check({"runtime/check/a.h": '#include "runtime/plan/plan.h"\n'
                                                              '#include "runtime/progress.h"\n'}))
        self.assertEqual(
            ["runtime/check/a.h:1: expected runtime/check to include only runtime/check, "
             "runtime/plan"],
            self.check({"runtime/check/a.h": '#include "runtime/execute/device.h"\n'}))
        self.assertEqual(
            ["runtime/job/bootstrap/a.h:1: expected runtime/job/bootstrap to include only "
             "runtime/job/bootstrap"],
            self.check({"runtime/job/bootstrap/a.h": '#include "runtime/job/calls.h"\n'}))

    def test_refuses_inner_names_in_headers_for_users(self):
        self.assertEqual([], self.check({
            "api/a.h": '#include "api/status.h"\n#include <span>\n',
            "api/status.h": "#include <string>\n",
            "ir/a.h": '#include "api/status.h"\n'}))
        for header in ('"ir/type.h"', '"api/ranks/run.h"', "<llvm/ADT/ArrayRef.h>"):
            self.assertEqual(["api/a.h:1: expected a header for users to include only those, and "
                              "standard ones"], self.check({"api/a.h": f"#include {header}\n"}))
        for line in ("llvm::StringRef name();", "cudaStream_t stream;"):
            self.assertEqual(["api/a.h:1: expected a header for users to name nothing of LLVM or "
                              "CUDA"], self.check({"api/a.h": line + "\n"}))
        self.assertEqual(["ir/a.h:1: expected ir to include only ir"],
                         self.check({"ir/a.h": '#include "api/session.h"\n'}))
        self.assertEqual(["api: expected at most 8 headers for users, got 9"],
                         self.check({f"api/{name}.h": "" for name in "abcdefghi"}))

    def test_refuses_an_include_beside_itself(self):
        self.assertEqual(
            ['ir/a.h:1: expected an include rooted at the repository, like "ir/program.h"'],
            self.check({"ir/a.h": '#include "type.h"\n'}))

    def test_refuses_vendor_headers_elsewhere(self):
        for header in ("<cuda.h>", '"nccl.h"', "<cublasLt.h>"):
            self.assertEqual(["backends/cpu/a.h:1: expected CUDA and NCCL headers below "
                              "backends/cuda/ and backends/nccl/ only"],
                             self.check({"backends/cpu/a.h": f"#include {header}\n"}))

    def test_refuses_a_link_upwards(self):
        self.assertEqual(["runtime/CMakeLists.txt:1: expected runtime to link only ir, runtime"],
                         self.check({"runtime/CMakeLists.txt": "x(LINK braid_backend_cpu)\n"}))

    def test_refuses_a_source_that_nothing_builds(self):
        self.assertEqual(["ir/b.cpp: expected a CMakeLists.txt that names it"],
                         self.check({"ir/CMakeLists.txt": "", "ir/b.cpp": "\n"}))

    def test_refuses_an_example_that_no_list_names(self):
        found = self.check({"examples/README.md": "[a](a.braid)\n", "examples/a.braid": "",
                            "examples/b.braid": ""})
        self.assertEqual(found, ["examples/b.braid: expected examples/README.md to name it"])

    def test_refuses_long_lines_and_blanks(self):
        self.assertEqual(["ir/a.h:1: expected at most 100 columns, got 101"],
                         self.check({"ir/a.h": "x" * 101 + "\n"}))
        self.assertEqual(["a.md:1: expected no blanks at the end of a line"],
                         self.check({"a.md": "x \n"}))

    def test_refuses_paths_of_a_machine(self):
        self.assertEqual(["a.md:1: expected no path of one particular machine"],
                         self.check({"a.md": "see /ho" "me/me/braid\n"}))

    def test_refuses_what_newer_versions_of_llvm_lack(self):
        self.assertEqual(["ir/a.h:1: expected take_front() or starts_with(): LLVM 19 has no "
                          "StringRef::startswith()"],
                         self.check({"ir/a.h": 'if (text.startswith("x"))\n'}))
        self.assertEqual([], self.check({"ir/a.h": 'if (text.starts_with("x"))\n'}))

    def test_refuses_work_put_off(self):
        self.assertEqual(["ir/a.h:1: expected no note about work put off"],
                         self.check({"ir/a.h": "// TO" "DO: later\n"}))


if __name__ == "__main__":
    unittest.main()
