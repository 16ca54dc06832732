"""Mistakes in Megatron, each put into a training of pretrain.py by its name, so that `shardproof run --layouts` finds it.

    mistakes.py [--mistake NAME] [--twin NAME...] [OPTION...]
        without a mistake it is pretrain.py; a twin has its places counted, and nothing is wrong there
    mistakes.py --list      each mistake as a line of JSON
"""

import functools
import json
import sys
from typing import Any, Callable, Dict, List

import planting
import reloaded
import torch
from planting import Mistake, inside, nothing, on, replace, unmarked
from wrong_layers import ENGINE, FOUR_LAYERS, OF_EXPERTS, ROUTER, WRONG_LAYERS
from wrong_updates import BUFFERS, DDP, FINALIZE, WRONG_UPDATES


def no_mark() -> None:
    def make(init: Any) -> Any:
        def without_mark(self: Any, config: Any, *arguments: Any, **named: Any) -> None:
            init(self, config, *arguments, **named)
            self.weight.sequence_parallel = self.bias.sequence_parallel = False

        return without_mark

    replace("tiny_gpt", "Norm.__init__", make)


def scaled_gradients(factor: float) -> Callable[[Any], Any]:
    """Scales the gradients of a model before its step, as a wrong divisor does."""

    def make(finish: Any) -> Any:
        @functools.wraps(finish)
        def finish_and_scale(self: Any, *arguments: Any, **named: Any) -> Any:
            made = finish(self, *arguments, **named)
            self.scale_gradients(factor)
            return made

        return finish_and_scale

    return make


def only_experts(finish: Any) -> Any:
    @functools.wraps(finish)
    def finish_and_scale(self: Any, *arguments: Any, **named: Any) -> Any:
        made = finish(self, *arguments, **named)
        for buffer in self.expert_parallel_buffers:
            buffer.scale_gradients(0.5)
        return made

    return finish_and_scale


def reversed_experts(forward: Any) -> Any:
    def with_reversed(self: Any, *arguments: Any, **named: Any) -> Any:
        kept = list(self.local_experts)
        self.local_experts = torch.nn.ModuleList(reversed(kept))
        try:
            return forward(self, *arguments, **named)
        finally:
            self.local_experts = torch.nn.ModuleList(kept)

    return with_reversed


def bias_of_every_rank(forward: Any) -> Any:
    def with_bias(self: Any, x: Any) -> Any:
        output, bias = forward(self, x)
        return (output, bias * self.tp_group.size()) if bias is not None else (output, bias)

    return with_bias


def without_mask(forward: Any) -> Any:
    def looked_up(self: Any, tokens: Any) -> Any:
        return forward(self, torch.clamp(tokens, self.vocab_start_index, self.vocab_end_index - 1))

    return looked_up


def own_norm(norm: Any) -> Any:
    def of_this_rank(grads: Any, norm_type: Any = 2, grad_stats_parallel_group: Any = None) -> Any:
        alone = torch.distributed.group.WORLD if torch.distributed.get_world_size() == 1 else ONLY_ME[0]
        return norm(grads, norm_type, alone)

    return of_this_rank


ONLY_ME = [None]


def and_groups_of_one(initialize: Any) -> Any:
    def and_own(*arguments: Any, **named: Any) -> Any:
        made = initialize(*arguments, **named)
        for rank in range(torch.distributed.get_world_size()):
            group = torch.distributed.new_group([rank])
            ONLY_ME[0] = group if rank == torch.distributed.get_rank() else ONLY_ME[0]
        return made

    return and_own


def groups_of_one() -> None:
    """Computes the norm over the gradients of one stage alone."""
    replace("parallel_state", "initialize_model_parallel", and_groups_of_one)
    replace("optimizer.optimizer", "get_grad_norm_fp32", own_norm)


def clipped_more(clip: Any) -> Any:
    def by_half(parameters: Any, max_norm: Any, *arguments: Any, **named: Any) -> Any:
        return clip(parameters, max_norm / 16, *arguments, **named)

    return by_half


def kept_gradients() -> None:
    replace("distributed.distributed_data_parallel", "DistributedDataParallel.zero_grad_buffer", _zero_once)


def _zero_once(zero: Any) -> Any:
    def once(self: Any) -> None:
        if not getattr(self, "was_zeroed", False):
            zero(self)
        self.was_zeroed = True

    return once


def same_samples() -> None:
    replace("parallel_state", "get_data_parallel_rank", lambda of_megatron: lambda *arguments, **named: 0)


def zeros_of(x: Any) -> Any:
    return torch.zeros_like(x) if isinstance(x, torch.Tensor) else x


