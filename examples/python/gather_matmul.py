"""Braid from Python: lowers, checks and runs a fusion on NumPy arrays.

Each of four ranks has two rows of A and computes all eight rows of C = A * B.
"""
import numpy as np

import braid

f = braid.Fusion("gather_matmul")
D, M, K, N = f.parameters(D=4, M=8, K=3, N=2)
f.mesh(D)
A = f.input("A", "f32", [braid.didx(D), M / D, K])
B = f.input("B", "f32", [K, N])
f.output(f.matmul("C", A, B, "f32", [braid.stream(D), M / D, N]))

program = braid.compile(f)
print(program)
print(program.check())

a = np.arange(24, dtype=np.float32).reshape(4, 1, 2, 3)
b = np.ones((3, 2), np.float32)
with braid.create(ranks=4) as job:
    op = job.prepare(program)
    c = op(list(a), [b] * 4)
    op.close()
wrong = sum(int((each.reshape(8, 2) != a.reshape(8, 3) @ b).sum()) for each in c)
print(f"{wrong} of {4 * 16} elements wrong")
raise SystemExit(wrong != 0)
