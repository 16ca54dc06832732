"""A training of a tiny GPT over megatron-core, of a few steps: prints the loss and the gradient norm of each.

    tiny_gpt.py [--tp N] [--pp N] [--vpp N] [--ep N] [--etp N] [--sp] [--zero] [--experts N] [--dispatcher NAME]
                [--config NAME=VALUE ...] [--ddp NAME=VALUE ...]

It takes Megatron's names of sizes, too. It needs no module of megatron.training, which older wheels do not have, and
runs with releases from 0.12 on.
"""

import argparse
import ast
import functools
import hashlib
import inspect
from typing import Any, Callable, Dict, Iterator, Optional, Tuple

import torch
from megatron.core import parallel_state, tensor_parallel
from megatron.core.distributed import DistributedDataParallel, DistributedDataParallelConfig, finalize_model_grads
from megatron.core.models.gpt import GPTModel
from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec, get_gpt_mtp_block_spec
from megatron.core.optimizer import OptimizerConfig, get_megatron_optimizer
from megatron.core.pipeline_parallel import get_forward_backward_func
from megatron.core.transformer import MLATransformerConfig, TransformerConfig
from megatron.core.transformer.moe import moe_utils
from megatron.core.transformer.transformer_block import TransformerBlockSubmodules, get_num_layers_to_build
from megatron.core.transformer.transformer_layer import get_transformer_layer_offset
from megatron.core.utils import get_model_config

VOCABULARY, SEQUENCE, SAMPLES = 64, 16, 4
if not hasattr(moe_utils, "te_general_gemm"):
    setattr(moe_utils, "te_general_gemm", None)  # releases before 0.19 ask for it also without Transformer Engine


class Norm(torch.nn.Module):
    """A layer norm, or an RMS norm, that marks its parameters for sequence parallelism."""

    def __init__(self, config: TransformerConfig, hidden_size: int, eps: float = 1e-5, **_: Any) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(hidden_size))
        self.bias = None if config.normalization == "RMSNorm" else torch.nn.Parameter(torch.zeros(hidden_size))
        self.eps = eps
        for parameter in self.parameters():
            setattr(parameter, "sequence_parallel", config.sequence_parallel)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.bias is None:
            return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + self.eps) * self.weight
        return torch.nn.functional.layer_norm(x, x.shape[-1:], self.weight, self.bias, self.eps)


def with_norm(spec: Any) -> Any:
    """Puts the norm above into the spec of a layer, and into those that are in it."""
    submodules = getattr(spec, "submodules", spec)
    for name, value in vars(submodules).items() if hasattr(submodules, "__dict__") else ():
        if "norm" in name and isinstance(value, type) and "Identity" not in value.__name__:
            setattr(submodules, name, Norm)
        elif hasattr(value, "submodules"):
            with_norm(value)
    return spec


def of_stage(function: Callable[..., Any], stages: Dict[str, int]) -> Callable[..., Any]:
    """Returns a function that is told the stage, if it asks for it: older releases keep the stage themselves."""
    return functools.partial(function, **(stages if "vp_stage" in inspect.signature(function).parameters else {}))


def block_of(config: TransformerConfig, stages: Dict[str, int]) -> TransformerBlockSubmodules:
    """Returns the spec of the layers that a chunk holds."""

    def layer(num_experts: Optional[int]) -> Any:
        return with_norm(
            get_gpt_layer_local_spec(
                num_experts=num_experts,
                qk_layernorm=config.qk_layernorm,
                multi_latent_attention=config.multi_latent_attention,
            )
        )

    each = getattr(config, "moe_layer_freq", 1)
    has_experts = each if isinstance(each, list) else [int(number % each == 0) for number in range(config.num_layers)]
    first, size = (of_stage(count, stages)(config) for count in (get_transformer_layer_offset, get_num_layers_to_build))
    kinds = (layer(None), layer(config.num_moe_experts))
    return TransformerBlockSubmodules([kinds[kind] for kind in has_experts[first : first + size]], Norm)


def predictions_of(config: TransformerConfig, block: TransformerBlockSubmodules, stages: Dict[str, int]) -> Any:
    """Returns the spec of the layers that predict further tokens, if this chunk holds them."""
    if not getattr(config, "mtp_num_layers", None):
        return None
    spec = of_stage(get_gpt_mtp_block_spec, stages)(config, block, False)
    for layer in spec.layer_specs if spec else ():
        with_norm(layer)
    return spec


