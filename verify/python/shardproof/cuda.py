"""A stand-in for torch.cuda on a machine without a GPU: what a program puts on its GPU stays on the CPU, and streams and
events do nothing.

Calls   install() once, before the program runs, in the process that forks the ranks; be() in the rank's own.
Exact   computes what the CPU computes. It measures neither memory nor time: both are 0.
Errors  NotServed: what only a GPU has, with its name.
"""

import contextlib
import importlib
import inspect
import os
import sys
import threading
import types
from typing import Any, Dict, Iterator, Tuple

import torch

from . import autocast, batch_norm, cuda_memory, devices, extensions
from .generators import OF_GPU, use_gpu
from .threads import NotServed

_KINDS = ("Float", "Double", "Half", "BFloat16", "Long", "Int", "Short", "Byte", "Char", "Bool")


class _Nothing:
    """What streams and events have in common: their work is done when it is given."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        pass

    def query(self) -> bool:
        return True

    def _nothing(self, *arguments: Any, **named: Any) -> None:
        pass

    synchronize = _nothing


class Stream(_Nothing):
    """A stream, whose work is done when it is given."""

    device, device_index, device_type, cuda_stream, stream_id, priority = devices.CPU, 0, 1, 0, 0, 0

    def __init__(self, device: Any = None, priority: int = 0, **named: Any) -> None:
        self.priority = priority

    def __enter__(self) -> "Stream":
        return self

    def __exit__(self, *arguments: Any) -> None:
        pass

    def record_event(self, event: Any = None) -> Any:
        return event or Event()

    def is_capturing(self) -> bool:
        return False

    wait_stream = wait_event = _Nothing._nothing

    @staticmethod
    def priority_range() -> Tuple[int, int]:
        return 0, 0


class ExternalStream(Stream):
    """A stream that was made elsewhere."""

    def __init__(self, stream_ptr: int, device: Any = None, **named: Any) -> None:
        super().__init__(device)
        self.cuda_stream = stream_ptr


class Event(_Nothing):
    """An event, which has always happened."""

    record = wait = _Nothing._nothing

    def elapsed_time(self, other: Any) -> float:
        return 0.0


_DEFAULT_STREAM = Stream()
_of_thread = threading.local()


def _current_stream(*arguments: Any) -> Stream:
    return getattr(_of_thread, "stream", _DEFAULT_STREAM)


def _set_stream(stream: Any) -> None:
    if stream is not None:
        _of_thread.stream = stream


class StreamContext:
    """Has a stream be the current one."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream

    def __enter__(self) -> None:
        self._before = _current_stream()
        _set_stream(self.stream)

    def __exit__(self, *arguments: Any) -> None:
        _set_stream(self._before)


class MemPool:
    """A pool of memory, which holds nothing."""

    id = (0, 0)

    def __init__(self, *arguments: Any, **named: Any) -> None:
        pass


class _Runtime:
    """The functions of the CUDA runtime that change nothing a program computes."""

    cudaProfilerStart = cudaProfilerStop = staticmethod(lambda *arguments: 0)
    cudaHostRegister = cudaHostUnregister = staticmethod(lambda *arguments: 0)
    cudaMemGetInfo = staticmethod(cuda_memory.free_and_total)

    def __getattr__(self, name: str) -> Any:
        raise NotServed(f"{name} of torch.cuda.cudart(): there is no GPU")


def _giving(value: Any) -> Any:
    """Returns a function of its own that takes anything: torch tells functions apart by what they are."""
    return lambda *arguments, **named: value


class _Generators:
    """The generators of all devices, which are one (generators.py)."""

    def __len__(self) -> int:
        return _devices[0]

    def __getitem__(self, number: int) -> torch.Generator:
        if not -len(self) <= number < len(self):
            raise IndexError(f"device {number}: there are {len(self)}")
        return OF_GPU


_current = [0]  # the number of the device that the program has set
_devices = [1]  # how many there are


def _number(device: Any) -> int:
    """Returns the number of a device; the current one if none is named."""
    if isinstance(device, int):
        return device
    index = torch.device(device).index if device is not None else None
    return _current[0] if index is None else index


def _set_device(device: Any) -> None:
    use_gpu()
    _current[0] = _number(device)


class device:
    """Has a device be the current one."""

    def __init__(self, device: Any) -> None:
        self.idx = _number(device)

    def __enter__(self) -> None:
        self._before = _current[0]
        if self.idx >= 0:
            _current[0] = self.idx

    def __exit__(self, *arguments: Any) -> bool:
        _current[0] = self._before
        return False


