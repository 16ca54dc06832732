"""Mistakes between the backward pass and the next step: gradients, their groups, norms, optimizers, and the order of
calls. mistakes.py plants them.
"""

from typing import Any, Callable, Dict, List

import torch
from planting import BY_CALLS, BY_GROUPS, NOT_FOUND, Mistake, inside, nothing, on, replace, unmarked
from wrong_layers import ENGINE, FOUR_LAYERS, LAST_NORM, OF_EXPERTS, SCHEDULES, SUM_OVER_TP, rank

FINALIZE, DDP = "distributed.finalize_model_grads", "distributed.distributed_data_parallel"
BUFFERS, OPTIMIZER, STATE = "distributed.param_and_grad_buffer", "optimizer.optimizer", "parallel_state"
OF_ROUTER = "gradient of decoder.layers.mlp.router.weight"
BUCKETS = " --overlap-grad-reduce --ddp-bucket-size 20000"


def loss_times_context(calculate: Any) -> Any:
    """Multiplies the loss from which gradients are computed."""

    def multiplied(*arguments: Any, **named: Any) -> Any:
        loss, tokens = calculate(*arguments, **named)
        return loss * size_of_context(), tokens

    return multiplied


def size_of_context() -> int:
    from megatron.core import parallel_state

    return int(parallel_state.get_context_parallel_world_size())


def undivided(calculate: Any) -> Any:
    def of_one_microbatch(model: Any, output: Any, loss: Any, config: Any, stage: Any, collects: Any, number: int, *rest: Any) -> Any:
        return calculate(model, output, loss, config, stage, collects, 1, *rest)

    return of_one_microbatch


def without_context_in_aux_loss(set_scale: Any) -> Any:
    return lambda scale: set_scale(scale / size_of_context())


def experts_times(size: Callable[[], int]) -> Callable[[Any], Any]:
    def make(finish: Any) -> Any:
        def finish_and_scale(self: Any, *arguments: Any, **named: Any) -> Any:
            made = finish(self, *arguments, **named)
            for buffer in self.expert_parallel_buffers:
                buffer.scale_gradients(float(size()))
            return made

        return finish_and_scale

    return make


def replicas() -> int:
    from megatron.core import parallel_state

    return int(parallel_state.get_data_parallel_world_size())


def replicas_of_experts() -> int:
    from megatron.core import parallel_state

    return int(parallel_state.get_expert_data_parallel_world_size()) // replicas()


def mean_in_each_microbatch(hook_of: Any) -> Any:
    """Divides gradients by the replicas after each microbatch, and so the first ones again and again."""

    def make_hook(self: Any, parameter: Any) -> Any:
        hook = hook_of(self, parameter)

        def hook_and_scale(*arguments: Any) -> None:
            hook(*arguments)
            parameter.main_grad.mul_(0.5)

        return hook_and_scale

    return make_hook


def first_rank_alone(clip: Any) -> Any:
    def clip_there(parameters: Any, *arguments: Any, **named: Any) -> None:
        if rank() == 0:
            clip(parameters, *arguments, **named)

    return clip_there


def every_replica(_: Any) -> Any:
    return lambda *arguments, **named: True


def clipped_by_own_norm(clip: Any) -> Any:
    """Clips the gradients of experts by their own norm, and all others by theirs."""

    def by_own(parameters: Any, max_norm: Any, total_norm: Any, *arguments: Any, **named: Any) -> None:
        from megatron.core import parallel_state

        square = sum((each.grad.square().sum() for each in parameters if each.grad is not None), torch.zeros(()))
        if not all(getattr(each, "allreduce", True) for each in parameters):
            torch.distributed.all_reduce(square, group=parallel_state.get_expert_model_parallel_group())
        clip(parameters, max_norm, float(square) ** 0.5, *arguments, **named)

    return by_own


def lost_parameter(get_optimizer: Any) -> Any:
    """Has the optimizer of the last rank lack a parameter."""

    def without_one(*arguments: Any, **named: Any) -> Any:
        optimizer = get_optimizer(*arguments, **named)
        if rank() == torch.distributed.get_world_size() - 1:
            for one in getattr(optimizer, "chained_optimizers", [optimizer]):
                one.optimizer.param_groups[0]["params"].pop()
        return optimizer

    return without_one


def first_chunk_alone(sync: Any) -> Any:
    """Gathers the parameters of the first chunk of a stage only."""

    def sync_first(self: Any) -> None:
        kept = self.model_chunks
        self.model_chunks = kept[:1]
        try:
            sync(self)
        finally:
            self.model_chunks = kept

    return sync_first