SIZES = {
    "tp": "tensor-model-parallel-size",
    "pp": "pipeline-model-parallel-size",
    "vpp": "num-virtual-stages-per-pipeline-rank",
    "cp": "context-parallel-size",
    "ep": "expert-model-parallel-size",
    "etp": "expert-tensor-parallel-size",
}


def setting(text: str) -> Tuple[str, Any]:
    """Returns the name and the value of NAME=VALUE, which is a literal of Python or a text."""
    name, _, value = text.partition("=")
    try:
        return name, ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return name, value


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    for name, of_megatron in SIZES.items():
        parser.add_argument("--" + name, "--" + of_megatron, type=int, default=1, dest=name)
    parser.add_argument("--experts", type=int, default=0)
    parser.add_argument("--dispatcher", "--moe-token-dispatcher-type", default="allgather")
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--sp", "--sequence-parallel", action="store_true")
    parser.add_argument("--zero", "--use-distributed-optimizer", action="store_true")
    parser.add_argument("--untied", action="store_true")
    parser.add_argument("--positions", default="learned_absolute")
    for name in ("config", "ddp"):
        parser.add_argument("--" + name, type=setting, nargs="*", action="extend", default=[])
    return parser.parse_args()


def config_of(given: argparse.Namespace) -> TransformerConfig:
    values: Dict[str, Any] = {
        "num_layers": given.layers,
        "hidden_size": 32,
        "num_attention_heads": 4,
        "use_cpu_initialization": True,
        "tensor_model_parallel_size": given.tp,
        "pipeline_model_parallel_size": given.pp,
        "virtual_pipeline_model_parallel_size": given.vpp if given.vpp > 1 else None,
        "context_parallel_size": given.cp,
        "expert_model_parallel_size": given.ep,
        "expert_tensor_parallel_size": given.etp,
        "sequence_parallel": given.sp,
        "pipeline_dtype": torch.float32,
        "hidden_dropout": 0.0,
        "attention_dropout": 0.0,
        "gradient_accumulation_fusion": False,
        "bias_dropout_fusion": False,
        "masked_softmax_fusion": False,
        "persist_layer_norm": False,
        "batch_p2p_comm": given.vpp <= 1,
        "overlap_p2p_comm": given.vpp > 1,
        "finalize_model_grads_func": finalize_model_grads,
    }
    if given.experts:
        values.update(
            num_moe_experts=given.experts,
            moe_router_topk=2,
            moe_token_dispatcher_type=given.dispatcher,
            moe_ffn_hidden_size=32,
            add_bias_linear=False,
        )
    values.update(given.config)
    return (MLATransformerConfig if values.get("multi_latent_attention") else TransformerConfig)(**values)


def global_name(name: str, model: GPTModel) -> str:
    """Returns a parameter's name in the whole model: layers are counted over stages, and experts over ranks."""
    parts = name.replace("module.", "").split(".")
    decoder = getattr(model, "module", model).decoder
    for at, part in enumerate(parts):
        if part == "layers" and parts[at - 1] == "decoder":
            parts[at + 1] = str(decoder.layers[int(parts[at + 1])].layer_number)
        if part == "local_experts":
            local = get_model_config(model).num_moe_experts // parallel_state.get_expert_model_parallel_world_size()
            parts[at + 1] = str(int(parts[at + 1]) + local * parallel_state.get_expert_model_parallel_rank())
    name = ".".join(parts)
    return "embedding.word_embeddings.weight" if name == "output_layer.weight" else name


def draw(model: GPTModel) -> None:
    """Draws each parameter from its global name, and cuts it as the program does."""
    for name, parameter in model.named_parameters():
        dimension = getattr(parameter, "partition_dim", -1)
        is_expert = not getattr(parameter, "allreduce", True)
        size = parallel_state.get_expert_tensor_parallel_world_size() if is_expert else parallel_state.get_tensor_model_parallel_world_size()
        rank = parallel_state.get_expert_tensor_parallel_rank() if is_expert else parallel_state.get_tensor_model_parallel_rank()
        shape = list(parameter.shape)
        is_cut = getattr(parameter, "tensor_model_parallel", False) and dimension >= 0
        if is_cut:
            shape[dimension] *= size
        seed = int.from_bytes(hashlib.sha256(global_name(name, model).encode()).digest()[:4], "little")
        whole = torch.randn(shape, generator=torch.Generator().manual_seed(seed)) * 0.1
        if "norm" in name and name.endswith("weight"):
            whole = whole + 1
        with torch.no_grad():
            parameter.copy_(whole.chunk(size, dimension)[rank] if is_cut else whole)


