"""A layout, as a test on layouts gets it: sizes of groups, and what else `shardproof run --layouts` was given for it.

Shapes  `run` puts a layout behind the words of a program as options of Megatron, of which of() reads them.
"""

import argparse
from typing import NamedTuple, Sequence, Tuple

_SIZES = {
    "tp": "--tensor-model-parallel-size",
    "pp": "--pipeline-model-parallel-size",
    "cp": "--context-parallel-size",
    "ep": "--expert-model-parallel-size",
    "etp": "--expert-tensor-parallel-size",
    "vpp": "--num-virtual-stages-per-pipeline-rank",
}


class Layout(NamedTuple):
    """The layout "tp2 sp dp2" has tp=2, sp=True, dp=2, and otherwise sizes of 1. The reference has 1 everywhere."""

    tp: int = 1
    pp: int = 1
    cp: int = 1
    ep: int = 1
    etp: int = 1
    vpp: int = 1
    dp: int = 1
    sp: bool = False
    zero: bool = False
    options: Tuple[str, ...] = ()  # further ones of the layout: ("--moe-token-dispatcher-type", "alltoall")


def of(words: Sequence[str], ranks: int) -> Layout:
    """Returns the layout of a run of so many ranks from Megatron's options."""
    parser = argparse.ArgumentParser(allow_abbrev=False, add_help=False)
    for name, option in _SIZES.items():
        parser.add_argument(option, dest=name, type=int, default=1)
    parser.add_argument("--sequence-parallel", dest="sp", action="store_true")
    parser.add_argument("--use-distributed-optimizer", dest="zero", action="store_true")
    known, others = parser.parse_known_args(list(words))
    model = known.tp * known.pp * known.cp
    return Layout(**vars(known), dp=ranks // model, options=tuple(others))
