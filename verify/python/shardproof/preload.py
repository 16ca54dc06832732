"""Imports modules before the ranks are forked, so that not each rank imports them: torch, those parts of torch that
this client changes or that every optimizer imports, and those that ranks of a run before have imported. Modules of the
program are left to the ranks, because they may read RANK when they are imported, unless the user names them in the file
of SHARDPROOF_PRELOAD. What is imported lives as long as the ranks do, so the collector of garbage never looks at it: not
while it is imported, and not in the ranks.
"""

import contextlib
import gc
import importlib
import os
import sys
from typing import Iterable, Tuple

_BY_USER = "SHARDPROOF_PRELOAD"  # names a file with names of modules
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


def _import_each(names: Iterable[str]) -> None:
    gc.disable()
    for name in names:
        try:
            importlib.import_module(name)
        except Exception:  # this release has none of the name, or not for this Python; the ranks go on without it
            pass
    _keep_for_good()


def interpret_triton() -> None:
    """Has kernels of Triton run in its own interpreter. Triton asks for it when it is imported: its functions, such as
    sums, are kernels, too."""
    os.environ.setdefault("TRITON_INTERPRET", "1")


def parts_of_torch() -> None:
    """Imports parts of torch, some of which import Triton, for ranks without a GPU."""
    interpret_triton()
    _import_each(_PARTS)


def parts_of_program() -> None:
    """Imports the modules of the program that the user says to look at no rank, after the stand-ins are there."""
    path = os.environ.get(_BY_USER)
    if path:
        with open(path, encoding="utf-8") as names:
            _import_each(names.read().split())


class Learned:
    """Which modules of torch the first rank of a run has had at its end.

    Calls   tell() in the rank; imports() in the process that has forked it, before the next run.
    """

    def __init__(self) -> None:
        self._names = os.memfd_create("shardproof-modules")
        self._file = self._status()

    def _status(self) -> Tuple[int, int]:
        status = os.fstat(self._names)
        return status.st_dev, status.st_ino

    def tell(self) -> None:
        names = [name for name in sys.modules if isinstance(name, str) and name.startswith("torch.")]
        with contextlib.suppress(OSError):  # the program may have closed it, or have a file of its own in its place
            if self._status() == self._file:
                os.ftruncate(self._names, 0)
                os.pwrite(self._names, "\n".join(names).encode(), 0)

    def imports(self) -> None:
        size = os.fstat(self._names).st_size
        _import_each(os.pread(self._names, size, 0).decode().split())
