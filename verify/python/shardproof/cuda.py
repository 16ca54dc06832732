"""A stand-in for torch.cuda on a machine without a GPU: what a program puts on its GPU stays on the CPU, streams and
events do nothing, and the generator of the device is that of the CPU.

Calls   install() once in a rank's process, before the program runs.
Exact   computes what the CPU computes. It does not pretend memory or time: both are 0.
"""

import contextlib
import functools
import importlib
import types
from typing import Any, Dict, Tuple

import torch

from . import users_of_devices

_KINDS = ("Float", "Double", "Half", "BFloat16", "Long", "Int", "Short", "Byte", "Bool")


def _is_gpu(value: Any) -> bool:
    """Whether a value names a GPU as a device."""
    if isinstance(value, torch.device):
        return value.type == "cuda"
    return isinstance(value, str) and (value == "cuda" or value.startswith("cuda:"))


_MAKERS = (
    "arange as_tensor asarray empty empty_like empty_strided eye from_file full full_like linspace load logspace ones "
    "ones_like rand rand_like randint randint_like randn randn_like randperm scalar_tensor sparse_coo_tensor tensor "
    "zeros zeros_like"
).split()
_METHODS = "to new_empty new_empty_strided new_full new_ones new_tensor new_zeros".split()


def _on_cpu(function: Any, is_to: bool = False) -> Any:
    """Returns the function, for which a device that names a GPU is the CPU."""

    @functools.wraps(function)
    def on_cpu(*arguments: Any, **named: Any) -> Any:
        for name in ("device", "map_location"):
            if name in named and (_is_gpu(named[name]) or type(named[name]) is int):
                named[name] = torch.device("cpu")
        if named.get("pin_memory"):
            named["pin_memory"] = False
        if is_to and len(arguments) > 1 and (_is_gpu(arguments[1]) or type(arguments[1]) is int):
            arguments = (arguments[0], torch.device("cpu"), *arguments[2:])
        return function(*arguments, **named)

    return on_cpu


class Stream:
    """A stream, whose work is done when it is given."""

    priority, device, device_index, cuda_stream, stream_id = 0, torch.device("cpu"), 0, 0, 0

    def __init__(self, *arguments: Any, **named: Any) -> None:
        pass

    def __enter__(self) -> "Stream":
        return self

    def __exit__(self, *arguments: Any) -> None:
        pass

    def record_event(self, event: Any = None) -> Any:
        return event or Event()

    def query(self) -> bool:
        return True

    def is_capturing(self) -> bool:
        return False

    def _nothing(self, *arguments: Any, **named: Any) -> None:
        pass

    wait_stream = wait_event = synchronize = _nothing

    @staticmethod
    def priority_range() -> Tuple[int, int]:
        return 0, 0


class Event(Stream):
    """An event, which has always happened."""

    record = wait = Stream._nothing

    def elapsed_time(self, other: Any) -> float:
        return 0.0


def _giving(value: Any) -> Any:
    """Returns a function of its own that takes anything: torch tells functions apart by what they are."""
    return lambda *arguments, **named: value


class _Generators:
    """The generators of all devices, each of which is that of the CPU."""

    def __getitem__(self, _: Any) -> torch.Generator:
        return torch.default_generator


_current = [0]  # the number of the device that the program has set


def _set_device(device: Any) -> None:
    _current[0] = device if isinstance(device, int) else (torch.device(device).index or 0)


def _properties(*arguments: Any) -> Any:
    return types.SimpleNamespace(
        name="CPU (no GPU)", total_memory=0, major=8, minor=0, multi_processor_count=1, gcnArchName="", warp_size=32
    )


