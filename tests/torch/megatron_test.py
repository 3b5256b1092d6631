"""Runs GPT models of Megatron-LM with its own linear layers and with Braid's, on CPU ranks.

usage: megatron_test.py FOLDER     (the folder that contains the package)

Both are compared with a model on a single rank. If megatron-core is not installed, prints the
reason and exits with 77.
"""
import contextlib
import os
import signal
import sys
import tempfile
import unittest
import warnings

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import ranks as processes  # noqa: E402

sys.path.insert(0, sys.argv[1])
warnings.simplefilter("ignore")  # about optional packages

try:
    import torch
    import torch.distributed as dist
    from megatron.core import parallel_state
    from megatron.core.models import backends
    from megatron.core.models.gpt import GPTModel
    from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec
    from megatron.core.tensor_parallel import random
    from megatron.core.transformer import transformer_block
    from megatron.core.transformer.spec_utils import import_module
    from megatron.core.transformer.transformer_config import TransformerConfig
except ImportError as reason:
    print(f"skipped: expected PyTorch and megatron-core, got: {reason}")
    sys.exit(processes.SKIPPED)


class Norm:
    """PyTorch's norm. Megatron's wrapper of it refuses sequence parallelism."""

    def __new__(cls, config, hidden_size, eps=1e-5, **_):
        norm = torch.nn.LayerNorm(hidden_size, eps)
        for parameter in norm.parameters():
            parameter.sequence_parallel = config.sequence_parallel
        return norm


backends.LNImpl = transformer_block.LayerNormImpl = Norm
# Megatron allocates buffers on the current GPU, and keeps random states of GPUs.
torch.cuda.current_device = lambda: torch.device("cpu")
random.CudaRNGStatesTracker.fork = lambda self, name="": contextlib.nullcontext()

import braid  # noqa: E402
import braid.megatron  # noqa: E402
import braid.torch as bt  # noqa: E402

VOCABULARY, HIDDEN = 64, 32


def build(spec, sequence_parallel, **options):
    """Returns a model. Its weights are the same for all specifications and numbers of ranks."""
    ranks = dist.get_world_size()
    config = TransformerConfig(**{**dict(
        num_layers=2, hidden_size=HIDDEN, num_attention_heads=8, ffn_hidden_size=64,
        tensor_model_parallel_size=ranks, sequence_parallel=sequence_parallel and ranks > 1,
        use_cpu_initialization=True, hidden_dropout=0.0, attention_dropout=0.0,
        gradient_accumulation_fusion=False, bias_dropout_fusion=False,
        masked_softmax_fusion=False, apply_rope_fusion=False), **options})
    torch.manual_seed(1)
    return GPTModel(config=config, transformer_layer_spec=spec, vocab_size=VOCABULARY,
                    max_sequence_length=32, share_embeddings_and_output_weights=False,
                    position_embedding_type="rope")


def loss_of(model, length):
    tokens = torch.arange(2 * length).view(2, length) * 7 % VOCABULARY
    places = torch.arange(length).repeat(2, 1)
    is_later = torch.ones(1, 1, length, length).triu(1).bool()
    return model(tokens, places, is_later, labels=(tokens + 1) % VOCABULARY).mean()


def gradients(model, length):
    """Returns the loss and all gradients, as Megatron's training loop completes them."""
    model.zero_grad()
    loss = loss_of(model, length)
    loss.backward()
    for parameter in model.parameters():
        if getattr(parameter, "sequence_parallel", False):
            dist.all_reduce(parameter.grad)
    return loss.item(), {name: p.grad.clone() for name, p in model.named_parameters()}


def close(got, expected, tolerance=2e-5):
    return (got - expected).abs().max() <= tolerance * expected.abs().max() + 1e-9


def part_reference(rank, ranks):
    """Saves the loss and the gradients of a model on one rank."""
    parallel_state.initialize_model_parallel()
    model = build(get_gpt_layer_local_spec(), False)
    torch.save({length: gradients(model, length) for length in (16, 8, 24)},
               os.environ["TEST_RESULTS"])


def part_alike(rank, ranks):
    parallel_state.initialize_model_parallel(tensor_model_parallel_size=ranks)
    reference = torch.load(os.environ["TEST_RESULTS"])
    named = import_module(("braid.megatron", "layer_spec"))  # as `--spec braid.megatron layer_spec`
    for sequence_parallel in (True, False):
        theirs = build(get_gpt_layer_local_spec(), sequence_parallel)
        for spec in (named, braid.megatron.layer_spec(normalization="LayerNorm")):
            bt.report(clear=True)
            model = build(spec, sequence_parallel)
            for length, (expected, whole) in reference.items():  # lengths vary
                loss, found = gradients(model, length)
                assert abs(loss - expected) < 1e-5, (length, loss, expected)
                other, beside = gradients(theirs, length)
                assert abs(loss - other) < 1e-5, (length, loss, other)
                for name, p in model.named_parameters():
                    part = whole[name]
                    if getattr(p, "tensor_model_parallel", False):
                        part = part.chunk(ranks, p.partition_dim)[rank]
                    assert close(found[name], part), (sequence_parallel, length, name)
                    assert close(found[name], beside[name]), (sequence_parallel, length, name)
            kinds = {each.operator for each in bt.report().calls if each.calls}
            assert kinds == ({"all_gather_matmul", "matmul_reduce_scatter"} if sequence_parallel
                             else {"matmul_all_reduce"}), bt.report()
        assert model.state_dict().keys() == theirs.state_dict().keys()
        assert model.sharded_state_dict().keys() == theirs.sharded_state_dict().keys()
        model.load_state_dict(theirs.state_dict())


