"""Runs a Llama of transformers with its own tensor parallelism and with Braid, on CPU ranks.

usage: transformers_test.py FOLDER     (the folder that contains the package)

The model has random weights. If transformers is not installed, prints the reason and exits with 77.
"""
import logging
import os
import signal
import sys
import tempfile
import unittest
import warnings

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import ranks as processes  # noqa: E402

sys.path.insert(0, sys.argv[1])

try:
    import torch
    import torch.distributed as dist
    from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM
    from transformers.distributed import DistributedConfig
    import accelerate  # noqa: F401 (transformers needs it to load a model in parallel)
except ImportError as reason:
    print(f"skipped: expected PyTorch, transformers and accelerate, got: {reason}")
    sys.exit(processes.SKIPPED)

import braid  # noqa: E402
import braid.torch as bt  # noqa: E402
import braid.transformers  # noqa: E402

STYLES = {"colwise": "braid_colwise", "rowwise": "braid_rowwise"}
prompt = torch.arange(24).view(2, 12) * 7 % 96


def save(folder, **options):
    """Saves a model with random weights. Collective."""
    logging.getLogger("transformers").setLevel(logging.ERROR)
    warnings.simplefilter("ignore")
    if dist.get_rank() == 0:
        torch.manual_seed(0)
        LlamaForCausalLM(LlamaConfig(**{**dict(
            hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=8,
            num_key_value_heads=4, vocab_size=96, max_position_embeddings=64), **options})
        ).save_pretrained(folder)
    dist.barrier()


def load(folder, plan="auto", **options):
    config = DistributedConfig(tp_size=dist.get_world_size(), tp_plan=plan)
    return AutoModelForCausalLM.from_pretrained(folder, distributed_config=config, **options)


def generated(model, **options):
    return model.generate(prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=8,
                          do_sample=False, pad_token_id=0, **options)


def calls():
    return sum(each.calls for each in bt.report().calls)


def expect_alike(model, other, tolerance=2e-6):
    with torch.no_grad():
        expected, got = model(prompt).logits, other(prompt).logits
    assert (got - expected).abs().max() <= tolerance * expected.abs().max(), (got, expected)


def part_generates(rank, ranks):
    folder = os.environ["TEST_MODEL"]
    save(folder, attention_bias=True, mlp_bias=True)
    model = load(folder)
    plan = {name: STYLES.get(style, style) for name, style in model.tp_plan.items()}
    assert set(STYLES.values()) <= set(plan.values()), plan
    changed = load(folder)
    assert braid.transformers.parallelize(braid.transformers.parallelize(changed)) is changed
    for other in (changed, load(folder, plan)):
        bt.report(clear=True)
        expect_alike(model, other)
        assert calls() == 4, bt.report()  # two for each layer
        for options in ({}, {"cache_implementation": "static"}):
            assert torch.equal(generated(model, **options), generated(other, **options))
    names = [name for name, _ in model.named_parameters()]
    assert names == [name for name, _ in changed.named_parameters()]


def part_compiles(rank, ranks):
    folder = os.environ["TEST_MODEL"]
    save(folder)
    model, other = load(folder), braid.transformers.parallelize(load(folder))
    compiled = torch.compile(other, backend="aot_eager", fullgraph=True)
    expect_alike(model, compiled)
    for each in (model, compiled):
        each(prompt, labels=prompt).loss.backward()
    expect_equal_gradients(model, other)


def whole(tensor):
    return tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor


def expect_equal_gradients(model, other):
    for (name, p), (_, q) in zip(model.named_parameters(), other.named_parameters()):
        expected, got = whole(p.grad), whole(q.grad)
        assert (got - expected).abs().max() <= 2e-5 * expected.abs().max(), name


def part_trains(rank, ranks):
    folder = os.environ["TEST_MODEL"]
    save(folder, num_hidden_layers=1)
    for dtype, rate, tolerance in (torch.float32, 0.05, 1e-5), (torch.bfloat16, 0.01, 0.01):
        models = [load(folder, dtype=dtype), load(folder, dtype=dtype)]
        braid.transformers.parallelize(models[1])
        optimizers = [torch.optim.SGD(model.parameters(), rate) for model in models]
        for step in range(20):
            losses = []
            for model, optimizer in zip(models, optimizers):
                optimizer.zero_grad()
                loss = model(prompt, labels=prompt).loss
                loss.backward()
                losses.append(loss.item())
            if step == 0 and dtype == torch.float32:
                expect_equal_gradients(*models)
            for optimizer in optimizers:
                optimizer.step()
            assert abs(losses[1] - losses[0]) <= tolerance * losses[0], (step, losses)
        assert losses[0] < 4.2, losses  # the models learn


