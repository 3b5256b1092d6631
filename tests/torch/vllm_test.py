"""Tests the plugin for vLLM on CPU ranks, with a stand-in for vLLM.

usage: vllm_test.py FOLDER     (the folder that contains the package)
"""
import copy
import json
import os
import pickle
import sys
import unittest
import warnings

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import ranks as processes  # noqa: E402

FOLDER = sys.argv[1]
sys.path.insert(0, FOLDER)
# A graph that is loaded from a cache would not run the passes.
os.environ["TORCHINDUCTOR_FORCE_DISABLE_CACHES"] = "1"

try:
    import torch
    import torch.distributed as dist
    import vllm_standin as vllm
except ImportError as reason:
    print(f"skipped: expected PyTorch, got: {reason}")
    sys.exit(processes.SKIPPED)

import braid.torch as bt  # noqa: E402

vllm.install()
import braid.vllm as plugin  # noqa: E402

SLOT = "post_grad_custom_post_pass"
generator = torch.Generator().manual_seed(7)  # equal on all ranks


def draw(*shape):
    """Returns small integers, whose sums are exact."""
    return torch.randint(-2, 3, shape, generator=generator).float()


def configure(ranks=2, **options):
    """Sets vLLM's configuration, and returns it."""
    options.setdefault("compile_ranges_endpoints", (16, 64))
    config = vllm.VllmConfig(vllm.CompilationConfig(**options),
                             vllm.types.SimpleNamespace(tensor_parallel_size=ranks))
    vllm.set_current_vllm_config(config)
    return config


class Model(torch.nn.Module, vllm.TorchCompileWithNoGuardsWrapper):
    """A compiled model. function(model, x): what it computes."""

    def __init__(self, function, *layers):
        torch.nn.Module.__init__(self)
        self.function, self.layers = function, torch.nn.ModuleList(layers)
        vllm.TorchCompileWithNoGuardsWrapper.__init__(self)

    def forward(self, x):
        return self.function(self, x)

    def check(self, *inputs):
        """Compares the compiled model with the original one, for several numbers of rows. The
        numbers of rows after the first do not compile."""
        for x in inputs:
            torch._dynamo.mark_dynamic(x, 0)
            with torch.inference_mode():
                wanted = self.forward(x)
                vllm.calls.clear()
                assert torch.equal(self.compiled(x), wanted), (self.compiled(x), wanted)


class Before(vllm.InductorPass):
    """A user's pass, which records the graphs that it receives. It only runs for many rows."""

    seen = []

    def uuid(self):
        return "before"

    def is_applicable_for_range(self, sizes):
        return 64 in sizes

    def __call__(self, graph):
        self.seen.append([str(node.target) for node in graph.nodes])


def start():
    """Returns vLLM's group of all ranks. Loads the plugin as vLLM does, perhaps repeatedly."""
    plugin.register()
    init = vllm.TorchCompileWithNoGuardsWrapper.__init__
    plugin.register()
    assert vllm.TorchCompileWithNoGuardsWrapper.__init__ is init
    return vllm.GroupCoordinator(dist.group.WORLD, "tp")


def row(tp, inputs, outputs, bias=None):
    """Returns a layer. Its weight differs between the ranks."""
    weights = [draw(outputs, inputs) for _ in range(tp.world_size)]
    return vllm.RowParallelLinear(weights[tp.rank_in_group], bias, tp)


def mlp(model, x):
    first, second = model.layers
    return second(torch.relu(first(x))) + 1


def sites():
    return [(each.collective, each.number) for each in bt.report().taken]


def part_replaces(rank, ranks):
    """All-reduces of GEMMs are replaced in both ranges, for any number of rows."""
    tp = start()
    configure()
    model = Model(mlp, row(tp, 16, 24), row(tp, 24, 16))
    model.check(draw(20, 16), draw(5, 16), draw(1, 16), draw(64, 16))
    report = bt.report()
    assert not vllm.calls and not report.apart and not report.passed, report
    assert sum(number for _, number in sites()) == 4, report  # two in each of two graphs
    assert {each.operator for each in report.calls} == {"matmul_all_reduce"}, report
    assert sum(each.calls for each in report.calls) == 8, report


def part_leaves(rank, ranks):
    """Collectives that are not replaced still run vLLM's operators."""
    tp, table = start(), draw(10, 16)
    weight = draw(16, 8)

    def embed(model, x):  # as VocabParallelEmbedding
        rows = x[:, 0].long().abs()
        mine = rows % ranks == rank
        return tp.all_reduce(torch.where(mine[:, None], table[rows], 0)) @ weight

    def columns(model, x):
        return tp.all_gather(x @ weight, 1)

    for function, names in ((embed, ["all_reduce"]), (columns, ["all_gather"])):
        torch._dynamo.reset()
        configure()
        Model(function).check(draw(20, 16), draw(6, 16))
        assert vllm.calls == names, vllm.calls
    assert not bt.report().calls and not sites(), bt.report()


