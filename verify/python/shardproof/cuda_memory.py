"""What a program learns of the memory of its GPU: an empty GPU of MEMORY bytes.

Exact   nothing is measured: all that is allocated, reserved or used is 0.
"""

import collections
import pickle
from typing import Any, DefaultDict, Dict, Tuple

MEMORY = 80 << 30  # bytes of the GPU that is played; chosen, so that a program can divide by it

_STATISTICS = (
    "active active_bytes allocated_bytes allocation inactive_split inactive_split_bytes requested_bytes reserved_bytes "
    "segment"
).split()
_POOLS = "all small_pool large_pool".split()
_METRICS = "current peak allocated freed".split()
_COUNTS = (
    "max_split_size num_alloc_retries num_device_alloc num_device_free num_ooms num_sync_all_streams "
    + " ".join(f"{name}.{metric}" for name in ("oversize_allocations", "oversize_segments") for metric in _METRICS)
).split()


def statistics(*arguments: Any, **named: Any) -> DefaultDict[str, int]:
    """Returns torch's statistics of the allocator, by name; a name that it does not have is 0 too."""
    names = [f"{name}.{pool}.{metric}" for name in _STATISTICS for pool in _POOLS for metric in _METRICS]
    return collections.defaultdict(int, dict.fromkeys([*names, *_COUNTS], 0))


def free_and_total(*arguments: Any, **named: Any) -> Tuple[int, int]:
    """Returns how many bytes are free, and how many there are."""
    return MEMORY, MEMORY


def snapshot(*arguments: Any, **named: Any) -> Dict[str, Any]:
    """Returns a history of the allocator, in which nothing was allocated."""
    return {"segments": [], "device_traces": [], "allocator_settings": {}}


def dump_snapshot(filename: str = "dump_snapshot.pickle", *arguments: Any, **named: Any) -> None:
    """Writes a history of the allocator, in which nothing was allocated."""
    with open(filename, "wb") as file:
        pickle.dump(snapshot(), file)