class device_of(device):
    """Has the device of a tensor be the current one: the current one is."""

    def __init__(self, obj: Any) -> None:
        super().__init__(None)


def _properties(*arguments: Any) -> Any:
    return types.SimpleNamespace(
        name="CPU (no GPU)",
        total_memory=cuda_memory.MEMORY,
        major=8,
        minor=0,
        multi_processor_count=1,
        max_threads_per_multi_processor=2048,
        regs_per_multiprocessor=65536,
        shared_memory_per_block=49152,
        shared_memory_per_multiprocessor=167936,
        L2_cache_size=40 << 20,
        is_integrated=False,
        is_multi_gpu_board=False,
        gcnArchName="",
        warp_size=32,
        uuid="00000000-0000-0000-0000-000000000000",
    )


def _refused(name: str) -> Any:
    """Returns a function that raises NotServed."""

    def refuse(*arguments: Any, **named: Any) -> Any:
        raise NotServed(f"{name}: there is no GPU")

    return refuse


def _refused_class(name: str) -> type:
    """Returns a class of which no object can be made."""
    return type(name.rpartition(".")[2], (), {"__init__": _refused(name)})


def _refuse_gpu() -> None:
    """Is called by torch before it first uses a GPU. A program that calls it itself goes on to what is played."""
    code = sys._getframe(1).f_code  # of the program also where C++ has called this
    if "_lazy_init" in code.co_names and not code.co_filename.startswith(os.path.dirname(torch.__file__)):
        return
    raise NotServed(f"a use of the GPU that is not played, in {devices.caller()}")


@contextlib.contextmanager
def _pool_in_use(*arguments: Any, **named: Any) -> Iterator[None]:
    yield


_NOTHING = (
    "synchronize empty_cache empty_host_cache reset_peak_memory_stats reset_max_memory_allocated "
    "reset_max_memory_cached reset_peak_host_memory_stats reset_accumulated_host_memory_stats ipc_collect init _sleep "
    "reset_accumulated_memory_stats set_per_process_memory_fraction set_sync_debug_mode _record_memory_history "
    "caching_allocator_enable check_error"
).split()
_ZERO = (
    "memory_allocated max_memory_allocated memory_reserved max_memory_reserved memory_cached max_memory_cached "
    "utilization memory_usage temperature power_draw clock_rate device_memory_used get_sync_debug_mode"
).split()


def _generators() -> Dict[str, Any]:
    """Returns the functions of random numbers, by name."""
    return {
        "manual_seed": lambda seed: OF_GPU.manual_seed(seed),
        "manual_seed_all": lambda seed: OF_GPU.manual_seed(seed),
        "get_rng_state": lambda *a, **k: OF_GPU.get_state(),
        "set_rng_state": lambda state, *a, **k: OF_GPU.set_state(state),
        "get_rng_state_all": lambda: [OF_GPU.get_state()],
        "set_rng_state_all": lambda states: OF_GPU.set_state(list(states)[0]),
        "initial_seed": lambda: OF_GPU.initial_seed(),
        "seed": lambda: OF_GPU.seed(),
        "seed_all": lambda: OF_GPU.seed(),
        "default_generators": _Generators(),
    }


def _functions() -> Dict[str, Any]:
    """Returns what torch.cuda is made of, by name."""
    return {
        **{name: _giving(None) for name in _NOTHING},
        **{name: _giving(0) for name in _ZERO},
        **_generators(),
        "_lazy_init": _refuse_gpu,
        "is_available": lambda: True,
        "is_initialized": lambda: True,
        "is_bf16_supported": lambda *a, **k: True,
        "is_tf32_supported": lambda: True,
        "is_current_stream_capturing": lambda: False,
        "can_device_access_peer": lambda *a, **k: True,
        "device_count": lambda: _devices[0],
        "current_device": lambda: _current[0],
        "set_device": _set_device,
        "mem_get_info": cuda_memory.free_and_total,
        "memory_stats": cuda_memory.statistics,
        "memory_snapshot": lambda *a, **k: [],
        "_snapshot": cuda_memory.snapshot,
        "_dump_snapshot": cuda_memory.dump_snapshot,
        "get_per_process_memory_fraction": lambda *a: 1.0,
        "list_gpu_processes": lambda *a: "no processes are running",
        "get_allocator_backend": lambda: "native",
        "get_arch_list": lambda: [],
        "get_gencode_flags": lambda: "",
        "get_device_properties": _properties,
        "get_device_name": lambda *a: _properties().name,
        "get_device_capability": lambda *a: (8, 0),
        "cudart": _Runtime,
        "Stream": Stream,
        "ExternalStream": ExternalStream,
        "Event": Event,
        "StreamContext": StreamContext,
        "stream": StreamContext,
        "current_stream": _current_stream,
        "default_stream": lambda *a: _DEFAULT_STREAM,
        "set_stream": _set_stream,
        "device": device,
        "device_of": device_of,
        "_DeviceGuard": device,
        "MemPool": MemPool,
        "use_mem_pool": _pool_in_use,
        "graph_pool_handle": lambda: (0, 0),
        "make_graphed_callables": lambda callables, *a, **k: callables,
        "CUDAGraph": _refused_class("torch.cuda.CUDAGraph"),
        "graph": _refused_class("torch.cuda.graph"),
    }


