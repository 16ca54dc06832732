"""The operations of which a program makes sequences, and the sequence.

Shapes  an operation takes x and its own further inputs, such as the sizes of groups or factors of rows. MakeExtraOutput
        gives x once more; a sequence gives what its operations give beside x behind its result.
Calls   BasicLinear has those of linear.py; AllReduce, AllGather and ReduceScatter one each, and the last two the other
        one in the backward pass.
Exact   activations are computed in f32, or f64 for f64. GELU and GEGLU have the tanh form of Transformer Engine.
"""

from typing import Any, Callable, List, Optional

import torch
import torch.nn.functional as F

from . import norms
from .grouped_linear import GroupedLinear as _Grouped
from .layer import Matrix, WithWeights
from .linear import multiplied
from .parallel import Tensor, all_reduced, gathered, reduce_scattered, refuse, size_of, wide


class FusibleOperation(torch.nn.Module):
    num_extra_inputs = num_extra_outputs = 0


class Sequential(torch.nn.Module):
    """Operations, one after the other."""

    def __init__(self, *operations: Any) -> None:
        super().__init__()
        self._modules_in_order: List[Any] = []
        for operation in operations:
            self.append(operation)

    def append(self, operation: Any) -> "Sequential":
        self.add_module(str(len(self._modules_in_order)), operation)
        self._modules_in_order.append(operation)
        return self

    def __len__(self) -> int:
        return len(self._modules_in_order)

    def __getitem__(self, number: Any) -> Any:
        return self._modules_in_order[number]

    def __iter__(self) -> Any:
        return iter(self._modules_in_order)

    def forward(self, x: Tensor, *extra: Any) -> Any:
        given, made = list(extra), []
        for operation in self._modules_in_order:
            count = getattr(operation, "num_extra_inputs", 0)
            x = operation(x, *given[:count])
            del given[:count]
            if getattr(operation, "num_extra_outputs", 0):
                x, *others = x
                made += others
        if given:
            raise ValueError(f"{len(given)} further inputs are of no operation")
        return (x, *made) if made else x


class LayerNorm(norms.LayerNorm, FusibleOperation):
    pass


class RMSNorm(norms.RMSNorm, FusibleOperation):
    pass


class BasicLinear(WithWeights, FusibleOperation):
    """A matrix without a bias. Its result is divided over ranks ("column"), or summed over them ("row")."""

    def __init__(
        self,
        in_features: int,
        out_features: int,
        *,
        device: Any = None,
        dtype: Optional[torch.dtype] = None,
        tensor_parallel_mode: Optional[str] = None,
        tensor_parallel_group: Any = None,
        sequence_parallel: bool = False,
        rng_state_tracker_function: Optional[Callable[..., Any]] = None,
        accumulate_into_main_grad: bool = False,
        userbuffers_options: Any = None,
    ) -> None:
        refuse("ops.BasicLinear", userbuffers_options=userbuffers_options)
        super().__init__(
            [Matrix("weight", "bias", out_features, in_features, tensor_parallel_mode)],
            sequence_parallel,
            accumulate_into_main_grad,
            tensor_parallel_group,
            get_rng_state_tracker=rng_state_tracker_function,
            bias=False,
            params_dtype=dtype,
            device=device or "cuda",
        )
        self.parallel_mode = tensor_parallel_mode

    def forward(self, x: Tensor) -> Tensor:
        return multiplied(self, x, self.weight, None, self.parallel_mode)[0]


class Bias(FusibleOperation):
    def __init__(self, size: int, *, device: Any = None, dtype: Optional[torch.dtype] = None, **named: Any) -> None:
        super().__init__()
        refuse("ops.Bias", **named)
        self.bias = torch.nn.Parameter(torch.zeros(size, device=device or "cuda", dtype=dtype))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.bias


