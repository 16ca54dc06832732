"""Imports modules before the ranks are forked, so that not each rank imports them: torch, and those parts of torch that
this client changes or that every optimizer imports. Modules of the program are left to the ranks, because they may
read RANK when they are imported. What is imported lives as long as the ranks do, so the collector of garbage never
looks at it: not while it is imported, and not in the ranks.
"""

import gc
import importlib

_PARTS = ("torch.distributed.tensor", "torch.distributed.fsdp", "torch.distributed.checkpoint", "torch._dynamo")


def torch() -> bool:
    """Imports torch. Returns whether it is there."""
    gc.disable()
    try:
        importlib.import_module("torch")
    except ImportError:
        return False
    finally:
        _keep_for_good()
    return True


def _keep_for_good() -> None:
    gc.freeze()
    gc.enable()


def parts_of_torch() -> None:
    gc.disable()
    for name in _PARTS:
        try:
            importlib.import_module(name)
        except Exception:  # this release has none of the name, or not for this Python; the ranks go on without it
            pass
    _keep_for_good()