def part_autocast(rank, ranks):
    """As in mixed-precision training, the backward pass runs without autocast."""
    folder = os.environ["TEST_MODEL"]
    save(folder)
    losses, gradients = [], []
    for model in load(folder), braid.transformers.parallelize(load(folder)):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = model(prompt, labels=prompt).loss
        loss.backward()
        losses.append(loss.item())
        gradients.append([whole(each.grad) for each in model.parameters()])
    assert abs(losses[1] - losses[0]) < 0.01 * losses[0], losses
    for expected, got in zip(*gradients):
        assert expected.dtype == got.dtype == torch.float32
        assert (got - expected).abs().max() <= 0.03 * expected.abs().max(), (got, expected)


def part_fully_sharded(rank, ranks):
    """FSDP2 shards the parallel weights along another dimension of a mesh."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    folder = os.environ["TEST_MODEL"]
    save(folder)
    mesh, losses = init_device_mesh("cpu", (1, ranks), mesh_dim_names=("dp", "tp")), []
    for change in (lambda model: model, braid.transformers.parallelize):
        model = load(folder)
        for layer in model.model.layers:
            fully_shard(layer, mesh=mesh["dp"])
        fully_shard(model, mesh=mesh["dp"])
        bt.report(clear=True)
        losses.append(change(model)(prompt, labels=prompt).loss)
        losses[-1].backward()
    assert abs(losses[1] - losses[0]) < 1e-5, losses
    assert calls() > 0, bt.report()


def part_refuses(rank, ranks):
    """Layers that are not split evenly run as before."""
    folder = os.environ["TEST_MODEL"]
    save(folder, intermediate_size=96 + ranks // 2)
    model, other = load(folder), braid.transformers.parallelize(load(folder))
    bt.report(clear=True)
    expect_alike(model, other)
    assert calls() == 2, bt.report()  # the layers of the MLP do not divide
    row, other_row = (each.model.layers[0].self_attn.o_proj for each in (model, other))
    x = torch.ones(64 // ranks)  # not a matrix
    with torch.no_grad():
        assert torch.equal(row(x), other_row(x))
    try:
        braid.transformers.parallelize(torch.nn.Linear(2, 2))
    except braid.InputError as error:
        assert "Linear" in str(error), error
    try:
        braid.transformers.parallelize(LlamaForCausalLM(LlamaConfig(
            hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=2,
            vocab_size=8)))
    except braid.InputError as error:
        assert "tp_size" in str(error), error
    else:
        raise AssertionError("expected an error")


def part_killed(rank, ranks):
    folder = os.environ["TEST_MODEL"]
    save(folder)
    model = braid.transformers.parallelize(load(folder))
    generated(model)
    if rank == 1:  # between two of Braid's operators, because Gloo runs the embedding's all-reduce
        model.model.layers[0].mlp.register_forward_pre_hook(
            lambda *_: os.kill(os.getpid(), signal.SIGKILL))
    try:
        generated(model)
    except braid.PeerError as error:
        print(f"ended: {error}", flush=True)


class Ranks(unittest.TestCase):
    def run_part(self, part, ranks):
        with tempfile.TemporaryDirectory() as folder:
            return processes.run(part, ranks, 300, TEST_MODEL=folder)

    def expect(self, part, *counts):
        for ranks in counts:
            codes, said, _ = self.run_part(part, ranks)
            self.assertEqual(codes, [0] * ranks, "\n".join(said))

    def test_generates(self):
        self.expect("generates", 2, 4)

    def test_trains(self):
        self.expect("trains", 2, 4)

    def test_compiles(self):
        self.expect("compiles", 2)

    def test_autocast(self):
        self.expect("autocast", 2)

    def test_fully_sharded(self):
        self.expect("fully_sharded", 2)

    def test_refuses(self):
        self.expect("refuses", 2)

    def test_killed(self):
        for ranks in (2, 4):
            codes, said, _ = self.run_part("killed", ranks)
            self.assertEqual(codes[1], -signal.SIGKILL, said)
            for rank in set(range(ranks)) - {1}:
                self.assertRegex(said[rank], "ended: .*rank 1")


if __name__ == "__main__":
    processes.main(globals(), torch)
