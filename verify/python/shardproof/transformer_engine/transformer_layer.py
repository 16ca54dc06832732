"""The layers that a program need not put together itself: attention with its projections, a norm with an MLP, and the
transformer layer of both.

Shapes  x [s, b, hidden] ("sbhd") or [b, s, hidden] ("bshd"). The queries, keys and values of one projection are, with
        `qkv_weight_interleaved`, those of one group of heads after the other.
Calls   those of linear.py and attention.py; without `set_parallel_mode` the projections have none.
Errors  NotServed for cross attention, a decoder, and a layer whose parts are not in this order.
"""

from typing import Any, Callable, Dict, Optional, Tuple

import torch

from . import ops
from .attention import DotProductAttention, size_of_context
from .layer import Layer, Matrix, WithWeights, divided
from .linear import LayerNormLinear, Linear, in_autocast, multiplied
from .norms import give_norm, known_norm, normalized, reset_norm
from .parallel import Tensor, refuse
from .rope import apply_rotary_pos_emb

_ACTIVATIONS: Dict[str, Any] = {
    "gelu": ops.GELU,
    "relu": ops.ReLU,
    "silu": ops.SiLU,
    "geglu": ops.GEGLU,
    "reglu": ops.ReGLU,
    "swiglu": ops.SwiGLU,
}
_GATED = ("geglu", "reglu", "swiglu")
Init = Optional[Callable[..., Any]]


class _Whole(Layer):
    """A layer of layers: it has no state of FP8 of its own, and its options of user buffers have no effect when these
    are off."""

    get_extra_state = torch.nn.Module.get_extra_state
    set_extra_state = torch.nn.Module.set_extra_state


def _without_user_buffers(named: Dict[str, Any]) -> Dict[str, Any]:
    refuse("user buffers", ub_tp_comm_overlap=named.get("ub_tp_comm_overlap"))
    return {name: value for name, value in named.items() if not name.startswith("ub_")}


class LayerNormMLP(WithWeights):
    """A norm, a projection to `ffn_hidden_size` features, an activation, and a projection back."""

    def __init__(
        self,
        hidden_size: int,
        ffn_hidden_size: int,
        eps: float = 1e-5,
        sequence_parallel: bool = False,
        init_method: Init = None,
        output_layer_init_method: Init = None,
        normalization: str = "LayerNorm",
        activation: str = "gelu",
        set_parallel_mode: bool = False,
        zero_centered_gamma: bool = False,
        **named: Any,
    ) -> None:
        refuse("LayerNormMLP", activation=None if activation in _ACTIVATIONS else activation)
        up, down = ("column", "row") if set_parallel_mode else (None, None)
        width = ffn_hidden_size * (2 if activation in _GATED else 1)
        matrices = [
            Matrix("fc1_weight", "fc1_bias", width, hidden_size, up, init_method),
            Matrix("fc2_weight", "fc2_bias", hidden_size, ffn_hidden_size, down, output_layer_init_method),
        ]
        super().__init__(matrices, sequence_parallel, **named)
        self.eps, self.zero_centered_gamma = eps, zero_centered_gamma
        refuse("LayerNormMLP", tp_size=self.tp_size if self.tp_size > 1 and not set_parallel_mode else None)
        give_norm(self, known_norm(normalization), zero_centered_gamma, hidden_size, self._made)
        self.activation, self._activated = activation, _ACTIVATIONS[activation]()

    def reset_parameters(self, defer_init: bool = False) -> None:
        super().reset_parameters(defer_init)
        if not defer_init:
            reset_norm(self.layer_norm_weight, self.layer_norm_bias, self.zero_centered_gamma)

    def forward(self, inp: Tensor, is_first_microbatch: Optional[bool] = None) -> Any:
        rows = normalized(inp, self.layer_norm_weight, self.layer_norm_bias, self.eps, self.zero_centered_gamma)
        up, down = self._matrices
        rows, bias = multiplied(self, rows, self.fc1_weight, self._bias(up), up.mode)
        if self.use_bias and not self.apply_bias:
            rows = rows + bias
        y, bias = multiplied(self, self._activated(rows), self.fc2_weight, self._bias(down), down.mode)
        return (y, bias) if self.return_bias else y


