"""Classes of torch that ask a program on which device its tensors lie: under the stand-in for a GPU, on the CPU.

Calls   install() once in a rank's process. What torch has not imported yet is changed when it is imported.
"""

import functools
import importlib
import importlib.abc
import importlib.util
import sys
from typing import Any, Callable, Dict, Optional, Sequence

import torch

_FSDP = "torch.distributed.fsdp.fully_sharded_data_parallel"


def _change_init(kind: Any, change: Callable[..., Any]) -> None:
    """Has `change` make an object of a class; its first argument is what made one before."""
    init = kind.__init__

    @functools.wraps(init)
    def changed(self: Any, *arguments: Any, **named: Any) -> None:
        change(functools.partial(init, self), *arguments, **named)

    kind.__init__ = changed


class _AfterImport(importlib.abc.MetaPathFinder):
    """Changes modules when they are imported."""

    def __init__(self, changes: Dict[str, Callable[[Any], None]]) -> None:
        self._changes = changes

    def find_spec(self, fullname: str, path: Optional[Sequence[str]], target: Any = None) -> Any:
        change = self._changes.pop(fullname, None)
        spec = importlib.util.find_spec(fullname) if change is not None else None
        if change is None or spec is None or spec.loader is None:
            return None
        execute = spec.loader.exec_module

        def execute_and_change(module: Any) -> None:
            execute(module)
            change(module)

        setattr(spec.loader, "exec_module", execute_and_change)
        return spec


def install(is_gpu: Callable[[Any], bool]) -> None:
    """Keeps on the CPU what programs give to DDP, FSDP, meshes and autocast."""

    def on_first(make: Callable[..., None], device_type: str, *arguments: Any, **named: Any) -> None:
        make("cpu" if is_gpu(device_type) else device_type, *arguments, **named)

    def without_devices(
        make: Callable[..., None],
        module: Any,
        device_ids: Any = None,
        output_device: Any = None,
        *arguments: Any,
        **named: Any,
    ) -> None:
        make(module, None, None, *arguments, **named)

    def on_cpu(make: Callable[..., None], *arguments: Any, **named: Any) -> None:
        make(*arguments, **{**named, "device_id": torch.device("cpu")})

    _change_init(torch.autocast, on_first)
    if not torch.distributed.is_available():
        return
    _change_init(importlib.import_module("torch.distributed.device_mesh").DeviceMesh, on_first)
    _change_init(torch.nn.parallel.DistributedDataParallel, without_devices)
    changes = {_FSDP: lambda module: _change_init(module.FullyShardedDataParallel, on_cpu)}
    for name in [name for name in changes if name in sys.modules]:
        changes.pop(name)(sys.modules[name])
    sys.meta_path.insert(0, _AfterImport(changes))