def no_bucket_of_its_own(setup: Any) -> Any:
    def without_mark(self: Any, *arguments: Any, **named: Any) -> None:
        setup(self, *arguments, **named)
        weight = self.shared_embedding_or_output_weight()
        if weight is not None and self.post_process:
            weight.shared_embedding = False

    return without_mark


def never_waited(finish: Any) -> Any:
    """Goes on without a wait for the sum of gradients."""

    def finish_at_once(self: Any, *arguments: Any, **named: Any) -> Any:
        class Done:
            def wait(self) -> None:
                pass

        self.grad_reduce_handle = self.grad_reduce_handle and Done()
        return finish(self, *arguments, **named)

    return finish_at_once


def other_order_on_one_rank() -> None:
    """Has one rank reduce its buckets in another order: the second one before the first."""
    held: List[Any] = []

    def make(start: Any) -> Any:
        def start_later(self: Any, *arguments: Any, **named: Any) -> None:
            if rank() == 1 and not held and not self.is_first_batch:
                held.append((self, arguments, named))
                return
            start(self, *arguments, **named)
            if len(held) == 1 and held[0] is not None:
                bucket, of_bucket, names = held[0]
                held.append(None)
                start(bucket, *of_bucket, **names)

        return start_later

    replace(BUFFERS, "_ParamAndGradBucketGroup.start_grad_sync", make)


def two_orders(finalize: Any) -> Any:
    """Has two of four ranks sum gradients over tp first, and over replicas then."""

    def finalized(model: Any, *arguments: Any, **named: Any) -> Any:
        from megatron.core import parallel_state

        if rank() in (1, 2):
            torch.distributed.all_reduce(torch.zeros(1), group=parallel_state.get_tensor_model_parallel_group())
            torch.distributed.all_reduce(torch.zeros(1), group=parallel_state.get_data_parallel_group())
        else:
            torch.distributed.all_reduce(torch.zeros(1), group=parallel_state.get_data_parallel_group())
            torch.distributed.all_reduce(torch.zeros(1), group=parallel_state.get_tensor_model_parallel_group())
        return finalize(model, *arguments, **named)

    return finalized


def other_stride(get_ranks: Any) -> Any:
    """Counts the ranks of expert groups with another stride."""

    def ranks_of(self: Any, token: str) -> Any:
        groups = get_ranks(self, token)
        if token not in ("ep", "tp-ep") or self.ep == 1:
            return groups
        flat, count = sorted(x for group in groups for x in group), len(groups)
        return [flat[first::count] for first in range(count)]

    return ranks_of


def groups_in_other_order(get_ranks: Any) -> Any:
    """Has odd ranks make their tp groups in another order."""

    def ranks_of(self: Any, token: str) -> Any:
        groups = get_ranks(self, token)
        return groups[::-1] if token == "tp" and rank() % 2 else groups

    return ranks_of


def scale_before_unscale(unscale: Any) -> Any:
    """Updates the loss scale, and then divides gradients by it that were computed with the scale before."""

    def updated_first(self: Any) -> Any:
        for _ in range(int(self.grad_scaler.growth_interval)):
            self.grad_scaler.update(False)
        return unscale(self)

    return updated_first


def one_rate(get_optimizer: Any) -> Any:
    """Leaves out what a group of parameters has as its own learning rate."""

    def without_own(config: Any, *arguments: Any, **named: Any) -> Any:
        optimizer = get_optimizer(config, *arguments, **named)
        for one in getattr(optimizer, "chained_optimizers", [optimizer]):
            for group in one.optimizer.param_groups:
                group.update(max_lr=config.lr, min_lr=config.min_lr)
        return optimizer

    return without_own


def own_counts(update: Any) -> Any:
    """Updates the bias of experts by the tokens of this rank."""

    def of_rank(*arguments: Any, **named: Any) -> Any:
        return update(*arguments, **named)

    return inside("all_reduce", lambda call: lambda *arguments, **named: None)(of_rank)


def skipped_without_experts(update: Any) -> Any:
    """Has a rank without experts leave out a call that the others make."""

    def updated(model: Any, *arguments: Any, **named: Any) -> Any:
        has_experts = any(hasattr(module, "router") for chunk in model for module in chunk.modules())
        if has_experts:
            torch.distributed.all_reduce(torch.zeros(1))
        return update(model, *arguments, **named)

    return updated


