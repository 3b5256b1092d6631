"""A stand-in for the parts of vLLM that Braid's plugin uses. install() makes it importable as vllm.

Module paths, names, and the order of events are those of vLLM 0.33.0. A model is compiled as one
piece, there are no built-in passes except a cleanup, and layers have no quantization.
"""
import contextlib
import copy
import dataclasses
import enum
import hashlib
import json
import sys
import types
import weakref

import torch
import torch.distributed as dist
from torch._inductor.custom_graph_pass import CustomGraphPass
from torch._inductor.pattern_matcher import stable_topological_sort


def _digest(value):
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


# -- vllm.compilation.passes --

_context = None


def get_pass_context():
    assert _context is not None
    return _context


@contextlib.contextmanager
def pass_context(compile_range):
    global _context
    before, _context = _context, types.SimpleNamespace(compile_range=compile_range)
    try:
        yield
    finally:
        _context = before


class InductorPass(CustomGraphPass):
    def uuid(self):
        return type(self).__qualname__

    def is_applicable_for_range(self, compile_range):
        return True


class PostGradPassManager(CustomGraphPass):
    """The pass that vLLM gives to Inductor: runs all others, then removes dead nodes."""

    def __init__(self, passes):
        assert all(isinstance(each, InductorPass) for each in passes)
        self.passes = passes

    def __call__(self, graph):
        for each in self.passes:
            if each.is_applicable_for_range(get_pass_context().compile_range):
                each(graph)
        stable_topological_sort(graph)
        graph.eliminate_dead_code()

    def uuid(self):
        size = get_pass_context().compile_range
        return _digest([str(size), [each.uuid() for each in self.passes]])


# -- vllm.config --

class CompilationMode(enum.IntEnum):
    NONE, VLLM_COMPILE = 0, 3


@dataclasses.dataclass
class CompilationConfig:
    mode: int = CompilationMode.VLLM_COMPILE
    backend: str = "inductor"
    inductor_compile_config: dict = dataclasses.field(default_factory=dict)
    compile_ranges_endpoints: tuple = (8192,)

    def init_backend(self, vllm_config):
        return VllmBackend(vllm_config)


@dataclasses.dataclass
class VllmConfig:
    compilation_config: CompilationConfig
    parallel_config: types.SimpleNamespace

    def compute_hash(self):
        """Returns the name of the cache's folder. Requires that JSON can encode each uuid."""
        entries = {key: value.uuid() if hasattr(value, "uuid") else value for key, value
                   in self.compilation_config.inductor_compile_config.items()}
        return _digest([entries, self.compilation_config.compile_ranges_endpoints])


_config = None


def set_current_vllm_config(config):
    global _config
    _config = config


def get_current_vllm_config():
    return _config


# -- vllm.compilation --

class VllmBackend:
    """Compiles a graph once for each range of the number of rows, the first symbolic input."""

    def __init__(self, vllm_config):
        self.vllm_config, self.hash = vllm_config, None
        self.inductor_config = copy.deepcopy(vllm_config.compilation_config.inductor_compile_config)

    def __call__(self, graph, example_inputs):
        from torch._inductor.compile_fx import compile_fx
        assert self.hash is None, "vLLM compiles each model once"
        self.hash = self.vllm_config.compute_hash()
        compilation, slot = self.vllm_config.compilation_config, "post_grad_custom_post_pass"
        given = compilation.inductor_compile_config.get(slot)
        self.inductor_config[slot] = PostGradPassManager([] if given is None else [given])
        runs, begin = {}, 1
        for end in compilation.compile_ranges_endpoints:
            with pass_context(range(begin, end + 1)), \
                    torch._inductor.config.patch(self.inductor_config):
                runs[range(begin, end + 1)] = compile_fx(copy.deepcopy(graph), example_inputs)
            begin = end + 1

        def run(*inputs):
            rows = next(each for each in inputs if isinstance(each, int))
            return next(call for sizes, call in runs.items() if rows in sizes)(*inputs)
        return run


class TorchCompileWithNoGuardsWrapper:
    """A base class of each compiled model, whose __init__ runs after that of the model."""

    def __init__(self, compile_prefix="", is_encoder=False):
        self.vllm_config = get_current_vllm_config()
        backend = self.vllm_config.compilation_config.init_backend(self.vllm_config)
        no_guards = {"guard_filter_fn": lambda entries: [False for _ in entries]}
        self.compiled = torch.compile(self.forward, fullgraph=True, dynamic=False, backend=backend,
                                      options=no_guards)


