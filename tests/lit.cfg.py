# Settings of the text tests. A test is a .braid or .test file that contains lines such as
#
#   // RUN: %braid compile %s | FileCheck %s
#   // RUN: %exits 2 %braid compile %s 2>&1 | FileCheck %s --check-prefix=ERROR
#
# %braid     the command under test
# %examples  the folder of examples
# %python    the interpreter that runs lit
# %exits N   runs the rest of the command, and fails unless its exit status is N
# FileCheck, not and split-file are LLVM's tools; %s, %S and %t have their usual meaning in lit.
# Folders named `inputs` contain files that tests use.
import os

import lit.formats

config.name = "braid"
config.test_format = lit.formats.ShTest(execute_external=True)
config.suffixes = [".braid", ".test"]
config.excludes = ["inputs", "fuzz", "package"]
config.test_source_root = os.path.join(config.braid_source, "tests")
config.test_exec_root = os.path.join(config.braid_build, "tests")

bin_folder = os.path.join(config.braid_build, "bin")
config.environment["PATH"] = os.pathsep.join(
    [bin_folder, config.llvm_tools, os.environ.get("PATH", "")])
exits = os.path.join(config.test_source_root, "exits.sh")
config.substitutions += [
    ("%braid", os.path.join(bin_folder, "braid")),
    ("%examples", os.path.join(config.braid_source, "examples")),
    ("%exits", "sh " + exits),
    ("%python", config.python),
    ("%fake_nvml", os.path.join(config.braid_build, "lib", "libfake_nvml.so")),
]
if not os.path.exists("/dev/nvidia0"):
    config.available_features.add("no-gpu")
