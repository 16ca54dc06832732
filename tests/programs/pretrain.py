"""Megatron's own training loop, pretrain() of megatron.training, on made-up tokens. Each parameter is drawn from its
name, as in tiny_gpt.py, so that layouts can be compared.

    pretrain.py [OPTION...]      options of Megatron, such as --tensor-model-parallel-size 2
"""

import sys
from typing import Any

import torch
from megatron.core import parallel_state
from megatron.core.datasets import utils as datasets
from megatron.core.enums import ModelType
from megatron.core.models.gpt import GPTModel
from megatron.core.models.gpt.gpt_layer_specs import get_gpt_decoder_block_spec
from megatron.core.utils import get_attr_wrapped_model, get_batch_on_this_cp_rank
from megatron.training import get_args, pretrain
from megatron.training.argument_utils import pretrain_cfg_container_from_args
from megatron.training.arguments import core_transformer_config_from_args, parse_and_validate_args

from tiny_gpt import block_of, draw, predictions_of

OPTIONS = """
    --num-layers 4 --hidden-size 32 --num-attention-heads 4 --seq-length 16 --max-position-embeddings 16
    --micro-batch-size 1 --global-batch-size 4 --train-iters 3 --lr 0.001 --min-lr 0.001 --lr-decay-style constant
    --transformer-impl local --use-cpu-initialization --mock-data --num-workers 0 --split 100,0,0 --eval-iters 0
    --tokenizer-type NullTokenizer --vocab-size 127 --make-vocab-size-divisible-by 64 --log-interval 1 --eval-interval 100
    --hidden-dropout 0 --attention-dropout 0 --no-gradient-accumulation-fusion --no-masked-softmax-fusion
    --no-bias-gelu-fusion --no-bias-dropout-fusion --no-persist-layer-norm --no-rope-fusion
    --distributed-backend nccl --log-throughput
"""


class Samples(torch.utils.data.Dataset):  # type: ignore[type-arg]
    """Samples in which most tokens follow from the one before, so that a training has something to learn."""

    def __len__(self) -> int:
        return 256

    def __getitem__(self, number: int) -> Any:
        drawn = torch.Generator().manual_seed(number)
        follows, tokens = torch.rand(17, generator=drawn) < 0.75, torch.randint(0, 120, (17,), generator=drawn)
        for place in range(1, 17):
            tokens[place] = (tokens[place - 1] + 7) % 120 if follows[place] else tokens[place]
        return {"tokens": tokens[:-1], "labels": tokens[1:]}


def provide_data(*_: Any, vp_stage: Any = None) -> Any:
    return Samples(), None, None


def layers_of(config: Any, stages: Any, implementation: str) -> Any:
    """Returns the spec of the layers that a chunk holds, of Megatron's own or of Transformer Engine."""
    if implementation == "transformer_engine":
        return get_gpt_decoder_block_spec(config, use_transformer_engine=True, **stages)
    return block_of(config, stages)


def provide_model(pre_process: bool = True, post_process: bool = True, vp_stage: Any = None, **named: Any) -> GPTModel:
    args = get_args()
    config = named.pop("config", None) or core_transformer_config_from_args(args)
    stages = {} if vp_stage is None else {"vp_stage": vp_stage}
    block = layers_of(config, stages, args.transformer_impl)
    model = GPTModel(
        config,
        block,
        args.padded_vocab_size,
        args.seq_length,
        pre_process=pre_process,
        post_process=post_process,
        share_embeddings_and_output_weights=not args.untie_embeddings_and_output_weights,
        position_embedding_type=args.position_embedding_type,
        mtp_block_spec=predictions_of(config, block, stages),
        vp_stage=vp_stage,
    )
    draw(model)
    return model


def forward_step(data: Any, model: torch.nn.Module, return_schedule_plan: bool = False) -> Any:
    sample = next(data)
    size = sample["tokens"].shape[1]
    sample["positions"] = torch.arange(size).unsqueeze(0)
    mask = torch.triu(torch.ones(1, 1, size, size, dtype=torch.bool), 1)
    cut = get_batch_on_this_cp_rank(sample, is_hybrid_cp=False, cp_group=parallel_state.get_context_parallel_group())
    step: Any = get_attr_wrapped_model(model, "build_schedule_plan") if return_schedule_plan else model
    losses = step(cut["tokens"], cut["positions"], mask, labels=cut["labels"])

    def loss_of(output: torch.Tensor) -> Any:
        loss, tokens = output.float().sum(), torch.tensor(output.numel(), dtype=torch.int)
        return loss, tokens, {"lm loss": torch.stack([loss.detach(), tokens.float()])}

    return losses, loss_of


def main() -> None:
    sys.argv[1:1] = OPTIONS.split()
    setattr(provide_data, "is_distributed", True)
    datasets.compile_helpers = lambda: None  # they are compiled in the wheel, which lacks their Makefile
    args = parse_and_validate_args()
    pretrain(
        pretrain_cfg_container_from_args(args), provide_data, ModelType.encoder_or_decoder, forward_step, provide_model
    )


if __name__ == "__main__":
    main()
