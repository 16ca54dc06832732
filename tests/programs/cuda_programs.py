"""What programs do with a GPU, on virtual ranks without one. Values are those of the same computation on a CPU.

    shardproof run --ranks 2 -- python cuda_programs.py
"""

import importlib
import io
import warnings
from typing import Any, List

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.nn.parallel import DistributedDataParallel as DDP

try:
    import triton.language as tl
except ImportError:  # there is none for this platform
    tl = None

SEED = 7
warnings.simplefilter("ignore", FutureWarning)  # of names that programs still use


def expect(found: Any, wanted: Any, name: str) -> None:
    if found != wanted:
        raise AssertionError(f"{name}: {found} in place of {wanted}")


def close(found: torch.Tensor, wanted: torch.Tensor, name: str) -> None:
    torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-6, msg=lambda text: f"{name}: {text}")


def ddp(rank: int) -> None:
    torch.manual_seed(SEED)
    model, x = nn.Linear(4, 3), torch.randn(2, 4)
    wanted = torch.autograd.grad(model(x).sum() / 2, model.weight)[0]
    wrapped = DDP(model.to(rank), device_ids=[rank], output_device=rank)
    expect(isinstance(wrapped, nn.parallel.DistributedDataParallel), True, "isinstance of DDP")
    wrapped(x[rank : rank + 1].cuda(non_blocking=True)).sum().backward()
    close(model.weight.grad, wanted, "gradient of DDP")


def autocast(rank: int) -> None:
    a, b = torch.randn(3, 3, device="cuda"), torch.randn(3, 3, device=rank)
    for dtype in (torch.bfloat16, torch.float16):
        with torch.autocast("cuda", dtype=dtype):
            expect((a @ b).dtype, dtype, "dtype of autocast")
            expect(torch.is_autocast_enabled(), True, "is_autocast_enabled")
            expect(torch.is_autocast_enabled("cuda"), True, "is_autocast_enabled('cuda')")
            expect(torch.get_autocast_gpu_dtype(), dtype, "get_autocast_gpu_dtype")
            expect(torch.get_autocast_dtype("cuda"), dtype, "get_autocast_dtype")
            with torch.autocast("cuda", enabled=False):
                expect((a @ b).dtype, torch.float32, "dtype without autocast")
    with torch.autocast("cuda"):
        expect((a @ b).dtype, torch.float16, "default dtype of autocast")
    with torch.autocast("cpu"):
        expect((a @ b).dtype, torch.bfloat16, "default dtype of autocast of the CPU")
    expect(torch.is_autocast_enabled(), False, "is_autocast_enabled after the region")


class Doubled(torch.autograd.Function):
    @staticmethod
    @torch.amp.custom_fwd(device_type="cuda", cast_inputs=torch.float32)
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        expect(x.dtype, torch.float32, "input of custom_fwd")
        return x * 2

    @staticmethod
    @torch.amp.custom_bwd(device_type="cuda")
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        return grad * 2


def custom_function(rank: int) -> None:
    x = torch.ones(3, 3, device="cuda", requires_grad=True)
    with torch.autocast("cuda", dtype=torch.bfloat16):
        Doubled.apply(x @ x).sum().backward()
    close(x.grad, torch.full((3, 3), 12.0), "gradient of a custom function")


def scaler(rank: int) -> None:
    for kind in (torch.amp.GradScaler, torch.cuda.amp.GradScaler):
        weight = torch.ones(2, device="cuda", requires_grad=True)
        optimizer = torch.optim.SGD([weight], lr=0.5)
        scale = kind("cuda", init_scale=8.0) if kind is torch.amp.GradScaler else kind(init_scale=8.0)
        expect(scale.is_enabled(), True, "GradScaler.is_enabled")
        scale.scale(weight.sum()).backward()
        close(weight.grad, torch.full((2,), 8.0), "scaled gradient")
        scale.step(optimizer)
        scale.update()
        close(weight.detach(), torch.full((2,), 0.5), "step of a GradScaler")
        weight.grad = torch.full((2,), float("inf"))
        scale._per_optimizer_states.clear()
        scale.step(optimizer)
        scale.update()
        expect(scale.get_scale(), 4.0, "scale after an overflow")
        close(weight.detach(), torch.full((2,), 0.5), "weights after an overflow")