class MultiheadAttention(_Whole):
    """Self attention with the projections before and behind it, and with a norm if `input_layernorm` is set."""

    def __init__(
        self,
        hidden_size: int,
        num_attention_heads: int,
        kv_channels: Optional[int] = None,
        attention_dropout: float = 0.1,
        layernorm_epsilon: float = 1e-5,
        init_method: Init = None,
        output_layer_init_method: Init = None,
        layer_number: Optional[int] = None,
        attn_mask_type: str = "causal",
        window_size: Optional[Tuple[int, int]] = None,
        tp_group: Any = None,
        tp_size: int = 1,
        num_gqa_groups: Optional[int] = None,
        get_rng_state_tracker: Optional[Callable[..., Any]] = None,
        sequence_parallel: bool = False,
        return_bias: bool = False,
        input_layernorm: bool = False,
        attention_type: str = "self",
        set_parallel_mode: bool = False,
        fuse_qkv_params: bool = False,
        zero_centered_gamma: bool = False,
        qkv_weight_interleaved: bool = True,
        bias: bool = True,
        normalization: str = "LayerNorm",
        qkv_format: str = "sbhd",
        rotary_pos_interleaved: bool = False,
        softmax_type: str = "vanilla",
        qk_norm_type: Optional[str] = None,
        qk_norm_eps: float = 1e-6,
        **named: Any,
    ) -> None:
        super().__init__()
        refuse("MultiheadAttention", attention_type=None if attention_type == "self" else attention_type)
        refuse("MultiheadAttention", qk_norm_type=qk_norm_type)
        self._join(tp_group, tp_size, sequence_parallel)
        refuse("MultiheadAttention", tp_size=self.tp_size if self.tp_size > 1 and not set_parallel_mode else None)
        width, groups = kv_channels or hidden_size // num_attention_heads, num_gqa_groups or num_attention_heads
        self._heads = divided(num_attention_heads, self.tp_size)
        self._groups = divided(groups, self.tp_size)
        self._width, self.qkv_format = width, qkv_format
        self._is_interleaved = fuse_qkv_params and qkv_weight_interleaved
        self._turns_pairs = rotary_pos_interleaved
        common = {
            "tp_group": self.tp_group,
            "tp_size": self.tp_size,
            "sequence_parallel": sequence_parallel,
            "get_rng_state_tracker": get_rng_state_tracker,
            "bias": bias,
            **_without_user_buffers(named),
        }
        sizes = {"query": num_attention_heads * width, "key": groups * width, "value": groups * width}
        into = {
            **common,
            "init_method": init_method,
            "parallel_mode": "column" if set_parallel_mode else None,
            "parameters_split": None if fuse_qkv_params else sizes,
        }
        if input_layernorm:
            of_norm = {"normalization": normalization, "zero_centered_gamma": zero_centered_gamma}
            self.layernorm_qkv = LayerNormLinear(hidden_size, sum(sizes.values()), layernorm_epsilon, **of_norm, **into)
        else:
            self.qkv = Linear(hidden_size, sum(sizes.values()), **into)
        self.core_attention = DotProductAttention(
            num_attention_heads,
            width,
            groups,
            attention_dropout,
            qkv_format,
            attn_mask_type,
            window_size,
            tp_size=self.tp_size,
            tp_group=self.tp_group,
            get_rng_state_tracker=get_rng_state_tracker,
            layer_number=layer_number,
            softmax_type=softmax_type,
        )
        self.proj = Linear(
            num_attention_heads * width,
            hidden_size,
            return_bias=return_bias,
            init_method=output_layer_init_method,
            parallel_mode="row" if set_parallel_mode else None,
            **common,
        )

    def set_context_parallel_group(self, *given: Any, **named: Any) -> None:
        self.core_attention.set_context_parallel_group(*given, **named)

    def _parts(self, mixed: Tensor) -> Tuple[Tensor, Tensor, Tensor]:
        """Returns queries, keys and values, each [..., heads, width]."""
        shape, repeats = mixed.shape[:-1], self._heads // self._groups
        if self._is_interleaved:
            q, k, v = mixed.reshape(*shape, self._groups, repeats + 2, self._width).split([repeats, 1, 1], -2)
            return q.flatten(-3, -2), k.squeeze(-2), v.squeeze(-2)
        q, k, v = mixed.reshape(*shape, -1, self._width).split([self._heads, self._groups, self._groups], -2)
        return q, k, v

    def forward(
        self,
        hidden_states: Tensor,
        attention_mask: Any = None,
        encoder_output: Any = None,
        attn_mask_type: Optional[str] = None,
        window_size: Optional[Tuple[int, int]] = None,
        is_first_microbatch: Optional[bool] = None,
        checkpoint_core_attention: bool = False,
        inference_params: Any = None,
        rotary_pos_emb: Any = None,
        **named: Any,
    ) -> Any:
        refuse("MultiheadAttention", encoder_output=encoder_output, inference_params=inference_params)
        projected = self.layernorm_qkv if hasattr(self, "layernorm_qkv") else self.qkv
        q, k, v = self._parts(projected(hidden_states))
        if rotary_pos_emb is not None:
            has_context = size_of_context(self.core_attention.cp_group) > 1
            refuse("MultiheadAttention", rotary_pos_emb="of a part of a sequence" if has_context else None)
            pair = rotary_pos_emb if isinstance(rotary_pos_emb, tuple) else (rotary_pos_emb, rotary_pos_emb)
            q, k = (
                apply_rotary_pos_emb(
                    x,
                    freqs,
                    self.qkv_format,
                    interleaved=self._turns_pairs,
                    cu_seqlens=named.get("cu_seqlens_q_padded", named.get("cu_seqlens_q")),
                )
                for x, freqs in zip((q, k), pair)
            )
        said = {"attn_mask_type": attn_mask_type, "window_size": window_size}
        return self.proj(self.core_attention(q, k, v, attention_mask, **said, **named))