def _of_accelerator() -> Dict[str, Any]:
    """Returns what torch.accelerator is made of, by name."""
    return {
        "is_available": lambda: True,
        "device_count": lambda: _devices[0],
        "current_device_index": lambda: _current[0],
        "current_device_idx": lambda: _current[0],
        "set_device_index": _set_device,
        "current_stream": _current_stream,
        "set_stream": _set_stream,
        "device_index": device,
        "memory_stats": cuda_memory.statistics,
        "get_memory_info": cuda_memory.free_and_total,
        **{name: _giving(None) for name in _NOTHING},
        **{name: _giving(0) for name in _ZERO},
    }


def _join_bases() -> None:
    """Makes the stand-ins streams and events where torch asks what they inherit from."""
    bases = importlib.import_module("torch._streambase")
    for name, kind in (("_StreamBase", Stream), ("_EventBase", Event)):
        register = getattr(getattr(bases, name, None), "register", None)  # of abstract classes
        if register is not None:
            register(kind)


def _refuse_others(module: Any, played: Dict[str, Any]) -> None:
    """Has the public functions of a module of torch.cuda that would use a GPU raise NotServed."""
    for name, value in list(vars(module).items()):
        function = inspect.unwrap(value) if callable(value) else value
        if name.startswith("_") or name in played or not isinstance(function, types.FunctionType):
            continue
        used = function.__code__.co_names
        if str(function.__module__).startswith("torch.cuda") and any(
            other == "_lazy_init" or other.startswith("_cuda_") for other in used
        ):
            setattr(module, name, _refused("torch.cuda." + name))


def _replace_streams() -> None:
    """Has torch.Stream and torch.Event of the GPU be those that are played."""
    for name, kind in (("Stream", Stream), ("Event", Event)):
        of_torch = getattr(torch, name, None)
        if of_torch is None:
            continue

        def make(device: Any = None, *arguments: Any, of_torch: Any = of_torch, kind: Any = kind, **named: Any) -> Any:
            is_played = device is None or devices.is_gpu(device) or isinstance(device, int)
            return kind(**named) if is_played else of_torch(device, *arguments, **named)

        setattr(torch, name, devices.played_class(of_torch, make, kind))


def be(rank: int, ranks: int) -> None:
    """Has the program find so many devices, of which the current one is the rank's."""
    _current[0], _devices[0] = rank, ranks


def install() -> None:
    """Puts the stand-in in the place of torch.cuda in this process and in those that it forks."""
    _join_bases()
    played = _functions()
    modules = [torch.cuda] + [
        importlib.import_module("torch.cuda." + name) for name in "random memory streams graphs profiler".split()
    ]
    for module in modules:
        _refuse_others(module, played)
        for name, value in played.items():
            if module is torch.cuda or hasattr(module, name):
                setattr(module, name, value)
    for kind in _KINDS:
        setattr(torch.cuda, kind + "Tensor", getattr(torch, kind + "Tensor"))
    accelerator = getattr(torch, "accelerator", None)  # since torch 2.6
    for module in (accelerator, getattr(accelerator, "memory", None)):
        for name, value in _of_accelerator().items():
            if module is not None and (module is accelerator or hasattr(module, name)):
                setattr(module, name, value)
    for name in ("range_push", "range_pop", "mark"):
        setattr(torch.cuda.nvtx, name, _giving(None))
    _replace_streams()
    devices.install()
    setattr(torch.Tensor, "get_device", lambda self: _current[0] if self.is_cuda else -1)
    autocast.install()
    batch_norm.install()
    extensions.install()
