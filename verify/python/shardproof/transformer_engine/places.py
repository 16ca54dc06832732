"""Where tokens lie in the sequence, and which keys a query does not see.

With context parallelism of n ranks a sequence is cut into 2n chunks. Rank r has the chunks r and 2n - 1 - r, so that
under a causal mask all ranks have the same work.

Shapes  positions and sequences: [tokens], in the order in which a rank holds them. A token without a sequence has -1.
"""

from typing import NamedTuple, Optional, Sequence

import torch

from .parallel import Tensor


class Places(NamedTuple):
    positions: Tensor
    sequences: Optional[Tensor]  # of packed sequences: which one a token belongs to

    @staticmethod
    def joined(parts: Sequence["Places"]) -> "Places":
        packed = [part.sequences for part in parts if part.sequences is not None]
        return Places(torch.cat([part.positions for part in parts]), torch.cat(packed) if packed else None)


class Packed(NamedTuple):
    """The sequences of a batch that are stored one after the other, over all ranks."""

    ends: Tensor  # [sequences + 1], from 0, of tokens that count
    padded_ends: Tensor  # the same with the padding after each sequence


class Window(NamedTuple):
    """What a query sees."""

    is_causal: bool
    left: int  # keys before it; -1: all
    right: int  # keys after it; -1: all


def _chunks(length: int, rank: int, size: int) -> Tensor:
    """Returns the positions of a rank's two chunks of a sequence."""
    if length % (2 * size) != 0:
        raise ValueError(f"a sequence of {length} tokens is not a multiple of {2 * size} chunks")
    chunk = length // (2 * size)
    first, second = torch.arange(chunk) + rank * chunk, torch.arange(chunk) + (2 * size - 1 - rank) * chunk
    return torch.cat([first, second])


def of_rank(tokens: int, rank: int, size: int, packed: Optional[Packed] = None) -> Places:
    """Returns the places of the tokens that a rank of context parallelism has."""
    if packed is None:
        return Places(torch.arange(tokens) if size == 1 else _chunks(tokens * size, rank, size), None)
    lengths = packed.padded_ends.diff().tolist()
    positions, sequences = [], []
    for number, (length, counted) in enumerate(zip(lengths, packed.ends.diff().tolist())):
        own = torch.arange(length) if size == 1 else _chunks(length, rank, size)
        positions.append(own)
        sequences.append(torch.where(own < counted, number, -1))
    left = tokens - sum(lengths) // size  # padding that is in no sequence
    if left < 0:
        raise ValueError(
            f"packed sequences of {lengths} tokens on {size} ranks do not fit into {tokens} tokens per rank"
        )
    positions.append(torch.zeros(left, dtype=torch.int64))
    sequences.append(torch.full([left], -1))
    return Places(torch.cat(positions), torch.cat(sequences))


def hidden(queries: Places, keys: Places, window: Window) -> Optional[Tensor]:
    """Returns which keys a query does not see, or None if it sees all. [queries, keys]"""
    distance = keys.positions - queries.positions.unsqueeze(1)
    rules = []
    if window.is_causal:
        rules.append(distance > 0)
    if window.left >= 0:
        rules.append(-distance > window.left)
    if window.right >= 0:
        rules.append(distance > window.right)
    if queries.sequences is not None and keys.sequences is not None:
        of_queries = queries.sequences.unsqueeze(1)
        rules.append((of_queries != keys.sequences) | (of_queries < 0))
    return torch.stack(rules).any(0) if rules else None