class TransformerLayer(_Whole):
    """Attention and an MLP, each with a norm before it, and with dropout and its own input added behind it."""

    def __init__(
        self,
        hidden_size: int,
        ffn_hidden_size: int,
        num_attention_heads: int,
        num_gqa_groups: Optional[int] = None,
        layernorm_epsilon: float = 1e-5,
        hidden_dropout: float = 0.1,
        attention_dropout: float = 0.1,
        init_method: Init = None,
        output_layer_init_method: Init = None,
        layer_number: Optional[int] = None,
        kv_channels: Optional[int] = None,
        self_attn_mask_type: str = "causal",
        window_size: Optional[Tuple[int, int]] = None,
        enc_dec_attn_mask_type: str = "no_mask",
        enc_dec_window_size: Optional[Tuple[int, int]] = None,
        tp_group: Any = None,
        tp_size: int = 1,
        get_rng_state_tracker: Optional[Callable[..., Any]] = None,
        sequence_parallel: bool = False,
        apply_residual_connection_post_layernorm: bool = False,
        output_layernorm: bool = False,
        parallel_attention_mlp: bool = False,
        layer_type: str = "encoder",
        drop_path_rate: float = 0.0,
        set_parallel_mode: bool = False,
        fuse_qkv_params: bool = False,
        rotary_pos_interleaved: bool = False,
        qkv_weight_interleaved: bool = True,
        activation: str = "gelu",
        attn_input_format: str = "sbhd",
        softmax_type: str = "vanilla",
        qk_norm_type: Optional[str] = None,
        qk_norm_eps: float = 1e-6,
        **common: Any,
    ) -> None:
        super().__init__()
        refuse(
            "TransformerLayer",
            layer_type=None if layer_type == "encoder" else layer_type,
            drop_path_rate=drop_path_rate or None,
            output_layernorm=output_layernorm,
            parallel_attention_mlp=parallel_attention_mlp,
            apply_residual_connection_post_layernorm=apply_residual_connection_post_layernorm,
            qk_norm_type=qk_norm_type,
        )
        if common.get("fuse_wgrad_accumulation") and not fuse_qkv_params:
            raise ValueError("fuse_wgrad_accumulation needs fuse_qkv_params")
        self._join(tp_group, tp_size, sequence_parallel)
        self.layer_number, self.hidden_dropout = layer_number, hidden_dropout
        both = {
            "tp_group": tp_group,
            "tp_size": tp_size,
            "sequence_parallel": sequence_parallel,
            "get_rng_state_tracker": get_rng_state_tracker,
            "init_method": init_method,
            "output_layer_init_method": output_layer_init_method,
            "set_parallel_mode": set_parallel_mode,
            "return_bias": True,
            **_without_user_buffers(common),
        }
        self.self_attention = MultiheadAttention(
            hidden_size,
            num_attention_heads,
            kv_channels,
            attention_dropout,
            layernorm_epsilon,
            num_gqa_groups=num_gqa_groups,
            layer_number=layer_number,
            attn_mask_type=self_attn_mask_type,
            window_size=window_size,
            input_layernorm=True,
            fuse_qkv_params=fuse_qkv_params,
            qkv_weight_interleaved=qkv_weight_interleaved,
            qkv_format=attn_input_format,
            softmax_type=softmax_type,
            rotary_pos_interleaved=rotary_pos_interleaved,
            **both,
        )
        self.layernorm_mlp = LayerNormMLP(hidden_size, ffn_hidden_size, layernorm_epsilon, activation=activation, **both)

    def set_tensor_parallel_group(self, tp_group: Any) -> None:
        super().set_tensor_parallel_group(tp_group)
        for layer in self.modules():
            if layer is not self and isinstance(layer, Layer):
                layer.set_tensor_parallel_group(tp_group)

    def set_context_parallel_group(self, *given: Any, **named: Any) -> None:
        self.self_attention.set_context_parallel_group(*given, **named)

    def _added(self, x: Tensor, made: Tuple[Tensor, Optional[Tensor]]) -> Tensor:
        """Returns x and what a part of the layer has made of it."""
        y = made[0] if made[1] is None else made[0] + made[1]
        return x + torch.nn.functional.dropout(y, self.hidden_dropout, self.training)

    def forward(
        self,
        hidden_states: Tensor,
        attention_mask: Any = None,
        self_attn_mask_type: Optional[str] = None,
        window_size: Optional[Tuple[int, int]] = None,
        encoder_output: Any = None,
        is_first_microbatch: Optional[bool] = None,
        checkpoint_core_attention: bool = False,
        inference_params: Any = None,
        rotary_pos_emb: Any = None,
        **named: Any,
    ) -> Tensor:
        (hidden_states,) = in_autocast(hidden_states)
        attended = self.self_attention(
            hidden_states,
            attention_mask,
            encoder_output,
            self_attn_mask_type,
            window_size,
            inference_params=inference_params,
            rotary_pos_emb=rotary_pos_emb,
            **named,
        )
        x = self._added(hidden_states, attended)
        return self._added(x, self.layernorm_mlp(x))
