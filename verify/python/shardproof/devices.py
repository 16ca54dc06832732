"""Takes "cuda" for "cpu" wherever a program says on which device something is to be.

Calls   install() once in a rank's process, before the program runs.
Exact   a tensor "on the GPU" is a tensor of the CPU: its `device` is cpu. `is_cuda` and `type()` say that it is on the GPU.
"""

import contextlib
import functools
import importlib
import inspect
import sys
from typing import Any, Callable, Dict, Iterable, List, Sequence, Tuple

import torch

from . import generators

CPU = torch.device("cpu")

_OTHER_MAKERS = (  # that have a device and are not in torch's own list, or where a release has no list
    "arange as_tensor asarray bartlett_window blackman_window empty empty_like empty_permuted empty_strided eye "
    "from_file full full_like hamming_window hann_window kaiser_window linspace logspace normal ones ones_like rand "
    "rand_like randint randint_like randn randn_like randperm range scalar_tensor sparse_compressed_tensor "
    "sparse_coo_tensor sparse_csr_tensor tensor tril_indices triu_indices zeros zeros_like"
).split()
_METHODS = "new new_empty new_empty_strided new_full new_ones new_tensor new_zeros".split()
_SDP_KINDS = "flash mem_efficient math cudnn overrideable".split()


def is_gpu(value: Any) -> bool:
    """Whether a value names a GPU as a device."""
    if isinstance(value, torch.device):
        return value.type == "cuda"
    return isinstance(value, str) and (value == "cuda" or value.startswith("cuda:"))


def _is_number(value: Any) -> bool:
    return type(value) is int


def _moved_to_cpu(arguments: Sequence[Any], named: Dict[str, Any], is_to: bool = False) -> Tuple[Sequence[Any], bool]:
    """Puts the CPU in the place of a GPU among what a function is given, and says whether there was one."""
    device = named.get("device")
    names_gpu = device is not None and (is_gpu(device) or _is_number(device))
    if names_gpu:
        named["device"] = CPU
    if named.get("pin_memory"):
        named["pin_memory"] = False
    if any(is_gpu(argument) for argument in arguments):
        return tuple(CPU if is_gpu(argument) else argument for argument in arguments), True
    if is_to and len(arguments) > 1 and _is_number(arguments[1]):
        return (arguments[0], CPU, *arguments[2:]), True
    return arguments, names_gpu


def on_cpu(make: Callable[..., Any]) -> Callable[..., Any]:
    """Returns the function that makes a tensor, for which a device that names a GPU is the CPU."""
    is_draw = getattr(make, "__name__", "") in generators.MAKES

    @functools.wraps(make)
    def on_the_cpu(*arguments: Any, **named: Any) -> Any:
        device = named.get("device")
        arguments, names_gpu = _moved_to_cpu(arguments, named)
        is_on_gpu = names_gpu or _is_made_on_gpu(device, arguments)
        if names_gpu:
            generators.use_gpu()
        if is_draw and is_on_gpu and named.get("generator") is None:
            with generators.drawing_on_gpu():
                return make(*arguments, **named)
        made = make(*arguments, **named)
        if not is_on_gpu:
            generators.put_on_cpu(made)
        return made

    return on_the_cpu


def _is_made_on_gpu(device: Any, arguments: Sequence[Any]) -> bool:
    """Whether a function that names no GPU makes its tensor there, as far as is known."""
    if isinstance(device, torch.device):  # of a tensor, perhaps
        return generators.is_in_use()
    if device is None and arguments and isinstance(arguments[0], torch.Tensor):
        return generators.is_on_gpu(arguments[0])
    return device is None and generators.has_default_gpu()


def _to_on_cpu(of_torch: Callable[..., Any]) -> Callable[..., Any]:
    """Returns Tensor.to(), which moves to a GPU by knowing that the tensor is there."""

    @functools.wraps(of_torch)
    def on_the_cpu(*arguments: Any, **named: Any) -> Any:
        arguments, names_gpu = _moved_to_cpu(arguments, named, is_to=True)
        moved = of_torch(*arguments, **named)
        if names_gpu:
            generators.put_on_gpu([moved])
        return moved

    return on_the_cpu


def _cuda_of_tensor(self: Any, *arguments: Any, **named: Any) -> Any:
    generators.put_on_gpu([self])
    return self


def _cuda_of_module(self: torch.nn.Module, *arguments: Any, **named: Any) -> torch.nn.Module:
    generators.put_on_gpu([*self.parameters(), *self.buffers()])
    return self