# -- vllm.distributed.parallel_state --

_groups = {}
calls = []  # the names of vLLM's operators that ran


class GroupCoordinator:
    def __init__(self, group, name):
        self.device_group, self.unique_name = group, f"{name}:{len(_groups)}"
        self.world_size, self.rank_in_group = group.size(), group.rank()
        _groups[self.unique_name] = weakref.ref(self)

    def all_reduce(self, x):
        return torch.ops.vllm.all_reduce(x, group_name=self.unique_name)

    def all_gather(self, x, dim):
        return torch.ops.vllm.all_gather(x, dim, self.world_size, group_name=self.unique_name)

    def reduce_scatter(self, x, dim):
        return torch.ops.vllm.reduce_scatter(x, dim, self.world_size, group_name=self.unique_name)


@torch.library.custom_op("vllm::all_reduce", mutates_args=())
def all_reduce(tensor: torch.Tensor, group_name: str) -> torch.Tensor:
    calls.append("all_reduce")
    result = tensor.clone()
    dist.all_reduce(result, group=_groups[group_name]().device_group)
    return result


@torch.library.custom_op("vllm::all_gather", mutates_args=())
def all_gather(tensor: torch.Tensor, dim: int, world_size: int, group_name: str) -> torch.Tensor:
    calls.append("all_gather")
    parts = [torch.empty_like(tensor) for _ in range(world_size)]
    dist.all_gather(parts, tensor.contiguous(), group=_groups[group_name]().device_group)
    return torch.cat(parts, dim)


@torch.library.custom_op("vllm::reduce_scatter", mutates_args=())
def reduce_scatter(tensor: torch.Tensor, dim: int, world_size: int,
                   group_name: str) -> torch.Tensor:
    calls.append("reduce_scatter")
    group, result = _groups[group_name]().device_group, tensor.clone()
    dist.all_reduce(result, group=group)
    return result.chunk(world_size, dim)[group.rank()].contiguous()


def _resized(tensor, dim, size):
    return tensor.new_empty([*tensor.shape[:dim], size, *tensor.shape[dim:][1:]])


all_reduce.register_fake(lambda tensor, group: torch.empty_like(tensor))
all_gather.register_fake(lambda x, dim, ranks, group: _resized(x, dim, x.shape[dim] * ranks))
reduce_scatter.register_fake(lambda x, dim, ranks, group: _resized(x, dim, x.shape[dim] // ranks))


# -- vllm.model_executor.layers.linear --

class RowParallelLinear(torch.nn.Module):
    def __init__(self, weight, bias, tp):
        """weight: [outputs, this rank's inputs]. tp: a GroupCoordinator."""
        super().__init__()
        self.weight, self.bias, self.tp = weight, bias, tp
        self.tp_size, self.reduce_results, self.skip_bias_add = tp.world_size, True, False

    def forward(self, x):
        bias = self.bias if self.tp.rank_in_group == 0 else None
        return self.tp.all_reduce(torch.nn.functional.linear(x, self.weight, bias))


_MODULES = {
    "vllm": [], "vllm.distributed": [], "vllm.compilation": [], "vllm.compilation.passes": [],
    "vllm.model_executor": [], "vllm.model_executor.layers": [],
    "vllm.config": [CompilationMode, CompilationConfig, VllmConfig, get_current_vllm_config],
    "vllm.compilation.passes.inductor_pass": [InductorPass, get_pass_context, pass_context],
    "vllm.compilation.wrapper": [TorchCompileWithNoGuardsWrapper],
    "vllm.distributed.parallel_state": [GroupCoordinator],
    "vllm.model_executor.layers.linear": [RowParallelLinear]}


def install():
    for name, contents in _MODULES.items():
        module = sys.modules[name] = types.ModuleType(name)
        module.__path__ = []
        for each in contents:
            setattr(module, each.__name__, each)
        parent, _, last = name.rpartition(".")
        if parent:
            setattr(sys.modules[parent], last, module)
    sys.modules["vllm.distributed.parallel_state"]._groups = _groups