def part_trains(rank, ranks):
    parallel_state.initialize_model_parallel(tensor_model_parallel_size=ranks)
    for options in ({}, {"gated_linear_unit": True, "add_bias_linear": False}):
        models = [build(spec, True, **options)
                  for spec in (get_gpt_layer_local_spec(), braid.megatron.layer_spec())]
        optimizers = [torch.optim.SGD(model.parameters(), 0.1) for model in models]
        for step in range(20):
            losses = []
            for model, optimizer in zip(models, optimizers):
                losses.append(gradients(model, 8 + 8 * (step % 3))[0])
                optimizer.step()
            assert abs(losses[1] - losses[0]) < 1e-4 * losses[0], (step, losses)


def part_theirs(rank, ranks):
    """Frozen weights work, and layers that accumulate gradients elsewhere are Megatron's."""
    parallel_state.initialize_model_parallel(tensor_model_parallel_size=ranks)
    theirs, model = (build(spec, True)
                     for spec in (get_gpt_layer_local_spec(), braid.megatron.layer_spec()))
    for each in (theirs, model):
        each.decoder.layers[0].mlp.linear_fc1.weight.requires_grad_(False)
        loss_of(each, 16).backward()
    for (name, p), (_, q) in zip(theirs.named_parameters(), model.named_parameters()):
        assert (p.grad is None) == (q.grad is None), name
        assert p.grad is None or close(q.grad, p.grad), name
    bt.report(clear=True)
    for module in model.modules():
        if isinstance(module, (braid.megatron.ColumnParallelLinear,
                               braid.megatron.RowParallelLinear)):
            module.gradient_accumulation_fusion = True
    with torch.no_grad():
        assert abs(loss_of(model, 16) - loss_of(theirs, 16)) < 1e-5
    assert not any(each.calls for each in bt.report().calls), bt.report()


def part_alone(rank, ranks):
    """Without a process group, and for layers that multi-latent attention compares by class."""
    from megatron.core.tensor_parallel.layers import ColumnParallelLinear
    dist.destroy_process_group()
    config = TransformerConfig(num_layers=1, hidden_size=8, num_attention_heads=1,
                               use_cpu_initialization=True)
    layer = braid.megatron.ColumnParallelLinear(8, 4, config=config, bias=False,
                                                init_method=torch.nn.init.ones_)
    assert torch.equal(layer(torch.ones(2, 1, 8))[0], torch.full((2, 1, 4), 8.0))
    parts = braid.megatron.layer_spec(multi_latent_attention=True).submodules.self_attention
    assert parts.submodules.linear_q_down_proj is ColumnParallelLinear
    assert parts.submodules.linear_q_up_proj is braid.megatron.ColumnParallelLinear


def part_killed(rank, ranks):
    parallel_state.initialize_model_parallel(tensor_model_parallel_size=ranks)
    model = build(braid.megatron.layer_spec(), True)
    loss_of(model, 16).backward()
    if rank == 1:  # between two of Braid's operators
        model.decoder.layers[0].mlp.register_forward_pre_hook(
            lambda *_: os.kill(os.getpid(), signal.SIGKILL))
    try:
        loss_of(model, 16)
    except braid.PeerError as error:
        print(f"ended: {error}", flush=True)


class Ranks(unittest.TestCase):
    def expect(self, part, ranks, **environment):
        codes, said, _ = processes.run(part, ranks, 300, **environment)
        self.assertEqual(codes, [0] * ranks, "\n".join(said))

    def test_alike(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "results")
            for part, ranks in ("reference", 1), ("alike", 2), ("alike", 4):
                self.expect(part, ranks, TEST_RESULTS=path)

    def test_trains(self):
        self.expect("trains", 2)

    def test_theirs(self):
        self.expect("theirs", 2)

    def test_alone(self):
        self.expect("alone", 1)

    def test_killed(self):
        codes, said, _ = processes.run("killed", 2, 300)
        self.assertEqual(codes[1], -signal.SIGKILL, said)
        self.assertRegex(said[0], "ended: .*rank 1")


if __name__ == "__main__":
    processes.main(globals(), torch)