def same_seed(seed: Any) -> Any:
    """Gives all ranks of tp one state of random numbers."""

    def seeded(*arguments: Any, **named: Any) -> Any:
        return seed(*arguments, **{**named, "tp_rank": 0})

    return seeded


WRONG_UPDATES: Dict[str, Mistake] = {
    "loss_times_context": Mistake(
        "cp2",
        LAST_NORM,
        "it is 2 (cp is 2) times",
        on(SCHEDULES, "forward_step_calc_loss", loss_times_context),
        "MLM#673",
        "loss scaled by cp",
        program=ENGINE.strip(),
    ),
    "undivided_microbatches": Mistake(
        "tp2",
        LAST_NORM,
        "it is 4 times",
        on(SCHEDULES, "forward_step_calc_loss", undivided),
        "Entangle",
        "gradients not divided by microbatches",
    ),
    "tokens_and_context": Mistake(
        "cp2 --calculate-per-token-loss",
        LAST_NORM,
        "it is 2 (cp is 2) times",
        on(SCHEDULES, "forward_step_calc_loss", loss_times_context),
        "MLM 5946e24b37",
        "loss by token scaled by cp, too",
        program=ENGINE.strip(),
    ),
    "experts_not_divided": Mistake(
        "dp4 ep2",
        "experts",
        "it is 4 (dp is 4) times",
        on(DDP, "DistributedDataParallel.finish_grad_sync", experts_times(replicas)),
        "MLM 3373641ff1",
        "gradients of experts not divided by dp",
        program=OF_EXPERTS,
    ),
    "experts_of_other_tp": Mistake(
        "tp2 sp etp1",
        "experts",
        "it is 2 (tp is 2) times",
        on(DDP, "DistributedDataParallel.finish_grad_sync", experts_times(replicas_of_experts)),
        "MLM 4f8974a400",
        "gradients of experts scaled by edp/dp",
        program=OF_EXPERTS,
    ),
    "aux_loss_without_context": Mistake(
        "cp2",
        OF_ROUTER,
        "",
        on("transformer.moe.moe_utils", "MoEAuxLossAutoScaler.set_loss_scale", without_context_in_aux_loss),
        "MLM#2237",
        "auxiliary loss lacks the factor cp",
        program=OF_EXPERTS + ENGINE,
    ),
    "mean_in_each_microbatch": Mistake(
        "dp2",
        "gradient of ",
        "",
        on(DDP, "DistributedDataParallel._make_backward_post_hook", mean_in_each_microbatch),
        "torchtitan#1733",
        "gradients scaled after each microbatch",
    ),
    "clipped_on_first_rank": Mistake(
        "tp2",
        "exp_avg of embedding.word_embeddings.weight after step 0 on rank 1",
        "",
        on(OPTIMIZER, "clip_grad_by_total_norm_fp32", first_rank_alone),
        "DS#1801",
        "gradients clipped on one rank only",
        relation="times the right one",
    ),
    "replicas_in_norm": Mistake(
        "tp2",
        "norm of the gradients",
        "it counts the gradients that several ranks hold once for each of them",
        on("tensor_parallel", "param_is_not_tensor_parallel_duplicate", every_replica),
        "NeMo-RL#3788",
        "norm counts replicas tp times",
    ),
    "experts_not_in_norm": Mistake(
        "tp2 sp ep2 etp2",
        "norm of the gradients",
        "",
        on("transformer.moe.experts", "SequentialMLP.__init__", unmarked("tensor_model_parallel")),
        "MLM#5916",
        "norm lacks parts of experts",
        program=OF_EXPERTS,
    ),
    "own_norms_clip": Mistake(
        "ep2",
        "after step 0",
        "",
        on(OPTIMIZER, "clip_grad_by_total_norm_fp32", clipped_by_own_norm),
        "MLM abf10f8590",
        "each optimizer clips by its own norm",
        program=OF_EXPERTS,
        relation="times the right one",
    ),
    "lost_parameter": Mistake(
        "tp2",
        "norm of the gradients",
        "",
        on("optimizer", "get_megatron_optimizer", lost_parameter),
        "DS#6770",
        "optimizer lacks a parameter of the model",
        relation="of the gradients of decoder.layers.mlp.linear_fc2.weight[1] it has only the part of the first tp rank",
    ),
    "first_chunk_gathered": Mistake(
        "pp2 vpp2 dp2 zero",
        "before step 1",
        "",
        on("optimizer.distrib_optimizer", "DistributedOptimizer.start_param_sync_for_bucket_group_subset", first_chunk_alone),
        "MLM 32bbb76d57",
        "parameters of one chunk gathered only",
        program=FOUR_LAYERS,
    ),
    "no_bucket_of_its_own": Mistake(
        "pp2 dp2 zero",
        "gradient of embedding.word_embeddings.weight",
        "",
        on("models.common.language_module.language_module", "LanguageModule.setup_embeddings_and_output_layer", no_bucket_of_its_own),
        "MLM ba8f2defc5",
        "tied embeddings at other bucket places",
    ),
    "never_waited": Mistake(
        "dp2" + BUCKETS,
        "",
        "ended without wait()",
        on(BUFFERS, "_ParamAndGradBucketGroup.finish_grad_sync", never_waited),
        "MLM#3693",
        "no wait for the sum of gradients",
        BY_CALLS,
    ),
    "other_order_of_buckets": Mistake(
        "dp2 zero" + BUCKETS,
        "",
        "",
        other_order_on_one_rank,
        "MLM#2218",
        "reduce-scatters in another order",
        BY_CALLS,
    ),
    "two_orders_of_groups": Mistake(
        "tp2 dp2",
        "",
        "wait for each other in a cycle",
        on("distributed", "finalize_model_grads", two_orders),
        "RCCL#2191",
        "two groups used in another order",
        BY_CALLS,
    ),
    "call_left_out": Mistake(
        "pp2",
        "",
        "",
        on("distributed", "finalize_model_grads", skipped_without_experts),
        "MLM e675940967",
        "ranks without experts leave out a call",
        BY_CALLS,
        program=OF_EXPERTS + " --moe-layer-freq [0,1]",
    ),
    "other_stride_of_experts": Mistake(
        "dp4 ep2",
        "",
        "ours is [0,1]: rank 2 is foreign, rank 1 is missing; these are the ranks of a group of edp",
        on(STATE, "RankGenerator.get_ranks", other_stride),
        "MLM e43abe7dfa",
        "expert groups with another stride",
        BY_GROUPS,
        program=OF_EXPERTS,
    ),
    "groups_in_other_order": Mistake(
        "tp2 dp2",
        "",
        "rank 0 has new_group 'TENSOR_MODEL_PARALLEL_GROUP' of ranks 0, 1, rank 1 has",
        on(STATE, "RankGenerator.get_ranks", groups_in_other_order),
        "MLM#7546",
        "groups made in another order",
        BY_CALLS,
    ),
    "own_counts_of_experts": Mistake(
        "dp2",
        "router.expert_bias",
        "",
        on(FINALIZE, "get_updated_expert_bias", own_counts),
        "MLM#7081",
        "bias of experts by tokens of one rank",
        program=OF_EXPERTS.replace("aux_loss ", "none ").replace(" --moe-aux-loss-coeff 0.1", "")
        + " --moe-router-score-function sigmoid --moe-router-enable-expert-bias",
    ),
    "same_seed": Mistake(
        "tp2 --hidden-dropout 0.1",
        "",
        "",
        on("tensor_parallel", "model_parallel_cuda_manual_seed", same_seed),
        "FleetX#1005",
        "one random state on all tp ranks",
        NOT_FOUND,
        "nothing is dropped in a comparison",
    ),
    "no_sum_of_query_norms": Mistake(
        "tp2",
        "gradient of decoder.layers.self_attention.k_layernorm",
        SUM_OVER_TP,
        on(FINALIZE, "_allreduce_non_tensor_model_parallel_grads", nothing),
        "NeMo-RL#3716",
        "no sum over tp of query and key norms",
        program="--qk-layernorm",
    ),
    "scale_before_unscale": Mistake(
        "tp2",
        "norm of the gradients",
        "",
        on(OPTIMIZER, "MixedPrecisionOptimizer._unscale_main_grads_and_check_for_nan", scale_before_unscale),
        "DS#2695",
        "loss scale updated before it divides",
        relation="it is 1/2",  # that tp is 2 as well is a coincidence
        program="--fp16 --initial-loss-scale 1024 --loss-scale-window 2",
    ),
    "one_rate": Mistake(
        "tp2",
        "main_param of embedding.word_embeddings.weight after step 0",
        "",
        on("optimizer", "get_megatron_optimizer", one_rate),
        "NeMo#12123",
        "learning rate of a group is lost",
        program="--untie-embeddings-and-output-weights --decoupled-lr 0.1 --decoupled-min-lr 0.1",
    ),
}