def last_microbatch_lost(backward: Any) -> Any:
    calls = []

    def but_one(*arguments: Any, **named: Any) -> Any:
        calls.append(1)
        made = backward(*arguments, **named)
        if len(calls) % 4 == 0:
            return [zeros_of(x) for x in made] if isinstance(made, list) else zeros_of(made)
        return made

    return but_one


def without_context(groups_of: Any) -> Any:
    """Reduces gradients over the ranks of the same tokens only."""

    def groups(*arguments: Any) -> Any:
        found = groups_of(*arguments)
        return {**found, "dp_cp_group": found["dp_group"], "intra_dp_cp_group": found["dp_group"]}

    return groups


def plain_chunks(_: Any) -> Any:
    """Cuts a batch into one chunk per rank, where ranks have two."""

    def cut(batch: Any, cp_group: Any, **named: Any) -> Any:
        return {name: x.chunk(cp_group.size(), 1)[cp_group.rank()] for name, x in batch.items()}

    return cut


def unscaled_merge(merged: Any) -> Any:
    return lambda one, sums, other, other_sums: (one + other, merged(one, sums, other, other_sums)[1])


def other_heads(to_tokens: Any) -> Any:
    return lambda x, group: to_tokens(x, group).roll(1, 2)


def no_sum_of_routers(reset: Any) -> Any:
    def reset_and_unmark(self: Any) -> None:
        reset(self)
        self.weight.sequence_parallel = False

    return reset_and_unmark


def aux_loss_of_every_rank(attach: Any) -> Any:
    def attach_more(self: Any, activation: Any, coefficient: Any, loss: Any, *arguments: Any, **named: Any) -> Any:
        return attach(self, activation, coefficient, loss * self.tp_group.size(), *arguments, **named)

    return attach_more


def tokens_of_one_rank(reduce: Any) -> Any:
    """Sums everything but the number of tokens, which is the only integer that is reduced."""

    def reduce_floats(tensor: torch.Tensor, *arguments: Any, **named: Any) -> Any:
        return reduce(tensor, *arguments, **named) if tensor.is_floating_point() else None

    return reduce_floats


def no_bucket() -> None:
    """Leaves out the reduce-scatter of one bucket, that of the parameters which get their gradients first."""
    left_out = []

    def make(call: Any) -> Any:
        def call_of_others(self: Any, *arguments: Any, **named: Any) -> None:
            left_out[:] = left_out or [self]
            if self is not left_out[0]:
                call(self, *arguments, **named)

        return call_of_others

    for name in ("start_grad_sync", "finish_grad_sync"):
        replace(BUFFERS, "_ParamAndGradBucketGroup." + name, make)


def exchanged_layers(offset: Any) -> Any:
    """Has the second and the third virtual stage of two ranks compute each other's layers."""

    @functools.wraps(offset)
    def exchanged(*arguments: Any, **named: Any) -> Any:
        right = offset(*arguments, **named)
        return {1: 2, 2: 1}.get(right, right)

    return exchanged


def experts_alone() -> None:
    """Has each rank sum the gradients of its experts over itself."""

    def make(get_group: Any) -> Any:
        def group_of_one(*arguments: Any, **named: Any) -> Any:
            return ONLY_ME[0] or get_group(*arguments, **named)

        return group_of_one

    replace("parallel_state", "initialize_model_parallel", and_groups_of_one)
    replace("parallel_state", "get_expert_data_parallel_group", make)


def optimizers_of(optimizer: Any) -> List[Any]:
    """Returns the optimizers of torch that one of Megatron calls."""
    return [one.optimizer for one in getattr(optimizer, "chained_optimizers", [optimizer])]


def on_last_rank(change: Callable[[Any], None]) -> Callable[[Any], Any]:
    """Changes the groups of parameters that optimizers have on the last rank."""

    def make(get_optimizer: Any) -> Any:
        def changed(*arguments: Any, **named: Any) -> Any:
            optimizer = get_optimizer(*arguments, **named)
            if torch.distributed.get_rank() > 0:
                for group in (group for one in optimizers_of(optimizer) for group in one.param_groups):
                    change(group)
            return optimizer

        return changed

    return make


def moments_of_another(step: Any) -> Any:
    """Has a part of a parameter share its moments with that of another one, as a wrong offset does."""

    def step_and_share(self: Any, *arguments: Any, **named: Any) -> Any:
        made = step(self, *arguments, **named)
        seen: Dict[Any, Any] = {}
        for parameter, part in zip(self.model_fp32_groups[0], self.shard_fp32_groups[0]):
            first = seen.setdefault((parameter.shape, part.shape), part)
            if first is not part and torch.distributed.get_rank() > 0:
                self.optimizer.state[first].update(self.optimizer.state[part])
                break
        return made

    return step_and_share


