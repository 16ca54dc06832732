"""DotProductAttention, with groups of heads, packed sequences and context parallelism.

Shapes  q [s, b, h, d], k and v [s, b, g, d] ("sbhd"), [b, s, h, d] ("bshd"), or [t, h, d] ("thd", packed). The result
        has h * d as its last dimension. With context parallelism a rank has the chunks of places.py.
"""

import contextlib
from typing import Any, Callable, List, Optional, Tuple, Union

import torch

from . import places
from .blocks import Weighing
from .context import Gathered, Groups, Ring, by_group, groups_of, to_heads, to_tokens
from .layer import Layer, divided
from .parallel import Tensor, refuse, size_of, wide

_SOFTMAXES = ("vanilla", "off-by-one", "learnable")
_MASKS = ("no_mask", "causal", "causal_bottom_right", "padding", "padding_causal", "arbitrary")


class DotProductAttention(Layer):
    """softmax(scale * q k^T) v, over the tokens of all ranks of its context.

    With `softmax_type` "off-by-one" or "learnable" each head has one more score, `softmax_offset`, whose value is 0.
    """

    def __init__(
        self,
        num_attention_heads: int,
        kv_channels: Union[int, Tuple[int, int]],
        num_gqa_groups: Optional[int] = None,
        attention_dropout: float = 0.0,
        qkv_format: str = "sbhd",
        attn_mask_type: str = "causal",
        window_size: Optional[Tuple[int, int]] = None,
        sequence_parallel: bool = False,
        tp_size: int = 1,
        get_rng_state_tracker: Optional[Callable[..., Any]] = None,
        tp_group: Any = None,
        layer_number: Optional[int] = None,
        attention_type: str = "self",
        cp_group: Any = None,
        cp_global_ranks: Optional[List[int]] = None,
        cp_stream: Any = None,
        cp_comm_type: str = "p2p",
        softmax_scale: Optional[float] = None,
        softmax_type: str = "vanilla",
        **named: Any,
    ) -> None:
        super().__init__()
        refuse("DotProductAttention", softmax_type=None if softmax_type in _SOFTMAXES else softmax_type, **named)
        self._join(tp_group, tp_size, sequence_parallel)
        self.attn_mask_type, self.window_size, self.qkv_format = attn_mask_type, window_size, qkv_format
        self.layer_number, self.attention_type, self.softmax_type = layer_number, attention_type, softmax_type
        self.num_attention_heads = num_attention_heads
        self.num_gqa_groups_per_partition = divided(num_gqa_groups or num_attention_heads, self.tp_size)
        width = kv_channels if isinstance(kv_channels, int) else kv_channels[0]
        self.softmax_scale = width**-0.5 if softmax_scale is None else softmax_scale
        self.attention_dropout, self._tracker = attention_dropout, get_rng_state_tracker
        self.set_context_parallel_group(cp_group, cp_global_ranks, cp_stream, cp_comm_type)
        self.softmax_offset = None
        if softmax_type != "vanilla":
            offset = torch.zeros(divided(num_attention_heads, self.tp_size), device="cuda")
            self.softmax_offset = torch.nn.Parameter(offset) if softmax_type == "learnable" else offset

    def set_context_parallel_group(
        self, cp_group: Any, cp_global_ranks: Any, cp_stream: Any, cp_comm_type: str = "p2p"
    ) -> None:
        self.cp_group, self.cp_global_ranks, self.cp_stream = cp_group, cp_global_ranks, cp_stream
        self.cp_comm_type = cp_comm_type

    def forward(
        self,
        query_layer: Tensor,
        key_layer: Tensor,
        value_layer: Tensor,
        attention_mask: Any = None,
        qkv_format: Optional[str] = None,
        cu_seqlens_q: Optional[Tensor] = None,
        cu_seqlens_kv: Optional[Tensor] = None,
        cu_seqlens_q_padded: Optional[Tensor] = None,
        cu_seqlens_kv_padded: Optional[Tensor] = None,
        max_seqlen_q: Optional[int] = None,
        max_seqlen_kv: Optional[int] = None,
        attn_mask_type: Optional[str] = None,
        window_size: Optional[Tuple[int, int]] = None,
        core_attention_bias_type: str = "no_bias",
        fast_zero_fill: bool = True,
        pad_between_seqs: Optional[bool] = None,
        num_splits: Optional[int] = 1,
        bottom_right_diagonal: Optional[bool] = None,
        **named: Any,
    ) -> Tensor:
        refuse("DotProductAttention", core_attention_bias_type=_unless(core_attention_bias_type, "no_bias"), **named)
        kind, mask_type = qkv_format or self.qkv_format, attn_mask_type or self.attn_mask_type
        refuse("DotProductAttention", qkv_format=None if kind in ("sbhd", "bshd", "thd") else kind)
        refuse("DotProductAttention", attn_mask_type=None if mask_type in _MASKS else mask_type)
        q, k, v = (_tokens_first(x, kind) for x in (query_layer, key_layer, value_layer))
        packed = None
        if kind == "thd":
            of_queries = _packed(cu_seqlens_q, cu_seqlens_q_padded)
            of_keys = of_queries if cu_seqlens_kv is None else _packed(cu_seqlens_kv, cu_seqlens_kv_padded)
            packed = (of_queries, of_keys)
        window = _window(mask_type, self.window_size if window_size is None else window_size)
        mask = None if kind == "thd" else _given_mask(mask_type, attention_mask)
        is_aligned = q.shape[0] == k.shape[0]
        is_told = bottom_right_diagonal is not None or (not window.is_causal and max(window.left, window.right) >= 0)
        refuse("DotProductAttention", bottom_right_diagonal="of a window" if is_told and not is_aligned else None)
        result = self._attended(q, k, v, packed, window, (mask_type, mask)).flatten(2)
        return result.squeeze(1) if kind == "thd" else result.transpose(0, 1) if kind == "bshd" else result

    def _attended(self, q: Tensor, k: Tensor, v: Tensor, packed: Any, window: places.Window, masked: Any) -> Tensor:
        """Returns the result [s, b, h, dv] for q, k and v with their tokens first."""
        groups = Groups(None, None, None) if size_of_context(self.cp_group) == 1 else groups_of(self.cp_comm_type, self.cp_group)
        mask_type, mask = masked
        if groups.size > 1:
            refuse("context parallelism", attn_mask_type=mask_type if mask is not None else None)
            refuse("context parallelism", attn_mask_type=_if(mask_type, "causal_bottom_right"))
            refuse("context parallelism", softmax_type=_unless(self.softmax_type, "vanilla"))
        tokens = (q.shape[0], k.shape[0])
        q, k, v = (to_heads(x, groups.exchange) for x in (q, k, v))
        of_queries = self._places(tokens[0], groups.own_ranks(), groups.size, packed and packed[0])
        if mask_type == "causal_bottom_right":
            of_queries = places.Places(of_queries.positions + tokens[1] - tokens[0], of_queries.sequences)
        s, b, h, d = q.shape
        grouped = q.permute(1, 2, 0, 3).reshape(b, k.shape[2], h // k.shape[2], s, d)
        blocks = []
        for ranks in groups.ranks_of_sources():
            of_keys = self._places(tokens[1], ranks, groups.size, packed and packed[1])
            hidden = _either(places.hidden(of_queries, of_keys, window), mask, q.device)
            blocks.append(Weighing(self.softmax_scale, hidden, self._kept(grouped, len(of_keys.positions))))
        if groups.gather is not None:
            result = Gathered.apply(grouped, k, v, groups.gather, blocks[0])
        else:
            sink = None if self.softmax_offset is None else wide(self.softmax_offset).view(1, k.shape[2], -1, 1, 1)
            result = Ring.apply(grouped, by_group(k), by_group(v), sink, groups.ring, blocks)
        return to_tokens(result.reshape(b, h, s, -1).permute(2, 0, 1, 3), groups.exchange)

    @staticmethod
    def _places(tokens: int, ranks: List[int], size: int, packed: Any) -> places.Places:
        return places.Places.joined([places.of_rank(tokens, rank, size, packed) for rank in ranks])

    def _kept(self, q: Tensor, keys: int) -> Optional[Tensor]:
        """Returns the factors of dropout for a block of keys."""
        if self.attention_dropout == 0.0 or not self.training:
            return None
        with self._tracker().fork() if self._tracker is not None else contextlib.nullcontext():
            return torch.nn.functional.dropout(q.new_ones(*q.shape[:-1], keys), self.attention_dropout, True)


def _unless(value: Any, plain: Any) -> Any:
    return None if value == plain else value


def _if(value: Any, refused: Any) -> Any:
    return value if value == refused else None


def size_of_context(group: Any) -> int:
    """Returns the size of a group of context parallelism, or of several of them together."""
    parts = group if isinstance(group, (list, tuple)) else [group]
    size = 1
    for part in parts:
        size *= size_of(part)
    return size


def _tokens_first(x: Tensor, kind: str) -> Tensor:
    """Returns x as [s, b, h, d]."""
    return x.unsqueeze(1) if kind == "thd" else x.transpose(0, 1) if kind == "bshd" else x


def _packed(ends: Optional[Tensor], padded_ends: Optional[Tensor]) -> places.Packed:
    if ends is None:
        raise ValueError("packed sequences need cu_seqlens_q")
    return places.Packed(ends, ends if padded_ends is None else padded_ends)


def _window(mask_type: str, window_size: Optional[Tuple[int, int]]) -> places.Window:
    left, right = window_size if window_size is not None else (-1, -1)
    return places.Window("causal" in mask_type, int(left), int(right))


def _given_mask(mask_type: str, given: Any) -> Any:
    """Returns which keys the mask of the program hides, in the shape of scores. [b, 1, 1, sq or 1, sk]"""
    if mask_type not in ("padding", "padding_causal", "arbitrary"):
        return None
    if given is None:
        raise ValueError(f"attn_mask_type {mask_type} needs an attention_mask")
    if mask_type == "arbitrary":
        return given.bool().unsqueeze(1)
    of_queries, of_keys = given if isinstance(given, (list, tuple)) else (given, given)
    return (of_queries.bool().transpose(-1, -2) | of_keys.bool()).unsqueeze(1)


def _either(first: Optional[Tensor], second: Optional[Tensor], device: torch.device) -> Optional[Tensor]:
    """Returns what one of two masks hides, on a device."""
    masks = [mask.to(device) for mask in (first, second) if mask is not None]
    return masks[0] | masks[-1] if masks else None
