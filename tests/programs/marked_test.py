"""Tests on layouts, as pytest runs them by @shardproof.layouts. The variable MISTAKE has one of these made:

no_sum    a row-parallel layer does not sum over its tensor-parallel group
factor    gradients are scaled by tp
stuck     the second stage of a pipeline does not receive
silent    nothing is published
no_word   a layout has a word that is none
"""

import os
from typing import Any, Callable, List

import pytest
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

import shardproof

MISTAKE = os.environ.get("MISTAKE", "")
LAYERS, SAMPLES, WIDTH, INNER = 2, 4, 6, 8


def mesh_of(layout: shardproof.Layout) -> DeviceMesh:
    return init_device_mesh("cuda", (layout.pp, layout.dp, layout.tp), mesh_dim_names=("pp", "dp", "tp"))


def drawn(seed: int, *shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def part(count: int, mesh: DeviceMesh, name: str) -> slice:
    """Returns which of so many rows or columns this rank has."""
    size = count // mesh[name].size()
    begin = mesh.get_local_rank(name) * size
    return slice(begin, begin + size)


def layer(number: int, x: torch.Tensor, mesh: DeviceMesh) -> torch.Tensor:
    """Computes a layer, whose first matrix is cut by columns and whose second one by rows."""
    inner = part(INNER, mesh, "tp")
    y = torch.tanh(x @ drawn(2 * number, WIDTH, INNER)[:, inner]) @ drawn(2 * number + 1, INNER, WIDTH)[inner]
    if MISTAKE != "no_sum":
        dist.all_reduce(y, group=mesh["tp"].get_group())
    return y


def neighbour(mesh: DeviceMesh, step: int) -> int:
    ranks: List[int] = dist.get_process_group_ranks(mesh["pp"].get_group())
    return ranks[mesh.get_local_rank("pp") + step]


@shardproof.layouts({"": "tp2; pp2; tp2 pp2", "no_word": "tp2; xp2"}.get(MISTAKE, "tp2 pp2"), ranks=4)
def test_layers(layout: shardproof.Layout) -> None:
    mesh = mesh_of(layout)
    rows, own = part(SAMPLES, mesh, "dp"), part(LAYERS, mesh, "pp")
    x = drawn(100, SAMPLES, WIDTH)[rows]
    if own.start > 0 and MISTAKE != "stuck":
        dist.recv(x, neighbour(mesh, -1))
    for number in range(own.start, own.stop):
        x = layer(number, x, mesh)
        if MISTAKE != "silent":
            shardproof.publish(f"layer {number}", x, whole=[SAMPLES, WIDTH], offset=[rows.start, 0])
    if own.stop < LAYERS:
        dist.send(x, neighbour(mesh, 1))


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = torch.nn.Linear(WIDTH, INNER), torch.nn.Linear(INNER, WIDTH)

    def forward(self, x: torch.Tensor) -> Any:
        return self.down(torch.tanh(self.up(x)))


@pytest.mark.parametrize("steps", [2])
@shardproof.layouts("tp2 dp2")
def test_training(layout: shardproof.Layout, steps: int) -> None:
    mesh = mesh_of(layout)
    torch.manual_seed(1)
    net = Net()
    parallelize_module(net, mesh["tp"], {"up": ColwiseParallel(), "down": RowwiseParallel()})
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for step in range(steps):
        optimizer.zero_grad()
        net(drawn(step, SAMPLES, WIDTH)[part(SAMPLES, mesh, "dp")]).square().mean().backward()
        for parameter in net.parameters():
            gradient = parameter.grad.to_local()
            dist.all_reduce(gradient, group=mesh["dp"].get_group())
            gradient.mul_((layout.tp if MISTAKE == "factor" else 1) / layout.dp)
        optimizer.step()


class InClass:
    def test(self, layout: shardproof.Layout) -> None:
        pass


def without_layout(mesh: Any) -> None:
    pass


async def coroutine(layout: shardproof.Layout) -> None:
    pass


@pytest.mark.parametrize("test", [InClass.test, without_layout, coroutine])
def test_what_is_no_test_on_layouts(test: Callable[..., None]) -> None:
    with pytest.raises(TypeError, match=test.__name__):
        shardproof.layouts("tp2")(test)


@pytest.mark.parametrize("layout", ["tp3", "tp2 dp4", "tp2 pp2 dp2"])
def test_layout_that_does_not_divide_its_ranks(layout: str) -> None:
    with pytest.raises(ValueError, match=layout):
        shardproof.layouts(layout, ranks=4)


def with_folder(layout: shardproof.Layout, tmp_path: Any) -> None:
    pass


def test_fixture_that_ranks_do_not_get(tmp_path: Any) -> None:
    with pytest.raises(pytest.fail.Exception, match="'tmp_path', a PosixPath"):
        shardproof.layouts("tp2")(with_folder)(tmp_path=tmp_path)
