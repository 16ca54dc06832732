"""FullyShardedDataParallel under the stand-in for a GPU: the `device_id` of a GPU is the CPU.

Calls   install() once in a rank's process. The class is changed when torch imports it, which takes a while.
"""

import functools
import importlib.abc
import importlib.util
import sys
from typing import Any, Optional, Sequence

import torch

_MODULE = "torch.distributed.fsdp.fully_sharded_data_parallel"


def _keep_on_cpu(module: Any) -> None:
    kind = module.FullyShardedDataParallel
    init = kind.__init__

    @functools.wraps(init)
    def on_cpu(self: Any, *arguments: Any, **named: Any) -> None:
        init(self, *arguments, **{**named, "device_id": torch.device("cpu")})

    setattr(kind, "__init__", on_cpu)


class _AfterImport(importlib.abc.MetaPathFinder):
    """Changes the module when it is imported."""

    def find_spec(self, fullname: str, path: Optional[Sequence[str]], target: Any = None) -> Any:
        if fullname != _MODULE:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is None or spec.loader is None:
            return None
        execute = spec.loader.exec_module

        def execute_and_change(module: Any) -> None:
            execute(module)
            _keep_on_cpu(module)

        setattr(spec.loader, "exec_module", execute_and_change)
        return spec


def install() -> None:
    """Keeps on the CPU what programs give to FSDP."""
    if _MODULE in sys.modules:
        _keep_on_cpu(sys.modules[_MODULE])
    else:
        sys.meta_path.insert(0, _AfterImport())
