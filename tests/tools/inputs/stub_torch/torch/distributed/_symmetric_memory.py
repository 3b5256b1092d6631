"""See ../__init__.py."""
from torch import empty  # noqa: F401


def rendezvous(tensor, group):
    assert group == "0"
    tensor.is_shared = True