def batches(rank: int, size: int) -> Iterator[torch.Tensor]:
    generator = torch.Generator().manual_seed(7)
    while True:
        samples = torch.randint(0, VOCABULARY, (SAMPLES, SEQUENCE + 1), generator=generator)
        yield from samples.view(-1, 1, SEQUENCE + 1)[rank::size]


def forward_step(data: Iterator[torch.Tensor], model: torch.nn.Module) -> Any:
    sample = next(data)
    tokens, labels = sample[:, :-1], sample[:, 1:]
    positions = torch.arange(SEQUENCE).unsqueeze(0)
    mask = torch.triu(torch.ones(1, 1, SEQUENCE, SEQUENCE, dtype=torch.bool), 1)
    losses = model(tokens, positions, mask, labels=labels)
    model_config = get_model_config(model)

    def loss_of(output: torch.Tensor) -> Any:
        loss = output.float().mean()
        told = {"loss": loss.detach().clone()}
        if not model_config.calculate_per_token_loss:
            return loss, told
        return output.float().sum(), torch.tensor(output.numel(), dtype=torch.int), told

    return losses, loss_of


def model_of(config: TransformerConfig, given: argparse.Namespace, stages: Dict[str, int]) -> GPTModel:
    """Returns a rank's model, or one chunk of it."""
    if stages and hasattr(parallel_state, "set_virtual_pipeline_model_parallel_rank"):
        parallel_state.set_virtual_pipeline_model_parallel_rank(stages["vp_stage"])
    block = block_of(config, stages)
    predictions = predictions_of(config, block, stages)
    return of_stage(GPTModel, stages)(
        config,
        block,
        VOCABULARY,
        SEQUENCE,
        pre_process=of_stage(parallel_state.is_pipeline_first_stage, stages)(ignore_virtual=False),
        post_process=of_stage(parallel_state.is_pipeline_last_stage, stages)(ignore_virtual=False),
        share_embeddings_and_output_weights=not given.untied,
        position_embedding_type=given.positions,
        **({"mtp_block_spec": predictions} if predictions else {}),
    )


def main() -> None:
    given = parsed()
    torch.distributed.init_process_group("nccl")
    parallel_state.initialize_model_parallel(
        given.tp,
        given.pp,
        given.vpp if given.vpp > 1 else None,
        context_parallel_size=given.cp,
        expert_model_parallel_size=given.ep,
        expert_tensor_parallel_size=given.etp,
    )
    tensor_parallel.model_parallel_cuda_manual_seed(1)
    config = config_of(given)
    chunks = [model_of(config, given, {"vp_stage": chunk} if given.vpp > 1 else {}) for chunk in range(given.vpp)]
    for model in chunks:
        draw(model)
    ddp = DistributedDataParallelConfig(
        **{"use_distributed_optimizer": given.zero, "overlap_grad_reduce": False, **dict(given.ddp)}
    )
    wrapped = [DistributedDataParallel(config, ddp, model) for model in chunks]
    optimizer = get_megatron_optimizer(
        OptimizerConfig(optimizer="adam", lr=0.01, clip_grad=1.0, use_distributed_optimizer=given.zero), wrapped
    )
    rank, size = parallel_state.get_data_parallel_rank(), parallel_state.get_data_parallel_world_size()
    data = [batches(rank, size) for _ in wrapped]
    for step in range(given.steps):
        for model in wrapped:
            model.zero_grad_buffer()
        optimizer.zero_grad()
        losses = get_forward_backward_func()(
            forward_step_func=forward_step,
            data_iterator=data if given.vpp > 1 else data[0],
            model=wrapped if given.vpp > 1 else wrapped[0],
            num_microbatches=SAMPLES // size,
            seq_length=SEQUENCE,
            micro_batch_size=1,
            forward_only=False,
        )
        _, norm, _ = optimizer.step()
        if losses:
            mean = torch.stack([x["loss"] for x in losses]).mean()
            torch.distributed.all_reduce(mean, group=parallel_state.get_data_parallel_group())
            mean /= size
            if rank == 0 and parallel_state.get_tensor_model_parallel_rank() == 0:
                print(f"step {step}: loss {mean.item():.9g}, norm {float(norm):.9g}", flush=True)


if __name__ == "__main__":
    main()