class GroupedLinear(_Grouped, FusibleOperation):
    """A linear layer for each group of rows, whose sizes are a further input."""

    num_extra_inputs = 1

    def __init__(
        self,
        num_groups: int,
        in_features: int,
        out_features: int,
        *,
        bias: bool = True,
        device: Any = None,
        dtype: Optional[torch.dtype] = None,
        rng_state_tracker_function: Optional[Callable[..., Any]] = None,
        accumulate_into_main_grad: bool = False,
        **named: Any,
    ) -> None:
        super().__init__(
            num_groups,
            in_features,
            out_features,
            fuse_wgrad_accumulation=accumulate_into_main_grad,
            get_rng_state_tracker=rng_state_tracker_function,
            bias=bias,
            params_dtype=dtype,
            device=device or "cuda",
            **named,
        )

    def forward(self, x: Tensor, m_splits: Any) -> Any:  # type: ignore[override]
        return super().forward(x, m_splits.tolist() if torch.is_tensor(m_splits) else m_splits)


class MakeExtraOutput(FusibleOperation):
    num_extra_outputs = 1

    def forward(self, x: Tensor) -> Any:
        return x, x


class _Call(torch.autograd.Function):
    """A collective, with the one that is its backward pass."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, group: Any, there: Any, back: Any) -> Tensor:
        ctx.group, ctx.back = group, back
        result: Tensor = there(x, group)
        return result

    @staticmethod
    def backward(ctx: Any, d_result: Tensor) -> Any:
        return ctx.back(d_result, ctx.group), None, None, None


class _Collective(FusibleOperation):
    _there: Any = None
    _back: Any = None

    def __init__(self, process_group: Any = None, **named: Any) -> None:
        super().__init__()
        refuse(f"ops.{type(self).__name__}", **named)
        self.process_group = process_group

    def forward(self, x: Tensor) -> Any:
        if size_of(self.process_group) == 1:
            return x
        return _Call.apply(x, self.process_group, type(self)._there, type(self)._back)


class AllReduce(_Collective):
    """The sum over ranks. Its gradient is that of each rank already."""

    _there = staticmethod(all_reduced)
    _back = staticmethod(lambda x, group: x)


class AllGather(_Collective):
    _there = staticmethod(gathered)
    _back = staticmethod(reduce_scattered)


class ReduceScatter(_Collective):
    _there = staticmethod(reduce_scattered)
    _back = staticmethod(gathered)


def _tanh_gelu(x: Tensor) -> Tensor:
    return F.gelu(x, approximate="tanh")


class _Activation(FusibleOperation):
    _function: Any = None
    _is_gated = False

    def __init__(self, *, cache_quantized_input: bool = False, glu_interleave_size: Optional[int] = None) -> None:
        super().__init__()
        refuse(f"ops.{type(self).__name__}", cache_quantized_input=cache_quantized_input)
        self.glu_interleave_size = glu_interleave_size

    def _activated(self, x: Tensor) -> Tensor:
        x = wide(x)
        if not self._is_gated:
            return type(self)._function(x)  # type: ignore[no-any-return]
        if self.glu_interleave_size is not None:  # blocks of gates and values take turns
            blocks = x.reshape(*x.shape[:-1], -1, 2, self.glu_interleave_size)
            gate, value = blocks[..., 0, :].flatten(-2), blocks[..., 1, :].flatten(-2)
        else:
            gate, value = x.chunk(2, -1)
        return type(self)._function(gate) * value  # type: ignore[no-any-return]

    def forward(self, x: Tensor) -> Tensor:
        return self._activated(x).to(x.dtype)


class GELU(_Activation):
    _function = staticmethod(_tanh_gelu)


class ReLU(_Activation):
    _function = staticmethod(F.relu)


class SiLU(_Activation):
    _function = staticmethod(F.silu)


class GEGLU(GELU):
    _is_gated = True


class ReGLU(ReLU):
    _is_gated = True


class SwiGLU(SiLU):
    _is_gated = True


class ScaledSwiGLU(SwiGLU):
    """SwiGLU, whose rows are multiplied by a further input."""

    num_extra_inputs = 1

    def forward(self, x: Tensor, scales: Tensor) -> Tensor:  # type: ignore[override]
        return (self._activated(x) * wide(scales).unsqueeze(-1)).to(x.dtype)