def _functions(ranks: int) -> Dict[str, Any]:
    """Returns what torch.cuda is made of, by name."""
    nothing = (
        "synchronize empty_cache reset_peak_memory_stats reset_max_memory_allocated ipc_collect init _lazy_init "
        "set_stream _sleep reset_accumulated_memory_stats set_per_process_memory_fraction"
    ).split()
    zero = "memory_allocated max_memory_allocated memory_reserved max_memory_reserved memory_cached utilization".split()
    seeds = "manual_seed manual_seed_all".split()
    return {
        **{name: _giving(None) for name in nothing},
        **{name: _giving(0) for name in zero},
        **{name: lambda seed: torch.default_generator.manual_seed(seed) for name in seeds},
        "is_available": lambda: True,
        "is_initialized": lambda: True,
        "is_bf16_supported": lambda *a, **k: True,
        "is_current_stream_capturing": lambda: False,
        "device_count": lambda: ranks,
        "current_device": lambda: _current[0],
        "set_device": _set_device,
        "mem_get_info": lambda *a: (0, 0),
        "memory_stats": lambda *a: {},
        "get_device_properties": _properties,
        "get_device_name": lambda *a: _properties().name,
        "get_device_capability": lambda *a: (8, 0),
        "get_rng_state": lambda *a, **k: torch.get_rng_state(),
        "set_rng_state": lambda state, *a, **k: torch.set_rng_state(state),
        "get_rng_state_all": lambda: [torch.get_rng_state()],
        "set_rng_state_all": lambda states: torch.set_rng_state(states[0]),
        "initial_seed": lambda: torch.initial_seed(),
        "seed": lambda: torch.seed(),
        "seed_all": lambda: torch.seed(),
        "Stream": Stream,
        "Event": Event,
        "current_stream": lambda *a: Stream(),
        "default_stream": lambda *a: Stream(),
        "stream": lambda *a: contextlib.nullcontext(),
        "device": lambda *a: contextlib.nullcontext(),
        "device_of": lambda *a: contextlib.nullcontext(),
        "default_generators": _Generators(),
    }


def _of_accelerator(ranks: int) -> Dict[str, Any]:
    """Returns what torch.accelerator is made of, by name."""
    return {
        "is_available": lambda: True,
        "device_count": lambda: ranks,
        "current_device_index": lambda: _current[0],
        "current_device_idx": lambda: _current[0],
        "set_device_index": _set_device,
        "current_stream": lambda *a: Stream(),
        "set_stream": lambda *a: None,
        "synchronize": lambda *a: None,
    }


def _type_on_gpu(of_cpu: Any) -> Any:
    """Returns Tensor.type(), which says that a tensor lies on the GPU, and takes the names of types there."""

    def type_of(self: torch.Tensor, dtype: Any = None, *arguments: Any, **named: Any) -> Any:
        if dtype is None:
            name = of_cpu(self)
            return name if name.startswith("torch.cuda.") else name.replace("torch.", "torch.cuda.", 1)
        return of_cpu(self, dtype.replace("torch.cuda.", "torch.") if isinstance(dtype, str) else dtype)

    return type_of


def _join_bases() -> None:
    """Makes the stand-ins streams and events where torch asks what they inherit from."""
    bases = importlib.import_module("torch._streambase")
    for name, kind in (("_StreamBase", Stream), ("_EventBase", Event)):
        register = getattr(getattr(bases, name, None), "register", None)  # of abstract classes
        if register is not None:
            register(kind)


def _name_for_scripts(function: Any, name: str) -> None:
    """Tells torch.jit.script, which looks at functions one by one, which operation a function is."""
    register = getattr(importlib.import_module("torch.jit._builtins"), "_register_builtin", None)
    if register is not None:
        register(function, "aten::" + name)


def install(rank: int, ranks: int) -> None:
    """Puts the stand-in in the place of torch.cuda in this process."""
    _current[0] = rank
    _join_bases()
    users_of_devices.install(_is_gpu)
    for name, value in _functions(ranks).items():
        for module in (torch.cuda, torch.cuda.random, torch.cuda.memory, torch.cuda.streams):
            if module is torch.cuda or hasattr(module, name):
                setattr(module, name, value)
    for kind in _KINDS:
        setattr(torch.cuda, kind + "Tensor", getattr(torch, kind + "Tensor"))
    accelerator = getattr(torch, "accelerator", None)  # since torch 2.6
    if accelerator is not None:
        for name, value in _of_accelerator(ranks).items():
            setattr(accelerator, name, value)
    for name in ("range_push", "range_pop", "mark"):
        setattr(torch.cuda.nvtx, name, _giving(None))
    for kind in (torch.Tensor, torch.nn.Module):
        setattr(kind, "cuda", lambda self, *arguments, **named: self)
    setattr(torch.Tensor, "pin_memory", lambda self, *arguments, **named: self)
    setattr(torch.Tensor, "type", _type_on_gpu(torch.Tensor.type))
    for name in _MAKERS:
        setattr(torch, name, _on_cpu(getattr(torch, name)))
        _name_for_scripts(getattr(torch, name), name)
    for name in _METHODS:
        setattr(torch.Tensor, name, _on_cpu(getattr(torch.Tensor, name), is_to=name == "to"))
