"""Tests that pass, fail and stop in the ways that megatron_tests.py tells apart. check.py puts them into a made-up
checkout as tests/unit_tests/optimizer/test_made_up.py, and runs them as two ranks.
"""

import os

import pytest
import torch
import torch.distributed as dist

RANK = int(os.environ.get("RANK", "0"))
LEFT = []  # what a test has left behind


def summed() -> float:
    x = torch.ones(1)
    dist.all_reduce(x)
    return x.item()


def test_begins() -> None:
    dist.init_process_group("nccl")
    assert summed() == dist.get_world_size()


def test_is_skipped() -> None:
    pytest.skip("nothing to do")


def test_fails() -> None:
    assert summed() == 0


def test_fails_on_one_rank() -> None:
    LEFT.append(1)
    assert RANK != 1


def test_fails_behind_it() -> None:
    assert not LEFT


def test_needs_a_graph() -> None:
    torch.cuda.CUDAGraph()


def test_stops() -> None:
    dist.is_initialized() or dist.init_process_group("nccl")
    if RANK == 0:
        summed()


def test_goes_on() -> None:
    dist.is_initialized() or dist.init_process_group("nccl")
    assert summed() == dist.get_world_size()


@pytest.mark.parametrize("number", range(3))
def test_takes_too_long(number: int) -> None:
    while RANK == 1:
        pass


def test_ends() -> None:
    dist.is_initialized() or dist.init_process_group("nccl")
    assert summed() == dist.get_world_size()