def replace(module: Any, name: str, make: Callable[[Any], Any]) -> None:
    """Puts what `make` makes of a function in its place; torch.jit.script goes on to find the function of torch."""
    function = getattr(module, name, None)
    if function is None:
        return
    made = make(function)
    builtins = getattr(torch.jit, "_builtins", None)
    known = builtins._find_builtin(function) if builtins is not None else None
    if known is not None:
        builtins._register_builtin(made, known)
    setattr(module, name, made)


def played_class(of_torch: type, make: Callable[..., Any], *others: type) -> type:
    """Returns a class in the place of one of torch: `make` makes its objects, and those of `others` are of it too."""

    class Kind(type(of_torch)):  # type: ignore[misc]
        def __call__(cls, *arguments: Any, **named: Any) -> Any:
            return make(*arguments, **named) if cls is played else super().__call__(*arguments, **named)

        def __instancecheck__(cls, value: Any) -> bool:
            return isinstance(value, (of_torch, *others)) if cls is played else super().__instancecheck__(value)

        def __subclasscheck__(cls, kind: type) -> bool:
            return issubclass(kind, (of_torch, *others)) if cls is played else super().__subclasscheck__(kind)

    played: type = Kind(of_torch.__name__, (of_torch,), {"__module__": of_torch.__module__, "__doc__": of_torch.__doc__})
    return played


def _replace_makers() -> None:
    """Has every function that makes a tensor make it on the CPU."""
    contexts = importlib.import_module("torch.utils._device")
    constructors = getattr(contexts, "_device_constructors", set)()  # remembered by torch as they are before this
    for module in (torch, torch.fft, torch.nested):
        listed = [name for name, value in vars(module).items() if _is_among(value, constructors)]
        others = _OTHER_MAKERS if module is torch else []
        for name in sorted({*listed, *others}):
            replace(module, name, on_cpu)
    of_context = contexts.DeviceContext.__init__

    def context(self: Any, device: Any) -> None:
        of_context(self, CPU if is_gpu(device) else device)
        self.is_of_gpu = is_gpu(device)

    setattr(contexts.DeviceContext, "__init__", context)


def _is_among(value: Any, functions: Iterable[Any]) -> bool:
    return callable(value) and not isinstance(value, type) and any(value is function for function in functions)


def _replace_methods() -> None:
    """Has the methods of tensors, modules and storages that name a device stay on the CPU."""
    for name in _METHODS:
        setattr(torch.Tensor, name, on_cpu(getattr(torch.Tensor, name)))
    setattr(torch.Tensor, "to", _to_on_cpu(torch.Tensor.to))
    setattr(torch.Tensor, "cuda", _cuda_of_tensor)
    setattr(torch.nn.Module, "cuda", _cuda_of_module)
    for kind in (torch.UntypedStorage, torch.TypedStorage):
        setattr(kind, "cuda", lambda self, *arguments, **named: self)
    setattr(torch.Tensor, "pin_memory", lambda self, *arguments, **named: self)
    setattr(torch.Tensor, "record_stream", lambda self, stream: None)
    setattr(torch.Tensor, "type", _type_on_gpu(torch.Tensor.type))
    setattr(torch.Tensor, "is_cuda", property(lambda self: self.device.type in ("cpu", "cuda")))


def _type_on_gpu(of_cpu: Any) -> Any:
    """Returns Tensor.type(), which says that a tensor lies on the GPU, and takes the names of types there."""

    def type_of(self: torch.Tensor, dtype: Any = None, *arguments: Any, **named: Any) -> Any:
        if dtype is None:
            name = of_cpu(self)
            return name if name.startswith("torch.cuda.") else name.replace("torch.", "torch.cuda.", 1)
        return of_cpu(self, dtype.replace("torch.cuda.", "torch.") if isinstance(dtype, str) else dtype)

    return type_of


def _generator(device: Any = "cpu") -> torch.Generator:
    return torch._C.Generator(CPU if is_gpu(device) or _is_number(device) else device)


def _restore_on_cpu() -> None:
    """Has torch.load restore what was saved on a GPU, or is to be on one, on the CPU."""
    restore = torch.serialization.default_restore_location
    setattr(
        torch.serialization,
        "default_restore_location",
        lambda storage, location: restore(storage, "cpu" if is_gpu(location) else location),
    )


