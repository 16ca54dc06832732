"""Linear and LayerNormLinear, divided over ranks by columns or rows.

Shapes  x [..., in]; weight [out, in], or one for each part of the features (`query_weight`), of which a rank has its
        rows ("column") or its columns ("row"). With sequence parallelism the first dimension of x ("column") or of the
        result ("row") is divided over the ranks.
Calls   "column" gathers x, again in the backward pass, or sums its gradient; "row" sums the result.
"""

from typing import Any, Callable, NamedTuple, Optional, Tuple

import torch

from .layer import Matrix, WithWeights, split_matrix
from .norms import give_norm, known_norm, normalized, reset_norm
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


def multiplied(
    layer: WithWeights, x: Tensor, weight: Tensor, bias: Optional[Tensor], mode: Optional[str]
) -> Tuple[Tensor, Optional[Tensor]]:
    """Returns the product with a matrix of a layer, and the bias, which is added if the layer applies its biases."""
    adds = layer.fuse_wgrad_accumulation and hasattr(weight, "main_grad")
    x, used, bias = in_autocast(x, weight, bias)
    how = How(mode if layer.tp_size > 1 else None, layer.tp_group, layer.sequence_parallel, adds)
    is_added_after = how.mode == "row"  # each rank would add it to its own part of the sum
    inner = bias if layer.apply_bias and not is_added_after else None
    y = Product.apply(x, weight if adds else used, inner, how)
    return (y + bias if layer.apply_bias and is_added_after and bias is not None else y), bias


class Linear(WithWeights):
    """A linear layer. Its result is divided over ranks ("column"), or summed over them ("row")."""

    def __init__(
        self,
        in_features: int,
        out_features: int,
        sequence_parallel: bool = False,
        fuse_wgrad_accumulation: bool = False,
        tp_group: Any = None,
        tp_size: int = 1,
        get_rng_state_tracker: Optional[Callable[..., Any]] = None,
        init_method: Optional[Callable[..., Any]] = None,
        bias: bool = True,
        return_bias: bool = False,
        params_dtype: Optional[torch.dtype] = None,
        parallel_mode: Optional[str] = None,
        parameters_split: Any = None,
        **named: Any,
    ) -> None:
        whole = Matrix("weight", "bias", out_features, in_features, parallel_mode, init_method)
        super().__init__(
            split_matrix(parameters_split, whole),
            sequence_parallel,
            fuse_wgrad_accumulation,
            tp_group,
            tp_size,
            get_rng_state_tracker,
            bias,
            return_bias,
            params_dtype,
            **named,
        )
        self.parallel_mode = parallel_mode
        self.in_features = in_features // self._parts(whole, "row")
        self.out_features = out_features // self._parts(whole, "column")

    def _whole(self) -> Tuple[Tensor, Optional[Tensor]]:
        """Returns the weight and the bias of all parts of the features."""
        parts = [(getattr(self, matrix.weight), self._bias(matrix)) for matrix in self._matrices]
        if len(parts) == 1:
            return parts[0]
        biases = [bias for _, bias in parts if bias is not None]
        return torch.cat([weight for weight, _ in parts]), torch.cat(biases) if biases else None

    def _product(self, x: Tensor) -> Any:
        """Returns the result for x, and the bias with it if the layer returns its bias."""
        y, bias = multiplied(self, x, *self._whole(), self.parallel_mode)
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
        refuse("LayerNormLinear", return_layernorm_output_gathered=return_layernorm_output_gathered)
        self.eps, self.normalization, self.zero_centered_gamma = eps, normalization, zero_centered_gamma
        self.return_layernorm_output = return_layernorm_output
        give_norm(self, known_norm(normalization), zero_centered_gamma, in_features, self._made)

    def reset_parameters(self, defer_init: bool = False) -> None:
        super().reset_parameters(defer_init)
        if not defer_init:
            reset_norm(self.layer_norm_weight, self.layer_norm_bias, self.zero_centered_gamma)

    def forward(self, inp: Tensor, is_first_microbatch: Optional[bool] = None, fp8_output: bool = False) -> Any:
        refuse("LayerNormLinear", fp8_output=fp8_output)
        rows = normalized(inp, self.layer_norm_weight, self.layer_norm_bias, self.eps, self.zero_centered_gamma)
        made = self._product(rows)
        if not self.return_layernorm_output:
            return made
        return (*made, rows) if self.return_bias else (made, rows)
