"""Rotary embeddings of queries and keys.

Shapes  t [s, b, h, d] ("sbhd"), [b, s, h, d] ("bshd") or [t, h, d] ("thd", packed, of a rank of context parallelism);
        freqs [length, 1, 1, rotated], of which the first `rotated` elements of the last dimension are turned.
"""

from typing import Any, Optional

import torch

from .parallel import Tensor, refuse, wide
from .places import Packed, of_rank


def _turned(x: Tensor, interleaved: bool) -> Tensor:
    """Returns x turned by a quarter."""
    if interleaved:
        return torch.stack([-x[..., 1::2], x[..., ::2]], -1).flatten(-2)
    first, second = x.chunk(2, -1)
    return torch.cat([-second, first], -1)


def apply_rotary_pos_emb(
    t: Tensor,
    freqs: Tensor,
    tensor_format: str = "sbhd",
    start_positions: Any = None,
    interleaved: bool = False,
    fused: bool = False,
    cu_seqlens: Optional[Tensor] = None,
    cp_size: int = 1,
    cp_rank: int = 0,
    **named: Any,
) -> Tensor:
    """Returns t, turned by the angles of its positions."""
    is_packed = tensor_format == "thd"
    refuse("apply_rotary_pos_emb", start_positions=start_positions, **named)
    refuse("apply_rotary_pos_emb", cp_size=cp_size if cp_size > 1 and not is_packed else None)
    refuse("apply_rotary_pos_emb", tensor_format=None if tensor_format in ("sbhd", "bshd", "thd") else tensor_format)
    if is_packed:
        if cu_seqlens is None:
            raise ValueError("packed sequences need cu_seqlens")
        angles = freqs[of_rank(t.shape[0], cp_rank, cp_size, Packed(cu_seqlens, cu_seqlens)).positions].squeeze(1)
    else:
        angles = freqs[: t.shape[1 if tensor_format == "bshd" else 0]]
        angles = angles.transpose(0, 1) if tensor_format == "bshd" else angles
    rotated, kept = t[..., : freqs.shape[-1]], t[..., freqs.shape[-1] :]
    x, angles = wide(rotated), wide(angles)
    x = x * angles.cos() + _turned(x, interleaved) * angles.sin()
    return torch.cat([x.to(t.dtype), kept], -1)