OF_ENGINE = "shardproof.transformer_engine."
SUM_OVER = "each rank holds its own term: the sum over "
MISTAKES: Dict[str, Mistake] = {
    "no_mark": Mistake(
        "tp2 sp",
        "gradient of decoder.final_layernorm.bias",
        SUM_OVER + "tp",
        no_mark,
        "MLM#1446",
        "norm not marked as sequence parallel",
    ),
    "no_sum_of_norms": Mistake(
        "tp2 sp pp2",
        "gradient of decoder.final_layernorm.bias",
        SUM_OVER + "tp",
        on(FINALIZE, "_allreduce_non_tensor_model_parallel_grads", nothing),
        "GPT-NeoX#1257",
        "no sum over tp of norms",
    ),
    "no_sum_of_embeddings": Mistake(
        "pp2",
        "gradient of embedding.word_embeddings.weight",
        SUM_OVER + "pp",
        on(FINALIZE, "_allreduce_word_embedding_grads", nothing),
        "MLM#656",
        "tied embeddings drift apart",
    ),
    "no_sum_of_replicas": Mistake(
        "dp2",
        "gradient of decoder.final_layernorm.bias",
        "each rank holds its own term: the mean over dp",
        on(DDP, "DistributedDataParallel.finish_grad_sync", nothing),
        "PT#104336",
        "gradients of replicas not reduced",
    ),
    "twice": Mistake(
        "dp2",
        "gradient of decoder.final_layernorm.bias",
        "it is 2 (dp is 2) times",
        on(DDP, "DistributedDataParallel.finish_grad_sync", scaled_gradients(2)),
        "TrainVerify",
        "the same wrong scale on all ranks",
    ),
    "half": Mistake(
        "tp2",
        "gradient of decoder.final_layernorm.bias",
        "it is 1/2 (tp is 2) of",
        on(DDP, "DistributedDataParallel.finish_grad_sync", scaled_gradients(0.5)),
    ),
    "kept_gradients": Mistake("tp2", "in step 1", "in step 0 is added to it", kept_gradients, program="--clip-grad 0"),
    "bias_of_every_rank": Mistake(
        "tp2",
        "loss 'lm loss' of step 0",
        "",
        on("tensor_parallel.layers", "RowParallelLinear.forward", bias_of_every_rank),
    ),
    "without_mask": Mistake(
        "tp2",
        "loss 'lm loss' of step 0",
        "",
        on("tensor_parallel.layers", "VocabParallelEmbedding.forward", without_mask),
        "TTrace",
        "no vocabulary mask",
    ),
    "norm_of_a_stage": Mistake("pp2", "norm of the gradients", "each rank has the norm of the gradients that it holds", groups_of_one),
    "clipped_more": Mistake(
        "pp2",
        "exp_avg of embedding.word_embeddings.weight after step 0 on ranks 0, 1",
        "times the right one",
        on("optimizer.optimizer", "clip_grad_by_total_norm_fp32", clipped_more),
    ),
    "same_samples": Mistake("dp2", "loss 'lm loss' of step 0", "", same_samples),
    "lost_microbatch": Mistake(
        "pp2",
        "gradient of ",
        "",
        on("pipeline_parallel.schedules", "backward_step", last_microbatch_lost),
    ),
    "reversed_experts": Mistake(
        "ep2",
        "loss 'lm loss' of step 0",
        "",
        on("transformer.moe.experts", "SequentialMLP.forward", reversed_experts),
        program=OF_EXPERTS,
    ),
    "half_of_experts": Mistake(
        "ep2",
        "experts",
        "it is 1/2 (dp, ep is 2) of",
        on(DDP, "DistributedDataParallel.finish_grad_sync", only_experts),
        "DS#6545",
        "gradients of experts scaled by ep",
        program=OF_EXPERTS,
    ),
    "no_mark_of_engine": Mistake(
        "tp2 sp" + ENGINE,
        "gradient of decoder.final_layernorm.bias",
        SUM_OVER + "tp",
        on(OF_ENGINE + "norms", "_Norm.__init__", unmarked("sequence_parallel")),
    ),
    "without_context": Mistake(
        "cp2" + ENGINE,
        "gradient of decoder.final_layernorm.bias",
        "each rank holds its own term: the mean over cp",
        on("process_groups_config", "ProcessGroupCollection.setup_process_groups_for_ddp", without_context),
        "TTrace",
        "gradients reduced over one axis only",
    ),
    "plain_chunks": Mistake(
        "cp2" + ENGINE,
        "loss 'lm loss' of step 0",
        "",
        on("utils", "get_batch_on_this_cp_rank", plain_chunks),
    ),
    "unscaled_merge": Mistake(
        "cp2" + ENGINE,
        "loss 'lm loss' of step 0",
        "",
        on(OF_ENGINE + "context", "merged", unscaled_merge),
    ),
    "other_heads": Mistake(
        "cp2 --cp-comm-type a2a" + ENGINE,
        "loss 'lm loss' of step 0",
        "",
        on(OF_ENGINE + "context", "_to_tokens", other_heads),
    ),
    "router_of_experts_without_mark": Mistake(
        "tp2 sp",
        "gradient of decoder.layers.mlp.router.weight",
        SUM_OVER + "tp",
        on(ROUTER, "Router.reset_parameters", no_sum_of_routers),
        "MLM#599",
        "router not marked as sequence parallel",
        program=OF_EXPERTS,
    ),
    "aux_loss_of_experts_on_every_rank": Mistake(
        "tp2 sp",
        "gradient of decoder.layers.mlp.router.weight",
        "",
        on(ROUTER, "TopKRouter.attach_and_log_load_balancing_loss", aux_loss_of_every_rank),
        "MLM cac8d1a3f0",
        "auxiliary loss scaled by tp",
        program=OF_EXPERTS,
    ),
    "tokens_of_one_rank": Mistake(
        "dp2 --calculate-per-token-loss",
        "gradient of decoder.final_layernorm.bias",
        "it is 2 (dp is 2) times",
        on("distributed", "finalize_model_grads", inside("all_reduce", tokens_of_one_rank)),
        "MLM adfa873d96",
        "loss divided by tokens of one rank",
    ),
    "no_bucket": Mistake(
        "dp2 zero --overlap-grad-reduce --ddp-bucket-size 20000",
        "gradient of decoder.final_layernorm.bias",
        "",
        no_bucket,
        "DS#4321",
        "a bucket is never reduced",
    ),
    "stale_parameters": Mistake(
        "dp2 zero",
        "before step 1",
        "it is the parameter embedding.word_embeddings.weight before step 0",
        on(BUFFERS, "_ParamAndGradBucketGroup.start_param_sync", nothing),
        "MLM a0430bf876",
        "parameters not gathered for the next step",
    ),
    "exchanged_layers": Mistake(
        "pp2 vpp2",
        "loss 'lm loss' of step 0",
        "",
        on("transformer.transformer_layer", "get_transformer_layer_offset", exchanged_layers),
        program=FOUR_LAYERS,
    ),
    "other_beta": Mistake(
        "tp2",
        "exp_avg_sq of embedding.word_embeddings.weight after step 0 on rank 1",
        "it is 10 times",
        on("optimizer", "get_megatron_optimizer", on_last_rank(lambda group: group.update(betas=(0.9, 0.99)))),
    ),
    "decayed_norms": Mistake(
        "tp2",
        "main_param of decoder.layers.self_attention.linear_qkv.layer_norm_weight[0] after step 0 on rank 1",
        "",
        on("optimizer", "get_megatron_optimizer", on_last_rank(lambda group: group.update(wd_mult=1.0))),
        "Megatron-DeepSpeed#262",
        "norms in the group with weight decay",
    ),
    "moments_of_another": Mistake(
        "dp2 zero",
        "exp_avg of ",
        "it is the exp_avg of ",
        on("optimizer.distrib_optimizer", "DistributedOptimizer.step_with_ready_grads", moments_of_another),
    ),
    "experts_alone": Mistake(
        "tp2 sp etp1",
        "experts",
        SUM_OVER + "tp",
        experts_alone,
        "MLM#6080",
        "gradients of experts over a wrong group",
        program=OF_EXPERTS,
    ),
    **WRONG_LAYERS,
    **WRONG_UPDATES,
    **reloaded.WRONG_CHECKPOINTS,
}


def listed() -> None:
    for name, mistake in MISTAKES.items():
        known = {field: value for field, value in mistake._asdict().items() if field != "make"}
        print(json.dumps({"name": name, **known}))


def plant_those_of(words: List[str]) -> List[str]:
    """Plants the mistakes that words name, and returns the words of the program."""
    left, rest = [], iter(words)
    for word in rest:
        if word in ("--mistake", "--twin"):
            planting.plant(MISTAKES[next(rest)], word == "--twin")
        elif word == reloaded.RELOADED:
            reloaded.install()
        else:
            left.append(word)
    return left


def main() -> None:
    if sys.argv[1:] == ["--list"]:
        listed()
        return
    words = plant_those_of(sys.argv[1:])
    import pretrain

    sys.argv[1:] = words
    try:
        pretrain.main()
    finally:
        planting.report()


if __name__ == "__main__":
    main()
