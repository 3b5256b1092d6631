"""See ../__init__.py."""
from torch import empty  # noqa: F401


def rendezvous(_, group):
    assert group == "0"
