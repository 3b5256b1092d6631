"""Schedules for shapes of which nothing was measured, on GPUs: what was fastest for about as much
arithmetic on 2 H100 or H200, and on 4 H200 (docs/performance.md)."""
from __future__ import annotations

import math
from typing import Dict, List, Tuple

FEW_ROWS = 512  # of a rank: GEMMs of fewer waste the machine

# Below so many multiplications of a rank, this.
_GUESSES: Dict[str, Tuple[Tuple[float, str], ...]] = {
    "all_gather_matmul": ((6e9, "bulk;protocol=put;copies=kernel"),
                          (20e9, "pairwise;protocol=put;copies=kernel"),
                          (math.inf, "pairwise;placement=shared;protocol=put;signals=memory")),
    "matmul_reduce_scatter": ((6e9, "bulk;copies=kernel"),
                              (math.inf, "pairwise;placement=shared;signals=memory")),
    "matmul_all_reduce": ((40e9, "bulk;copies=kernel"),
                          (math.inf, "pairwise;placement=shared;reduction=two-shot;protocol=put;"
                                     "chunks=2;streams=6;signals=memory")),
}
# For all_gather_matmul that returns the gathered A, which comes into the output if it is pulled. If
# it is pushed it is copied there, which in bulk nothing hides.
_RETURNING = ((6e9, "bulk;copies=kernel"), *_GUESSES["all_gather_matmul"][1:])
# From so many on, up to that depth, if there are two ranks: more would round on the way. Where a
# GEMM takes less than the link, it stores over the link itself.
_SCATTERS_OF_TWO: Tuple[Tuple[float, float, str], ...] = (
    (6e9, 2048, "ring;sums=gemm;protocol=put;partials=peer;streams=1;copies=kernel"),
    (200e9, math.inf, "ring;sums=gemm;chunks=2;signals=memory"))
# From so many elements on that more than two ranks have: in one shot each takes all from all.
_ELEMENTS_OF_TWO_SHOTS = 1 << 18
_TWO_SHOTS = "bulk;reduction=two-shot;second-shot=put;copies=kernel"


def guesses(operator: str, extents: Tuple[int, int, int], ranks: int,
            returns_gathered: bool = False) -> List[str]:
    """The best first; a shape may not have it. `extents` and `returns_gathered`: as Layout has
    them."""
    M, N, K = extents
    multiplications = float(M) * N * K
    of_operator = _RETURNING if returns_gathered else _GUESSES[operator]
    if M < FEW_ROWS * ranks:
        takes_two = (operator == "matmul_all_reduce" and ranks > 2
                     and M * N >= _ELEMENTS_OF_TWO_SHOTS)
        return [_TWO_SHOTS] * takes_two + [of_operator[0][1]]
    found = [schedule for most, schedule in of_operator if multiplications < most][:1]
    if (operator, ranks) == ("matmul_reduce_scatter", 2):
        found = [schedule for least, depth, schedule in _SCATTERS_OF_TWO
                 if multiplications >= least and K <= depth][:1] + found
    return found