def part_sequence_parallel(rank, ranks):
    """Gathers and reduce-scatters of rows next to GEMMs are replaced."""
    tp, weight, down = start(), draw(16, 8), draw(8, 16)

    def layer(model, x):
        return tp.reduce_scatter(torch.relu(tp.all_gather(x, 0) @ weight) @ down, 0)
    configure()
    Model(layer).check(draw(20, 16), draw(6, 16))
    assert not vllm.calls, bt.report()
    assert {each.collective for each in bt.report().taken} == {"all_gather", "reduce_scatter"}
    assert {each.operator for each in bt.report().calls} == {"all_gather_matmul",
                                                             "matmul_reduce_scatter"}


def part_restores(rank, ranks):
    """A graph in which nothing is replaced does not change at all."""
    tp, ops = start(), torch.ops.vllm
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    x.meta["val"] = torch.empty(4, 8)
    y = graph.call_function(ops.all_reduce.default, (x,), {"group_name": tp.unique_name})
    z = graph.call_function(ops.all_gather.default, (y, 0, ranks, tp.unique_name))
    last = graph.call_function(ops.reduce_scatter.default, (z, -2, ranks, tp.unique_name))
    for node in y, z, last:
        node.meta["val"] = node.target(*torch.fx.node.map_arg(
            node.args, lambda each: each.meta["val"]), **node.kwargs)
    graph.output(last)
    before = str(graph), [id(node) for node in graph.nodes]
    with vllm.pass_context(range(1, 5)):
        plugin.CollectivesPass(None)(graph)
    graph.lint()
    assert (str(graph), [id(node) for node in graph.nodes]) == before, str(graph)


def part_keys(rank, ranks):
    """vLLM's cache keys depend on the plugin and on the user's pass, which runs first."""
    tp, keys = start(), set()
    for options in ({}, {SLOT: Before()}):
        config = configure(inductor_compile_config=options)
        keys.add(config.compute_hash())
        layers = row(tp, 16, 24), row(tp, 24, 16)
        for _ in range(2):  # the models of one configuration share the pass
            torch._dynamo.reset()
            model = Model(mlp, *layers)
            added = options[SLOT]
            assert isinstance(added, plugin.CollectivesPass)
            assert not isinstance(added.first, plugin.CollectivesPass)
        keys.add(config.compute_hash())
        for each in copy.deepcopy(added), pickle.loads(pickle.dumps(added)):
            assert json.loads(json.dumps(each.uuid())) == added.uuid()
        each.replaces = False
        assert each.uuid() != added.uuid()
    assert len(keys) == 4, keys
    model.check(draw(20, 16))
    assert len(Before.seen) == 1 and Before.seen[0].count("vllm.all_reduce.default") == 2
    assert not vllm.calls, vllm.calls


def part_bias(rank, ranks):
    """Nothing is replaced on any rank if one rank's graph has a bias."""
    tp = start()
    config = configure()
    layers = row(tp, 16, 24, draw(24)), row(tp, 24, 16)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = Model(mlp, *layers)
    assert "RowParallelLinear layers add a bias" in str(caught[0].message), caught
    assert not config.compilation_config.inductor_compile_config[SLOT].replaces
    model.check(draw(20, 16), draw(5, 16))
    assert vllm.calls == ["all_reduce"] * 2, vllm.calls
    assert not bt.report().calls and not sites(), bt.report()


def part_off(rank, ranks):
    """The configuration does not change if vLLM does not compile or has no tensor parallelism."""
    start()
    for options in ({"ranks": 1}, {"mode": vllm.CompilationMode.NONE}, {"backend": "eager"}):
        config = configure(**options)
        Model(mlp)
        assert config.compilation_config.inductor_compile_config == {}, options


class Ranks(unittest.TestCase):
    def expect(self, part):
        codes, said, _ = processes.run(part, 2, limit=180)
        self.assertEqual(codes, [0, 0], "\n".join(said)[-6000:])

    def test_replaces(self):
        self.expect("replaces")

    def test_leaves(self):
        self.expect("leaves")

    def test_sequence_parallel(self):
        self.expect("sequence_parallel")

    def test_restores(self):
        self.expect("restores")

    def test_keys(self):
        self.expect("keys")

    def test_bias(self):
        self.expect("bias")

    def test_off(self):
        self.expect("off")


if __name__ == "__main__":
    processes.main(globals(), torch)
