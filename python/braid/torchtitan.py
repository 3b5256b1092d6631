"""Lets torchtitan compile its models with Braid:

    --compile.enable --override.imports braid.torchtitan.enable

Requires torchtitan 0.3 or newer. See docs/frameworks/torchtitan.md.
"""
from __future__ import annotations

from typing import Any

import braid.torch

try:
    from torchtitan.components import metrics  # type: ignore[import,unused-ignore]
    from torchtitan.config import override  # type: ignore[import,unused-ignore]
except ImportError as error:
    raise ImportError("braid.torchtitan requires the package torchtitan, 0.3 or newer, which could "
                      f"not be imported: {error}", name="torchtitan") from error


# An override must replace a part of the configuration. This one leaves it as it is, and claims a
# part that others rarely replace, because torchtitan refuses overrides that claim the same part.
@override(target=metrics.MetricsProcessor.Config,  # type: ignore[untyped-decorator,unused-ignore]
          description="Braid's operators in compiled blocks")
def enable(config: Any, keep: str = "gathered") -> Any:
    """Calls braid.torch.enable(keep), before torchtitan builds and compiles the model. On the
    command line, `braid.torchtitan.enable={"keep": "shard"}` sets `keep`."""
    braid.torch.enable(keep)
    return config
