"""Tests how graph nodes rearrange a tensor, by comparison with what the graph computes, and which
GEMMs run beside a transfer.

usage: sites_test.py FOLDER     (the folder that contains the package)
"""
import random
import sys
import unittest
from operator import getitem

sys.path.insert(0, sys.argv[1])

try:
    import torch
    from torch.fx.experimental.proxy_tensor import make_fx
except ImportError as reason:
    print(f"skipped: expected PyTorch, got: {reason}")
    sys.exit(77)

from braid.torch import (_beside, _fused, _rearrange, _sites,  # noqa: E402,F401
                         _transfer)  # _fused defines operators


def split_and_joined(x, count, dim, to):
    return torch.cat(x.split(x.shape[dim] // count, dim), to)


def drawn(draw, shape):
    """Returns a random rearrangement of tensors of `shape`, or None if the drawn one does not
    exist."""
    kind, dims = draw.randrange(5), len(shape)
    axis, other = draw.randrange(dims), draw.randrange(dims)
    factor = draw.choice((2, 3))
    if kind == 0:
        return lambda x: x.transpose(axis, other)
    if kind == 1 and shape[axis] % factor == 0:
        sizes = [*shape[:axis], factor, shape[axis] // factor, *shape[axis + 1:]]
        return lambda x: x.reshape(sizes)
    if kind == 2 and axis + 1 < dims:
        sizes = [*shape[:axis], shape[axis] * shape[axis + 1], *shape[axis + 2:]]
        return lambda x: x.reshape(sizes)
    if kind == 3 and shape[axis] % factor == 0:
        return lambda x: split_and_joined(x, factor, axis, other)
    if kind == 4:
        return lambda x: x.unsqueeze(axis).contiguous()
    return None


def chain(draw, shape, steps):
    """Returns a function that makes several random rearrangements."""
    functions, x = [], torch.empty(shape)
    while len(functions) < steps:
        function = drawn(draw, tuple(x.shape))
        if function is not None:
            functions.append(function)
            x = function(x)

    def run(x):
        for function in functions:
            x = function(x)
        return x
    return run


def indices(dims):
    """Returns the index of each element in the source."""
    found = torch.zeros([1] * len(dims), dtype=torch.long)
    for axis, atoms in enumerate(dims):
        along = torch.zeros(1, dtype=torch.long)
        for atom in atoms:
            along = (along[:, None] + torch.arange(atom.extent) * atom.stride).flatten()
        found = found + along.reshape([-1 if each == axis else 1 for each in range(len(dims))])
    return found


def traced(function, x):
    """Returns the nodes of the graph of `function` that rearrange its input, and its result."""
    graph = make_fx(function, tracing_mode="fake")(x).graph
    source, output = next(iter(graph.nodes)), list(graph.nodes)[-1]
    found = _rearrange.rearrangements(source, _rearrange.contiguous(x.shape))
    return found, output.args[0]


class Rearrangements(unittest.TestCase):
    def test_random_chains(self):
        draw = random.Random(3)
        known = 0
        for _ in range(120):
            shape = [draw.choice((1, 2, 3, 4, 6)) for _ in range(draw.randrange(2, 5))]
            x = torch.arange(torch.Size(shape).numel()).reshape(shape)
            function = chain(draw, shape, draw.randrange(1, 6))
            found, result = traced(function, x)
            if result in found:
                known += 1
                self.assertTrue(torch.equal(indices(found[result]), function(x)), found[result])
        self.assertGreater(known, 90)

    def test_other_parts_are_not_rearrangements(self):
        x = torch.arange(24).reshape(4, 6)
        for function in (lambda x: torch.cat(x.split(2, 0)[::-1], 1),  # in another order
                         lambda x: torch.cat(x.split(3, 1)[:1], 0),  # not all
                         lambda x: torch.cat([x[:2], x[2:], x[:2]], 1),
                         lambda x: x.expand(2, 4, 6), lambda x: x + 1):
            found, result = traced(function, x)
            self.assertNotIn(result, found)

    def test_slices(self):
        x = torch.arange(24).reshape(4, 6)

        def function(x):
            return torch.cat([torch.ops.aten.slice(x, 0, i, i + 2) for i in (0, 2)], 1)
        found, result = traced(function, x)
        self.assertTrue(torch.equal(indices(found[result]), function(x)))


class SharedGathers(unittest.TestCase):
    def test_put_the_widest_first(self):
        """The results keep their users."""
        graph, widths = torch.fx.Graph(), (4, 16, 8)

        def add(target, *arguments):
            node = graph.call_function(target, arguments)
            node.meta["val"] = target(*torch.fx.node.map_arg(arguments, lambda x: x.meta["val"]))
            return node
        inputs = [graph.placeholder(f"p{number}") for number in range(4)]
        with torch._subclasses.FakeTensorMode():
            for node, shape in zip(inputs, [(3, 8), *((8, width) for width in widths)]):
                node.meta["val"] = torch.empty(shape)
            gather = graph.call_function(_sites.GATHER, (inputs[0], 2, "g"))
            wait = graph.call_function(torch.ops._c10d_functional.wait_tensor.default, (gather,))
            gather.meta["val"], wait.meta["val"] = torch.empty(6, 8), torch.empty(6, 8)
            graph.output(tuple(add(torch.ops.aten.mm.default, wait, B) for B in inputs[1:]))
            _sites.replace_gather(gather)
        graph.lint()
        [site] = [node for node in graph.nodes
                  if node.target is torch.ops.braid.gather_gemms.default]
        self.assertEqual(site.args[1], [inputs[2], inputs[3], inputs[1]])
        [results] = [node.args[0] for node in graph.nodes if node.op == "output"]
        self.assertEqual([tuple(node.meta["val"].shape) for node in results],
                         [(6, width) for width in widths])


class Reductions(unittest.TestCase):
    def replaced(self, moves, also_returns):
        """Returns the graph of a replaced reduce-scatter, and what is returned."""
        graph = torch.fx.Graph()

        def add(target, *arguments):
            node = graph.call_function(target, arguments)
            node.meta["val"] = target(*torch.fx.node.map_arg(arguments, lambda x: x.meta["val"]))
            return node
        A, B = graph.placeholder("A"), graph.placeholder("B")
        aten, wait = torch.ops.aten, torch.ops._c10d_functional.wait_tensor.default
        with torch._subclasses.FakeTensorMode():
            A.meta["val"], B.meta["val"] = torch.empty(4 * 8, 5), torch.empty(5, 6)
            y = add(aten.reshape.default, add(aten.mm.default, A, B), [4, 8, 6])
            if moves:
                y = add(aten.clone.default, add(aten.permute.default, y, [1, 0, 2]))
                y.meta["val"] = y.meta["val"].contiguous()
            else:
                y = add(aten.reshape.default, y, [32, 6])
            collective = graph.call_function(_sites.SCATTER, (y, "sum", 2, "g"))
            shape = y.meta["val"].shape
            collective.meta["val"] = y.meta["val"].new_empty(shape[0] // 2, *shape[1:])
            waited = graph.call_function(wait, (collective,))
            waited.meta["val"] = collective.meta["val"]
            graph.output((waited, collective) if also_returns else (waited,))
            _sites.replace_reduction(collective)
        graph.lint()
        self.assertFalse([node for node in graph.nodes if node.target in (_sites.SCATTER, wait)])
        [results] = [node.args[0] for node in graph.nodes if node.op == "output"]
        self.assertEqual(len(set(results)), 1)
        self.assertEqual(results[0].meta["val"].shape, waited.meta["val"].shape)
        self.assertTrue(results[0].meta["val"].is_contiguous())
        return [node.target for node in graph.nodes]

    def test_rows_moved_to_the_front(self):
        """Each sequence is scattered, and the rows of the result are moved to the front."""
        for also_returns in (False, True):
            self.assertIn(torch.ops.aten.clone.default, self.replaced(True, also_returns))
            self.assertNotIn(torch.ops.aten.clone.default, self.replaced(False, also_returns))


class Beside(unittest.TestCase):
    """A chain of gathers, and one GEMM whose result only the graph returns."""

    def overlapped(self, gathers, place, least=1):
        """Returns the graph, and the number of the gather beside which the GEMM behind the gather
        `place` runs, or None. The GEMM multiplies the input, which it transposes."""
        graph = torch.fx.Graph()

        def add(target, *arguments):
            node = graph.call_function(target, arguments)
            node.meta["val"] = target(*torch.fx.node.map_arg(arguments, lambda x: x.meta["val"]))
            return node
        x, w = graph.placeholder("x"), graph.placeholder("w")
        with torch._subclasses.FakeTensorMode():
            x.meta["val"], w.meta["val"] = torch.empty(4, 8), torch.empty(8, 8)
            y, results = x, []
            for number in range(gathers):
                both = add(torch.ops.braid.gather_gemms.default, y, [w], [None], False, "g", 2,
                           [], [])
                y = add(torch.ops.aten.slice.Tensor, add(getitem, both, 0), 0, 0, 4)
                for _ in range(3):  # nodes on which the GEMM does not depend
                    y = add(torch.ops.aten.relu.default, y)
                if number == place:
                    turned = add(torch.ops.aten.permute.default, x, [1, 0])
                    results.append(add(torch.ops.aten.mm.default, turned, x))
            graph.output((y, *results))
            _transfer._OPERATIONS_PER_BYTE, _transfer._LEAST_OPERATIONS = 0, least
            _transfer.devices.add("cpu")
            _beside.overlap(graph)
        graph.lint()  # fails if a node uses a later one
        sites = [node for node in graph.nodes
                 if node.target is torch.ops.braid.gather_gemms.default]
        taken = [number for number, node in enumerate(sites) if node.args[6]]
        self.assertLessEqual(len(taken), 1)
        left = any(node.target is torch.ops.aten.mm.default for node in graph.nodes)
        self.assertEqual(left, not taken)
        return taken[0] if taken else None

    def test_takes_the_nearest(self):
        self.assertEqual([self.overlapped(6, place) for place in range(6)], [0, 0, 1, 2, 3, 4])

    def test_leaves_what_is_too_small(self):
        operations = 2 * 8 * 4 * 8
        self.assertEqual(self.overlapped(1, 0, least=operations), 0)
        self.assertIsNone(self.overlapped(1, 0, least=operations + 1))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
