"""Gives the GPU that is played a generator of random numbers of its own: a seed of the one is no seed of the other.

Calls   install() once in a rank's process, after what makes tensors is replaced (devices.py), before the program runs.
Exact   A draw is the GPU's if the device that it names is a GPU, or if its tensor is there. A tensor is on the CPU if it
        was made there, by a function that names no GPU, and was not moved; if nothing is known of it, it is on the GPU
        of a program that has one in use. Draws of the GPU use torch's own generator, which has the GPU's state meanwhile.
"""

import contextlib
import functools
from typing import Any, Callable, Iterator

import torch

OF_GPU = torch.Generator()
OF_GPU.manual_seed(torch.default_generator.initial_seed())

_FILLS = "normal_ uniform_ random_ bernoulli_ exponential_ geometric_ cauchy_ log_normal_ bernoulli multinomial".split()
_DRAWS = (
    "bernoulli multinomial poisson binomial dropout dropout_ native_dropout alpha_dropout alpha_dropout_ feature_dropout "
    "feature_dropout_ feature_alpha_dropout feature_alpha_dropout_ rrelu rrelu_"
).split()
_LAYERS = (
    "dropout dropout1d dropout2d dropout3d alpha_dropout feature_alpha_dropout rrelu scaled_dot_product_attention"
).split()
MAKES = "rand randn randint randperm normal rand_like randn_like randint_like".split()
_MADE_ON_CPU = "_shardproof_made_on_cpu"  # an attribute of a storage

_in_use = [False]  # whether the program has named a GPU
_is_drawing = [False]


def use_gpu() -> None:
    """Is called when the program puts something on a GPU."""
    _in_use[0] = True


def is_in_use() -> bool:
    return _in_use[0]


def _storage(tensor: torch.Tensor) -> Any:
    """Returns the storage of a tensor; None if it has none of its own."""
    try:
        return tensor.untyped_storage()
    except (AttributeError, NotImplementedError, RuntimeError):
        return None


def is_on_gpu(tensor: Any) -> bool:
    return _in_use[0] and not hasattr(_storage(tensor), _MADE_ON_CPU)


def put_on_gpu(tensors: Any) -> None:
    """Knows that tensors are on the GPU now."""
    use_gpu()
    for tensor in tensors:
        storage = _storage(tensor)
        if hasattr(storage, _MADE_ON_CPU):
            delattr(storage, _MADE_ON_CPU)


def has_default_gpu() -> bool:
    """Whether what names no device is made on a GPU: in the region of a torch.device, or after set_default_device."""
    modes = (torch._C._get_function_stack_at(place) for place in reversed(range(torch._C._len_torch_function_stack())))
    return next((mode.is_of_gpu for mode in modes if hasattr(mode, "is_of_gpu")), False)


def put_on_cpu(tensor: Any) -> None:
    """Knows that a tensor was made on the CPU."""
    if type(tensor) in (torch.Tensor, torch.nn.Parameter):
        storage = _storage(tensor)
        if storage is not None:
            setattr(storage, _MADE_ON_CPU, True)


@contextlib.contextmanager
def drawing_on_gpu() -> Iterator[None]:
    """Has torch's own generator be that of the GPU, also for what is drawn within a draw."""
    if _is_drawing[0]:
        yield
        return
    _is_drawing[0] = True
    of_cpu = torch.default_generator.get_state()
    torch.default_generator.set_state(OF_GPU.get_state())
    try:
        yield
    finally:
        OF_GPU.set_state(torch.default_generator.get_state())
        torch.default_generator.set_state(of_cpu)
        _is_drawing[0] = False


def _of_tensor(function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a function that draws for the tensor which it is given first, on the device of that tensor."""

    @functools.wraps(function)
    def drawn(tensor: Any, *arguments: Any, **named: Any) -> Any:
        if named.get("generator") is not None or not is_on_gpu(tensor):
            return function(tensor, *arguments, **named)
        with drawing_on_gpu():
            return function(tensor, *arguments, **named)

    return drawn


def install(replace: Callable[[Any, str, Callable[[Any], Any]], None]) -> None:
    for name in _FILLS:
        replace(torch.Tensor, name, _of_tensor)
    for name in _DRAWS:
        replace(torch, name, _of_tensor)
    for name in _LAYERS:
        replace(torch.nn.functional, name, _of_tensor)