def meshes(rank: int) -> None:
    for mesh in (init_device_mesh("cuda", (2,)), DeviceMesh("cuda", [0, 1])):
        expect(mesh.device_type, "cpu", "type of a mesh")
    try:
        from torch.distributed.tensor import Shard, distribute_tensor
    except ImportError:  # before torch 2.5
        return
    torch.manual_seed(SEED)
    q, k, v = (torch.randn(1, 2, 4, 8) for _ in range(3))
    wanted = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    parts = [distribute_tensor(x.cuda(), mesh, [Shard(1)]) for x in (q, k, v)]
    found = torch.nn.functional.scaled_dot_product_attention(*parts, is_causal=True)
    close(found.full_tensor(), wanted, "attention of DTensors")


@torch.jit.script
def scripted(x: torch.Tensor) -> torch.Tensor:
    return x + torch.zeros([2]) + torch.ones_like(x) + torch.arange(2)


def scripts(rank: int) -> None:
    close(scripted(torch.ones(2)), torch.tensor([2.0, 3.0]), "torch.jit.script")


def sync_batch_norm(rank: int) -> None:
    torch.manual_seed(SEED)
    x, slope = torch.randn(6, 3, 5), torch.randn(6, 3, 5)
    own = slice(0, 2) if rank == 0 else slice(2, 6)  # ranks have batches of their own sizes
    one = nn.BatchNorm1d(3)
    nn.init.uniform_(one.weight)
    nn.init.uniform_(one.bias)
    many = nn.SyncBatchNorm.convert_sync_batchnorm(nn.BatchNorm1d(3)).cuda()
    many.load_state_dict(one.state_dict())
    whole, part = x.clone().requires_grad_(), x[own].clone().requires_grad_()
    wanted, found = one(whole), many(part)
    (wanted * slope).sum().backward()
    (found * slope[own]).sum().backward()
    for parameter in many.parameters():
        dist.all_reduce(parameter.grad)
    close(found, wanted[own], "SyncBatchNorm")
    close(part.grad, whole.grad[own], "gradient of SyncBatchNorm's input")
    close(many.weight.grad, one.weight.grad, "gradient of SyncBatchNorm's weight")
    close(many.bias.grad, one.bias.grad, "gradient of SyncBatchNorm's bias")
    close(many.running_mean, one.running_mean, "running mean")
    close(many.running_var, one.running_var, "running variance")
    DDP(nn.Sequential(many), device_ids=[rank])


def devices(rank: int) -> None:
    with torch.cuda.device(1 - rank):
        expect(torch.cuda.current_device(), 1 - rank, "torch.cuda.device")
    expect(torch.cuda.current_device(), rank, "device after torch.cuda.device")
    expect(isinstance(torch.cuda.device("cuda:0"), torch.cuda.device), True, "isinstance of torch.cuda.device")
    with torch.device("cuda"):
        made: List[torch.Tensor] = [torch.ones(2), nn.Linear(2, 2).weight]
    torch.set_default_device("cuda")
    made.append(torch.ones(2))
    torch.get_default_device()
    torch.set_default_device(None)
    with torch.device("meta"):
        expect(torch.empty(2).device.type, "meta", "torch.device('meta')")
    made += [
        torch.tensor([1.0], device=0),
        torch.hann_window(4, device="cuda"),
        torch.tril_indices(2, 2, device="cuda"),
        torch.fft.fftfreq(4, device="cuda"),
        torch.as_tensor([1], device=torch.device("cuda")),
        torch.ones(2).to("cuda", torch.float16),
        torch.ones(2).to(device=rank),
        nn.Linear(2, 2, device="meta").to_empty(device="cuda").weight,
    ]
    expect([x.is_cuda for x in made], [True] * len(made), "is_cuda")
    expect(torch.ones(2).cuda().get_device(), rank, "get_device")
    expect(torch.empty(2, device="meta").is_cuda, False, "is_cuda on meta")


