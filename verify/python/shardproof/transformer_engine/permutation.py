"""Tokens in the order of their experts, and back.

Shapes  x [tokens, hidden]; routing_map and probs [tokens, experts]. A map of rows is [2, rows]: the token and the
        expert of each row, ordered by expert and then by token. The row of a padded place has the token -1.
Exact   sums over the rows of a token are made in f32, or f64 for f64.
"""

from typing import Any, List, Optional, Tuple

import torch

from .parallel import Tensor, refuse, wide


def _rows_of(routing_map: Tensor, num_out_tokens: Optional[int]) -> Tensor:
    rows = routing_map.bool().t().nonzero().t().flip(0)
    return rows[:, :num_out_tokens] if num_out_tokens is not None and num_out_tokens > 0 else rows


def _taken(x: Tensor, rows: Tensor) -> Tensor:
    """Returns the tokens of rows; zeros in padded places."""
    taken = x.index_select(0, rows[0].clamp(min=0))
    return torch.where((rows[0] >= 0).unsqueeze(1), taken, torch.zeros_like(taken))


def _taken_probs(probs: Tensor, rows: Tensor) -> Tensor:
    return torch.where(rows[0] >= 0, probs[rows[0].clamp(min=0), rows[1]], torch.zeros_like(probs[:1, 0]))


def _padded(rows: Tensor, sizes: Tensor, padded: Tensor) -> Tensor:
    """Returns a map of rows in which each expert has so many rows."""
    parts: List[Tensor] = []
    for expert, (own, size, wanted) in enumerate(zip(rows.split(sizes.tolist(), 1), sizes.tolist(), padded.tolist())):
        empty = torch.tensor([[-1], [expert]], dtype=rows.dtype, device=rows.device)
        parts += [own, empty.expand(2, wanted - size)]
    return torch.cat(parts, 1)


def moe_permute(
    inp: Tensor, routing_map: Tensor, num_out_tokens: int = -1, max_token_num: int = -1, map_type: str = "mask"
) -> Tuple[Tensor, Tensor]:
    refuse("moe_permute", map_type=None if map_type == "mask" else map_type)
    rows = _rows_of(routing_map, num_out_tokens)
    return _taken(inp, rows), rows


def moe_permute_with_probs(
    inp: Tensor, probs: Tensor, routing_map: Tensor, num_out_tokens: int = -1
) -> Tuple[Tensor, Tensor, Tensor]:
    rows = _rows_of(routing_map, num_out_tokens)
    return _taken(inp, rows), _taken_probs(probs, rows), rows


def moe_permute_and_pad_with_probs(
    inp: Tensor, probs: Tensor, routing_map: Tensor, tokens_per_expert: Tensor, align_size: int
) -> Tuple[Tensor, Tensor, Tensor, Any, Tensor]:
    """Returns rows of which each expert has a multiple of `align_size`. The map of rows says which are padded."""
    sizes = routing_map.bool().sum(0)
    padded = (sizes + align_size - 1) // align_size * align_size
    rows = _padded(_rows_of(routing_map, None), sizes, padded)
    offsets = torch.cumsum(padded - sizes, 0) - (padded - sizes)
    return _taken(inp, rows), _taken_probs(probs, rows), rows, offsets, padded.to(tokens_per_expert.dtype)


def moe_unpermute(
    inp: Tensor,
    row_id_map: Tensor,
    merging_probs: Optional[Tensor] = None,
    restore_shape: Optional[torch.Size] = None,
    map_type: str = "mask",
    probs: Optional[Tensor] = None,
    pad_offsets: Optional[Tensor] = None,
) -> Tensor:
    """Returns the sum of the rows of each token."""
    refuse("moe_unpermute", map_type=None if map_type == "mask" else map_type)
    factors = merging_probs if merging_probs is not None else probs
    values = wide(inp)
    if factors is not None:
        values = values * wide(_taken_probs(factors, row_id_map)).unsqueeze(1)
    is_row = row_id_map[0] >= 0
    result = values.new_zeros(restore_shape or inp.shape)
    return result.index_add(0, row_id_map[0][is_row], values[is_row]).to(inp.dtype)


def _sorted_chunks(x: Tensor, split_sizes: Tensor, sorted_index: Tensor) -> Tensor:
    chunks = x.split(split_sizes.tolist())
    return torch.cat([chunks[number] for number in sorted_index.tolist()])


def moe_sort_chunks_by_index(inp: Tensor, split_sizes: Tensor, sorted_index: Tensor) -> Tensor:
    return _sorted_chunks(inp, split_sizes, sorted_index)


def moe_sort_chunks_by_index_with_probs(
    inp: Tensor, probs: Tensor, split_sizes: Tensor, sorted_index: Tensor
) -> Tuple[Tensor, Tensor]:
    return _sorted_chunks(inp, split_sizes, sorted_index), _sorted_chunks(probs, split_sizes, sorted_index)
