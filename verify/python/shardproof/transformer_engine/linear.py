"""Linear and LayerNormLinear, divided over ranks by columns or rows.

Shapes  x [..., in]; weight [out, in], of which a rank has its rows ("column") or its columns ("row"). With sequence
        parallelism the first dimension of x ("column") or of the result ("row") is divided over the ranks.
Calls   "column" gathers x, again in the backward pass, or sums its gradient; "row" sums the result.
"""

from typing import Any, NamedTuple, Optional, Tuple

import torch

from .layer import WithWeights
from .norms import normalized
from .parallel import Tensor, all_reduced, gathered, reduce_scattered, refuse


class How(NamedTuple):
    """How a product is divided, and where the gradient of its weight goes."""

    mode: Optional[str]
    group: Any
    cuts_sequence: bool
    adds_to_main_grad: bool


class Product(torch.autograd.Function):
    """x @ weight.T + bias, with the collectives of tensor parallelism."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Optional[Tensor], how: How) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.how, ctx.has_bias = how, bias is not None
        rows = gathered(x, how.group) if how.mode == "column" and how.cuts_sequence else x
        y = torch.nn.functional.linear(rows, weight, bias)
        if how.mode != "row":
            return y
        return reduce_scattered(y, how.group) if how.cuts_sequence else all_reduced(y, how.group)

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> Tuple[Optional[Tensor], ...]:
        x, weight = ctx.saved_tensors
        how, dx, dw, db = ctx.how, None, None, None
        if how.mode == "row" and how.cuts_sequence:
            dy = gathered(dy, how.group)
        if ctx.needs_input_grad[0]:
            dx = dy @ weight
            if how.mode == "column":
                dx = reduce_scattered(dx, how.group) if how.cuts_sequence else all_reduced(dx, how.group)
        if ctx.needs_input_grad[1]:
            rows = gathered(x, how.group) if how.mode == "column" and how.cuts_sequence else x
            dw = dy.reshape(-1, dy.shape[-1]).t() @ rows.reshape(-1, rows.shape[-1])
            if how.adds_to_main_grad:
                dw = into_main_grad(weight, dw)
        if ctx.has_bias and ctx.needs_input_grad[2]:
            db = dy.reshape(-1, dy.shape[-1]).sum(0)
        return dx, dw, db, None


def into_main_grad(weight: Any, gradient: Tensor) -> Optional[Tensor]:
    """Adds a gradient to the weight's `main_grad`, and returns what autograd is to have in its place."""
    weight.main_grad.add_(gradient)
    if not hasattr(weight, "grad_added_to_main_grad"):
        return None
    weight.grad_added_to_main_grad = True
    return torch.zeros_like(gradient)


def in_autocast(*tensors: Any) -> Any:
    """Returns tensors in the dtype of autocast, in a region of it."""
    if not torch.is_autocast_enabled():
        return tensors
    dtype = torch.get_autocast_gpu_dtype()
    return tuple(None if x is None or x.dtype == torch.float64 else x.to(dtype) for x in tensors)


class Linear(WithWeights):
    """A linear layer. Its result is divided over ranks ("column"), or summed over them ("row")."""

    def __init__(self, in_features: int, out_features: int, *arguments: Any, **named: Any) -> None:
        super().__init__(None, in_features, out_features, *arguments, **named)

    def _product(self, x: Tensor) -> Any:
        """Returns the result for x, and the bias with it if the layer returns its bias."""
        x, weight, bias = in_autocast(x, self.weight, self.bias if self.use_bias else None)
        is_divided = self.tp_size > 1 and self.parallel_mode is not None
        adds = self.fuse_wgrad_accumulation and hasattr(self.weight, "main_grad")
        how = How(self.parallel_mode if is_divided else None, self.tp_group, self.sequence_parallel, adds)
        is_added_after = is_divided and self.parallel_mode == "row"  # each rank would add it to its own part of the sum
        inner = bias if self.apply_bias and not is_added_after else None
        y = Product.apply(x, self.weight if adds else weight, inner, how)
        if self.apply_bias and is_added_after:
            y = y + bias
        return (y, bias) if self.return_bias else y

    def forward(self, inp: Tensor, is_first_microbatch: Optional[bool] = None, fp8_output: bool = False) -> Any:
        refuse("Linear", fp8_output=fp8_output)
        return self._product(inp)


class LayerNormLinear(Linear):
    """A norm and then a linear layer."""

    def __init__(
        self,
        in_features: int,
        out_features: int,
        eps: float = 1e-5,
        *arguments: Any,
        normalization: str = "LayerNorm",
        return_layernorm_output: bool = False,
        return_layernorm_output_gathered: bool = False,
        zero_centered_gamma: bool = False,
        **named: Any,
    ) -> None:
        super().__init__(in_features, out_features, *arguments, **named)
        if normalization not in ("LayerNorm", "RMSNorm"):
            raise ValueError(f"normalization is {normalization}: it has to be 'LayerNorm' or 'RMSNorm'")
        refuse("LayerNormLinear", return_layernorm_output_gathered=return_layernorm_output_gathered)
        self.eps, self.normalization, self.zero_centered_gamma = eps, normalization, zero_centered_gamma
        self.return_layernorm_output = return_layernorm_output
        made: Any = {"dtype": self.weight.dtype, "device": self.weight.device}
        self.layer_norm_weight = torch.nn.Parameter(
            torch.full([in_features], 0.0 if zero_centered_gamma else 1.0, **made)
        )
        has_bias = normalization == "LayerNorm"
        self.layer_norm_bias = torch.nn.Parameter(torch.zeros(in_features, **made)) if has_bias else None
        for parameter in (self.layer_norm_weight, self.layer_norm_bias):
            if parameter is not None:
                setattr(parameter, "sequence_parallel", self.sequence_parallel)

    def forward(self, inp: Tensor, is_first_microbatch: Optional[bool] = None, fp8_output: bool = False) -> Any:
        refuse("LayerNormLinear", fp8_output=fp8_output)
        rows = normalized(inp, self.layer_norm_weight, self.layer_norm_bias, self.eps, self.zero_centered_gamma)
        made = self._product(rows)
        if not self.return_layernorm_output:
            return made
        return (*made, rows) if self.return_bias else (made, rows)