def streams(rank: int) -> None:
    stream, event = torch.cuda.Stream(), torch.cuda.Event(enable_timing=True)
    expect(isinstance(stream, torch.cuda.Stream) and not isinstance(event, torch.cuda.Stream), True, "kinds")
    with torch.cuda.stream(stream):
        expect(torch.cuda.current_stream() is stream, True, "current stream")
    expect(torch.cuda.current_stream() == torch.cuda.default_stream(), True, "default stream")
    event.record(stream)
    torch.ones(2, device="cuda").record_stream(stream)
    if hasattr(torch, "Stream"):
        expect(isinstance(torch.Stream(device="cuda"), torch.Stream), True, "torch.Stream")
        torch.Event(device="cuda").record()


def generators(rank: int) -> None:
    first, second = (torch.Generator(device=device).manual_seed(SEED) for device in ("cuda", "cpu"))
    expect(isinstance(first, torch.Generator) and isinstance(torch.default_generator, torch.Generator), True, "kinds")
    found = torch.rand(3, generator=first, device="cuda")
    close(found, torch.rand(3, generator=second), "rand of a generator")


def no_seeds(rank: int) -> None:
    """Processes that seed nothing draw other numbers each, but the same in every run."""
    drawn = torch.rand(2)
    close(drawn, torch.rand(2, generator=torch.Generator().manual_seed(rank)), "numbers without a seed")
    both = [torch.empty(2) for _ in range(dist.get_world_size())]
    dist.all_gather(both, drawn)
    expect(torch.equal(both[0], both[1]), False, "ranks that draw the same without a seed")


def within(device: str) -> torch.Tensor:
    with torch.device(device):
        return torch.rand(64)


def seeds(rank: int) -> None:
    """What is drawn on the GPU comes from a generator of its own, and leaves that of the CPU as it is."""
    here, there = torch.ones(64), torch.ones(64, device="cuda")
    linear, moved = nn.Linear(8, 8), nn.Linear(8, 8).cuda()
    on_both = (
        ("a device", lambda: torch.rand(64), lambda: torch.rand(64, device="cuda")),
        ("a region", lambda: within("cpu"), lambda: within("cuda")),
        ("a permutation", lambda: torch.randperm(64), lambda: torch.randperm(64, device=rank)),
        ("a tensor", lambda: here.normal_(), lambda: there.normal_()),
        ("one like it", lambda: torch.rand_like(here), lambda: torch.rand_like(there)),
        ("a layer", lambda: nn.init.normal_(linear.weight), lambda: nn.init.normal_(moved.weight)),
        ("a new layer", lambda: nn.Linear(8, 8).weight, lambda: nn.Linear(8, 8, device="cuda").weight),
        ("a dropout", lambda: nn.functional.dropout(here, 0.5), lambda: nn.functional.dropout(there, 0.5)),
        ("a choice", lambda: torch.multinomial(torch.ones(64), 32), lambda: torch.multinomial(there.abs(), 32)),
        ("a copy", None, lambda: torch.rand(64).cuda().exponential_()),
        ("a result", None, lambda: (there * 2).uniform_()),
        ("the device of a tensor", None, lambda: torch.rand(64, device=there.device)),
    )
    for name, on_cpu, on_gpu in on_both:
        for draw, seed, other in ((on_cpu, torch.manual_seed, torch.cuda), (on_gpu, torch.cuda.manual_seed, torch)):
            if draw is not None:
                seed(SEED)
                before, first = other.get_rng_state(), draw().clone()
                own = "copy" in name or torch.equal(other.get_rng_state(), before)
                expect(own, True, f"{name}: the state of {other.__name__} as it was")
                seed(SEED)
                close(draw().clone(), first, f"{name} by a seed of the device")
    torch.manual_seed(SEED)
    expect(torch.cuda.initial_seed(), SEED, "torch.manual_seed seeds the GPU, too")


def states(rank: int) -> None:
    """The state of a generator, as Megatron takes it: it has torch begin to use the GPU first."""
    torch.cuda._lazy_init()
    state = torch.cuda.default_generators[rank].get_state()
    first = torch.rand(3, device="cuda")
    torch.cuda.default_generators[rank].set_state(state)
    close(torch.rand(3, device="cuda"), first, "rand from a state")