def _drop_devices_of_ddp() -> None:
    """Has DistributedDataParallel ignore the devices it is given."""
    ddp = torch.nn.parallel.DistributedDataParallel
    init = ddp.__init__

    @functools.wraps(init)
    def without_devices(
        self: Any, module: Any, device_ids: Any = None, output_device: Any = None, *arguments: Any, **named: Any
    ) -> None:
        init(self, module, None, None, *arguments, **named)

    setattr(ddp, "__init__", without_devices)
    setattr(ddp, "_passing_sync_batchnorm_handle", lambda self, module: None)  # refuses SyncBatchNorm on the CPU


def _move_meshes() -> None:
    """Has a DeviceMesh of GPUs be one of the CPU."""
    mesh = importlib.import_module("torch.distributed.device_mesh").DeviceMesh
    init = mesh.__init__

    @functools.wraps(init)
    def of_cpu(self: Any, device_type: Any, *arguments: Any, **named: Any) -> None:
        init(self, "cpu" if is_gpu(device_type) else device_type, *arguments, **named)

    setattr(mesh, "__init__", of_cpu)


def _move_fsdp() -> None:
    """Has FullyShardedDataParallel compute on the CPU, also where its `device_id` is a GPU."""
    setattr(importlib.import_module("torch.distributed.fsdp._init_utils"), "_get_compute_device", lambda *a, **k: CPU)
    kind = importlib.import_module("torch.distributed.fsdp").FullyShardedDataParallel
    init = kind.__init__

    @functools.wraps(init)
    def of_cpu(self: Any, *arguments: Any, **named: Any) -> None:
        init(self, *arguments, **{**named, "device_id": CPU})

    setattr(kind, "__init__", of_cpu)


def _use_exact_attention() -> None:
    """Has scaled_dot_product_attention use its plain form, whatever the program chooses: DTensors know no other one on
    the CPU. What the program has chosen is remembered."""
    chosen = {}
    for kind in _SDP_KINDS:
        getter, setter = f"_get_{kind}_sdp_enabled", f"_set_sdp_use_{kind}"
        if not hasattr(torch._C, getter):
            continue
        chosen[kind] = getattr(torch._C, getter)()
        getattr(torch._C, setter)(kind == "math")
        setattr(torch._C, getter, functools.partial(chosen.__getitem__, kind))
        setattr(torch._C, setter, functools.partial(chosen.__setitem__, kind))


def _with_mask(attention: Callable[..., Any]) -> Callable[..., Any]:
    """Returns scaled_dot_product_attention, whose causal mask is a plain tensor: it is the same on every rank."""

    @functools.wraps(attention)
    def masked(query: Any, *arguments: Any, **named: Any) -> Any:
        if not hasattr(query, "device_mesh"):  # of DTensors
            return attention(query, *arguments, **named)
        experimental = importlib.import_module("torch.distributed.tensor.experimental")
        with getattr(experimental, "implicit_replication", contextlib.nullcontext)():  # since torch 2.5
            return attention(query, *arguments, **named)

    return masked


def _allow_capturable() -> None:
    """Has optimizers take capturable=True for parameters on the CPU."""
    of_torch = getattr(importlib.import_module("torch.optim.optimizer"), "_get_capturable_supported_devices", None)
    if of_torch is None:
        return

    def devices(supports_xla: bool = True) -> List[str]:  # in words that torch.jit.script reads
        return of_torch(supports_xla) + ["cpu"]

    for name, module in list(sys.modules.items()):
        if name.startswith("torch.optim.") and getattr(module, "_get_capturable_supported_devices", None) is of_torch:
            setattr(module, "_get_capturable_supported_devices", devices)


def caller() -> str:
    """Returns the function, file and line that have reached what calls this."""
    frame = sys._getframe(2)
    while frame.f_back is not None and frame.f_code.co_name == "on_the_cpu":
        frame = frame.f_back
    info = inspect.getframeinfo(frame, 0)
    return f"{info.function} at {info.filename}:{info.lineno}"


def install() -> None:
    """Has all that takes a device take the GPU for the CPU."""
    _replace_makers()
    _replace_methods()
    generators.install(replace)
    setattr(torch, "Generator", played_class(torch.Generator, _generator))
    _restore_on_cpu()
    _drop_devices_of_ddp()
    _move_meshes()
    _move_fsdp()
    _use_exact_attention()
    replace(torch.nn.functional, "scaled_dot_product_attention", _with_mask)
    _allow_capturable()
