"""Imports modules before the ranks are forked, so that not each rank imports them: torch, and those parts of torch that
this client changes or that every optimizer imports. Modules of the program are left to the ranks, because they may
read RANK when they are imported.
"""

import importlib

_PARTS = ("torch.distributed.tensor", "torch.distributed.fsdp", "torch._dynamo")


def torch() -> bool:
    """Imports torch. Returns whether it is there."""
    try:
        importlib.import_module("torch")
    except ImportError:
        return False
    return True


def parts_of_torch() -> None:
    for name in _PARTS:
        try:
            importlib.import_module(name)
        except Exception:  # this release has none of the name, or not for this Python; the ranks go on without it
            pass