def files(rank: int) -> None:
    file = io.BytesIO()
    torch.save({"a": torch.arange(3.0)}, file)
    for place in ("cuda:0", torch.device("cuda"), {"cpu": "cuda:1"}, None, lambda storage, _: storage.cuda(rank)):
        file.seek(0)
        close(torch.load(file, place, weights_only=True)["a"], torch.arange(3.0), f"torch.load to {place}")


def memory(rank: int) -> None:
    expect(torch.cuda.memory_stats()["allocated_bytes.all.peak"], 0, "memory_stats")
    expect(torch.cuda.memory_stats()["num_alloc_retries"], 0, "memory_stats")
    free, total = torch.cuda.mem_get_info()
    expect(free / total, 1.0, "mem_get_info")
    expect(torch.cuda.get_device_properties(0).total_memory, total, "total_memory")
    torch.cuda.memory_summary()
    torch.cuda.memory._record_memory_history()
    torch.cuda.profiler.start()
    torch.cuda.profiler.stop()


def optimizers(rank: int) -> None:
    results = []
    for named in ({}, {"capturable": True}, {"fused": True}):
        weight = torch.ones(3, device="cuda", requires_grad=True)
        optimizer = torch.optim.AdamW([weight], lr=0.1, **named)
        (weight * torch.arange(3.0)).sum().backward()
        optimizer.step()
        results.append(weight.detach())
    for result in results[1:]:
        close(result, results[0], "AdamW")


if tl is not None:

    def squared(x: Any, y: Any, sums: Any, size: Any, BLOCK: tl.constexpr) -> None:
        places = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        row = tl.load(x + places, mask=places < size, other=0)
        tl.store(y + places, row * row, mask=places < size)
        tl.store(sums + tl.program_id(0), tl.sum(row * row, axis=0))  # a sum is a kernel of Triton's own


def kernels(rank: int) -> None:
    """A kernel of Triton, which calls one of Triton's own, and whose last block has fewer elements."""
    if tl is None:
        return
    x, y, sums = torch.arange(10.0, device="cuda"), torch.full((12,), -1.0, device="cuda"), torch.zeros(2, device="cuda")
    importlib.import_module("triton").jit(squared)[(2,)](x, y, sums, 10, BLOCK=8)
    expect(sums.tolist(), [140.0, 145.0], "sums of Triton")
    close(y, torch.cat([x * x, torch.full((2,), -1.0)]), "kernel of Triton")


def loaders(rank: int) -> None:
    data = torch.utils.data.TensorDataset(torch.arange(4.0))
    for (batch,) in torch.utils.data.DataLoader(data, batch_size=2, pin_memory=True):
        expect(batch.shape, (2,), "batch")


def refusals(rank: int) -> None:
    for name, use in (
        ("torch.cuda.CUDAGraph", lambda: torch.cuda.CUDAGraph()),
        ("torch.cuda.caching_allocator_alloc", lambda: torch.cuda.caching_allocator_alloc(4)),
        ("cuda_programs.py", lambda: torch._C._VariableFunctions.zeros(2, device="cuda")),
    ):
        try:
            use()
        except NotImplementedError as error:
            expect(type(error).__name__, "NotServed", name)
            expect(name in str(error), True, f"{name} in '{error}'")
        else:
            raise AssertionError(f"{name} is served")


def extensions(rank: int) -> None:
    source = 'extern "C" void nothing() {}'
    try:
        importlib.import_module("torch.utils.cpp_extension").load_inline("none", [source], functions=[], with_cuda=True)
    except OSError as error:
        expect("CUDA_HOME" in str(error), True, f"CUDA_HOME in '{error}'")
    else:
        raise AssertionError("an extension for CUDA is built")


CHECKS = (
    no_seeds,
    *(ddp, autocast, custom_function, scaler, meshes, scripts, sync_batch_norm, devices, streams, generators, files),
    *(seeds, states),
    *(memory, optimizers, kernels, loaders, refusals, extensions),
)


def main() -> None:
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    torch.cuda.set_device(rank)
    for check in CHECKS:
        check(rank)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
