"""Mistakes in what a model computes: in tensor, sequence, context and pipeline parallelism, in experts, and in what
layouts add to a layer. mistakes.py plants them.
"""

from typing import Any, Dict

import torch
from planting import BY_CALLS, Mistake, all_of, on

LAYERS, MAPPINGS, SCHEDULES = "tensor_parallel.layers", "tensor_parallel.mappings", "pipeline_parallel.schedules"
POINT_TO_POINT, DISPATCHER = "pipeline_parallel.p2p_communication", "transformer.moe.token_dispatcher"
ROUTER, RANDOM, ROPE = "transformer.moe.router", "tensor_parallel.random", "models.common.embeddings"
ENGINE = " --transformer-impl transformer_engine"
OF_EXPERTS = (
    "--num-experts 4 --moe-router-topk 2 --disable-bias-linear --moe-router-load-balancing-type aux_loss --moe-aux-loss-coeff 0.1"
)
OF_LATENT = "--position-embedding-type rope --multi-latent-attention --kv-lora-rank 8 --qk-head-dim 8 --qk-pos-emb-head-dim 8 --v-head-dim 8"
PREDICTING = "--mtp-num-layers 1 --position-embedding-type rope --normalization RMSNorm"
ROTARY = "--position-embedding-type rope"
FOUR_LAYERS = "--num-layers 4"
RECOMPUTED = "--recompute-granularity full --recompute-method uniform --recompute-num-layers 1"


def rank() -> int:
    return torch.distributed.get_rank()


def returned(_: Any) -> Any:
    """Leaves a tensor as it is, as a call does that is left out."""
    return lambda ctx, tensor, group: tensor


def gathered(_: Any) -> Any:
    """Gathers where it is to sum, and goes on with as many rows as it had."""

    def gather(ctx: Any, tensor: torch.Tensor, group: Any) -> torch.Tensor:
        parts = torch.empty([group.size() * tensor.shape[0], *tensor.shape[1:]], dtype=tensor.dtype)
        torch.distributed.all_gather_into_tensor(parts, tensor.contiguous(), group=group)
        return parts[: tensor.shape[0]]

    return gather


def summed(gather: Any) -> Any:
    """Sums where it is to gather, and repeats the sum."""

    def sum_up(tensor: torch.Tensor, group: Any, *arguments: Any, **named: Any) -> torch.Tensor:
        if group.size() == 1:
            return tensor
        whole = tensor.contiguous().clone()
        torch.distributed.all_reduce(whole, group=group)
        return whole.repeat(group.size(), *[1] * (whole.dim() - 1))

    return sum_up


def interleaved_rows(gather: Any) -> Any:
    """Joins what it has gathered along another axis, so that the rows of ranks take turns."""

    def gather_and_mix(tensor: torch.Tensor, group: Any, *arguments: Any, **named: Any) -> torch.Tensor:
        whole = gather(tensor, group, *arguments, **named)
        parts = whole.view(group.size(), -1, *whole.shape[1:])
        return parts.transpose(0, 1).reshape(whole.shape)

    return gather_and_mix


def unreduced_inputs(linear: Any) -> Any:
    def without_sum(*arguments: Any, **named: Any) -> Any:
        return linear(*arguments, **{**named, "allreduce_dgrad": False})

    return without_sum


def returned_view(reduce: Any) -> Any:
    """Sums a contiguous copy of a view, and returns the view."""

    def reduce_and_forget(tensor: torch.Tensor, group: Any) -> torch.Tensor:
        made = reduce(tensor, group)
        return made if tensor.is_contiguous() else tensor

    return reduce_and_forget


def views(forward: Any) -> Any:
    """Has a layer give a view of a larger tensor, which is no mistake."""

    def of_larger(*arguments: Any, **named: Any) -> Any:
        made = forward(*arguments, **named)
        return torch.stack([made, made], -1)[..., 0]

    return of_larger


def added_on_one_rank(forward: Any) -> Any:
    def and_added(self: Any, x: Any) -> Any:
        output, bias = forward(self, x)
        more = torch.zeros_like(output)
        more[..., 0] = 1e-6 if rank() == 1 else 0.0
        return output + more, bias

    return and_added


def other_scale_on_one_rank(init: Any) -> Any:
    def with_other_scale(self: Any, *arguments: Any, **named: Any) -> None:
        init(self, *arguments, **named)
        if rank() == 1:
            self.softmax_scale *= 1.01

    return with_other_scale


class _ExchangedBackwards(torch.autograd.Function):
    """Gives the gradient of the queries to the keys, and that of the keys to the queries."""

    @staticmethod
    def forward(ctx: Any, query: torch.Tensor, key: torch.Tensor) -> Any:
        return query.clone(), key.clone()

    @staticmethod
    def backward(ctx: Any, of_query: torch.Tensor, of_key: torch.Tensor) -> Any:
        return of_key, of_query


def exchanged_gradients(core_attention: Any) -> Any:
    def exchange(self: Any, query: torch.Tensor, key: torch.Tensor, *arguments: Any, **named: Any) -> Any:
        return core_attention(self, *_ExchangedBackwards.apply(query, key), *arguments, **named)

    return exchange


def same_positions(on_rank: Any) -> Any:
    """Has every rank of a sequence begin at position 0."""

    def first_chunks(positions: torch.Tensor, axis: int, group: Any) -> torch.Tensor:
        return positions.narrow(axis, 0, positions.shape[axis] // group.size())

    return first_chunks


def consecutive_positions(on_rank: Any) -> Any:
    """Gives a rank one chunk of consecutive positions, where its tokens are those of two."""

    def chunk(positions: torch.Tensor, axis: int, group: Any) -> torch.Tensor:
        return positions.chunk(group.size(), axis)[group.rank()]

    return chunk


def of_call_before(detach: Any) -> Any:
    """Computes a layer again from what the layer of the call before got."""
    before = []

    def detached(inputs: Any) -> Any:
        own = detach(inputs)
        used = tuple(
            x if x is None or not torch.is_tensor(x) or not x.requires_grad else x * 0 + y
            for x, y in zip(own, before or own)
        )
        before[:] = [x.detach() if torch.is_tensor(x) else x for x in own]
        for x, y in zip(own, used):
            if torch.is_tensor(y) and torch.is_tensor(x) and x.requires_grad:
                x.data = y.detach()
        return own

    return detached


def own_gradients_of_chunks(prepare: Any) -> Any:
    """Reads gathered inputs before they have come, so that rows are those of the other rank."""

    def early(gradient: torch.Tensor, inputs: torch.Tensor) -> Any:
        gradient, inputs = prepare(gradient, inputs)
        return gradient, inputs.roll(inputs.shape[0] // 2, 0)

    return early


def unsharded_buffer(communicate: Any) -> Any:
    """Gives a buffer for what a stage receives the size that it has without sequence parallelism."""

    def into_large(self: Any, *, tensor_shape: Any, **named: Any) -> Any:
        whole = [tensor_shape[0] * self.config.tensor_model_parallel_size, *tensor_shape[1:]]
        return communicate(self, tensor_shape=whole, **named)

    return into_large


def waits_before_sends(start: Any) -> Any:
    """Waits for what a stage receives before it sends."""

    def start_all(*, group: Any, prev_pipeline_rank: int, next_pipeline_rank: int, **tensors: Any) -> Any:
        for name, peer in (("recv_prev", prev_pipeline_rank), ("recv_next", next_pipeline_rank)):
            if tensors["tensor_" + name] is not None:
                torch.distributed.recv(tensors["tensor_" + name], peer, group=group)
        for name, peer in (("send_prev", prev_pipeline_rank), ("send_next", next_pipeline_rank)):
            if tensors["tensor_" + name] is not None:
                torch.distributed.send(tensors["tensor_" + name], peer, group=group)
        return {}

    return start_all


def equal_stages(offset: Any) -> Any:
    """Counts the layers before a stage as if all stages had as many."""

    def of_equal(config: Any, *arguments: Any, pp_rank: Any = None, **named: Any) -> Any:
        right = offset(config, *arguments, **({} if pp_rank is None else {"pp_rank": pp_rank}), **named)
        return 0 if right == 0 else config.num_layers // config.pipeline_model_parallel_size

    return of_equal


def first_and_second(_: Any) -> Any:
    return lambda ranks: [ranks[0]] if len(ranks) == 1 else [ranks[0], ranks[1]]


def other_local_order(sort: Any) -> Any:
    """Leaves tokens in the order of the ranks that sent them, where experts want their own together."""

    def unsorted(tokens: torch.Tensor, sizes: Any, order: Any, probs: Any = None, **named: Any) -> Any:
        return tokens, probs

    return unsorted


def cut_probabilities(forward: Any) -> Any:
    def with_cut(self: Any, states: Any, counts: Any, probs: torch.Tensor) -> Any:
        return forward(self, states, counts, probs.detach())

    return with_cut


def over_replicas(init: Any) -> Any:
    """Gathers the tokens of experts over all replicas, too."""

    def with_replicas(self: Any, *arguments: Any, **named: Any) -> None:
        from megatron.core import parallel_state

        init(self, *arguments, **named)
        self.tp_ep_group = parallel_state.get_tensor_and_data_parallel_group()

    return with_replicas


def no_loss(_: Any) -> Any:
    return lambda self, activation, *arguments, **named: activation


def counts_without_tokens(attach: Any) -> Any:
    def as_mean(self: Any, *arguments: Any, **named: Any) -> Any:
        kept = self.calculate_per_token_loss
        self.calculate_per_token_loss = False
        try:
            return attach(self, *arguments, **named)
        finally:
            self.calculate_per_token_loss = kept

    return as_mean


def by_microbatch(apply: Any) -> Any:
    """Lets a loss of sequences grow with the sequences of a microbatch."""

    def grown(self: Any, *arguments: Any, **named: Any) -> Any:
        kept = self.attach_and_log_load_balancing_loss

        def attach(probs: Any, coefficient: Any, loss: Any, *rest: Any, **more: Any) -> Any:
            return kept(probs, coefficient, loss * arguments[4], *rest, **more)

        self.attach_and_log_load_balancing_loss = attach
        try:
            return apply(self, *arguments, **named)
        finally:
            del self.attach_and_log_load_balancing_loss

    return grown


def halved_scale(set_scale: Any) -> Any:
    return lambda scale: set_scale(scale / 2)


def first_of_sharing(rank_of: Any) -> Any:
    """Has ranks that share a head of keys take the query heads of the first of them."""

    def first_rank(group: Any) -> int:
        return int(rank_of(group)) // 2 * 2

    return first_rank


def early_columns(project: Any) -> Any:
    """Splits what a latent projection gives at the columns of a rank's share."""

    def shifted(self: Any, *arguments: Any, **named: Any) -> Any:
        queries, latent = project(self, *arguments, **named)
        return queries, latent.roll(latent.shape[-1] // self.tp_group.size(), -1)

    return shifted


def off_by_one_mask(predicted: Any) -> Any:
    """Masks the targets of other ranks by bounds that are one token off."""

    def off_by_one(logits: Any, target: Any, largest: Any, first: int, end: int) -> Any:
        return predicted(logits, target, largest, first, end - 1 if rank() == 0 else end)

    return off_by_one


def capacity_of_a_rank(dropping: Any) -> Any:
    """Has an expert take as many tokens as if those of one rank were all."""

    def dropped(*arguments: Any, capacity_factor: float, **named: Any) -> Any:
        return dropping(*arguments, capacity_factor=capacity_factor / torch.distributed.get_world_size(), **named)

    return dropped


def coarse_router(linear: Any) -> Any:
    def in_bf16(inputs: Any, weight: Any, bias: Any, dtype: Any) -> Any:
        return linear(inputs, weight, bias, torch.bfloat16).to(inputs.dtype)

    return in_bf16


LOSS = "loss 'lm loss' of step 0"
LAST_NORM = "gradient of decoder.final_layernorm.bias"
SUM_OVER_TP = "each rank holds its own term: the sum over tp"
WRONG_LAYERS: Dict[str, Mistake] = {
    "unsummed_output": Mistake(
        "tp2",
        LOSS,
        "",
        on(MAPPINGS, "_ReduceFromModelParallelRegion.forward", returned),
        "TrainVerify",
        "no all-reduce after a row-parallel layer",
    ),
    "gathered_output": Mistake(
        "tp2",
        LOSS,
        "",
        on(MAPPINGS, "_ReduceFromModelParallelRegion.forward", gathered),
        "TrainVerify",
        "all-gather in place of all-reduce",
    ),
    "summed_sequence": Mistake(
        "tp2 sp",
        "gradient of ",
        "",
        on(MAPPINGS, "_gather_along_first_dim", summed),
        "TrainVerify",
        "all-reduce in place of all-gather",
    ),
    "interleaved_rows": Mistake(
        "tp2 sp",
        "gradient of ",
        "",
        on(MAPPINGS, "_gather_along_first_dim", interleaved_rows),
        "Entangle",
        "gathered along another axis",
    ),
    "unsummed_gradient_of_inputs": Mistake(
        "tp2",
        LAST_NORM,
        SUM_OVER_TP,
        on(LAYERS, "linear_with_grad_accumulation_and_async_allreduce", unreduced_inputs),
        "MLM 5fffdfc737",
        "no all-reduce of the gradient of inputs",
    ),
    "returned_view": Mistake(
        "tp2",
        LOSS,
        "",
        all_of(on(MAPPINGS, "_reduce", returned_view), on(LAYERS, "RowParallelLinear._forward_impl", views)),
        "MLM#5338",
        "a sum in a copy that is dropped",
    ),
    "added_on_one_rank": Mistake(
        "tp2",
        LOSS,
        "",
        on(LAYERS, "RowParallelLinear.forward", added_on_one_rank),
        "TrainVerify",
        "a small constant is added on one rank",
    ),
    "other_scale_on_one_rank": Mistake(
        "tp2",
        LOSS,
        "",
        on("transformer.dot_product_attention", "DotProductAttention.__init__", other_scale_on_one_rank),
        "TrainVerify",
        "another scale on one rank",
    ),
    "exchanged_gradients": Mistake(
        "tp2",
        "gradient of decoder.layers.self_attention.linear_qkv",
        "",
        on("transformer.dot_product_attention", "DotProductAttention.forward", exchanged_gradients),
        "TrainVerify",
        "gradients of queries and keys exchanged",
    ),
    "same_positions": Mistake(
        "cp2",
        LOSS,
        "",
        on(ROPE + ".rotary_pos_embedding", "get_pos_emb_on_this_cp_rank", same_positions),
        "Entangle",
        "rotary positions of each rank begin at 0",
        program=ROTARY + ENGINE,
    ),
    "consecutive_positions": Mistake(
        "cp2",
        LOSS,
        "",
        on(ROPE + ".rotary_pos_embedding", "get_pos_emb_on_this_cp_rank", consecutive_positions),
        "MLM 13722647f3",
        "rotary positions of one chunk for two",
        program=ROTARY + ENGINE,
    ),
    "recomputed_from_another": Mistake(
        "tp2 " + RECOMPUTED,
        "gradient of ",
        "",
        on(RANDOM, "detach_variable", of_call_before),
        "TTrace",
        "layer computed again from another input",
    ),
    "wrong_chunk_of_inputs": Mistake(
        "tp2 sp",
        "gradient of ",
        "",
        on(LAYERS, "prepare_input_tensors_for_wgrad_compute", own_gradients_of_chunks),
        "TE#1616",
        "gradient reads the chunk of another rank",
    ),
    "target_off_by_one": Mistake(
        "tp2",
        "loss 'lm loss' of step 2",  # the first that has the token
        "",
        on("tensor_parallel.cross_entropy", "VocabParallelCrossEntropy.calculate_predicted_logits", off_by_one_mask),
        "TTrace",
        "vocabulary mask off by one",
    ),
    "early_columns": Mistake(
        "tp2 sp",
        LOSS,
        "",
        on("transformer.multi_latent_attention", "MLASelfAttention._qkv_down_projection", early_columns),
        "MLM#5383",
        "latent projection split at other columns",
        program=OF_LATENT + ENGINE,
    ),
    "same_query_heads": Mistake(
        "tp4",
        LOSS,
        "",
        on("transformer.attention", "get_pg_rank", first_of_sharing),
        "MLM#3575",
        "heads not cut where ranks share a key",
        program="--group-query-attention --num-query-groups 2 --make-vocab-size-divisible-by 32",
    ),
    "unsharded_buffer": Mistake(
        "tp2 sp pp2 vpp2",
        "",
        "the send has 256 elements, but its recv has 512",
        on(POINT_TO_POINT, "P2PCommunicator._communicate", unsharded_buffer),
        "MLM 6bd74b0e84",
        "buffer of a receive is not cut over tp",
        BY_CALLS,
        program=FOUR_LAYERS,
    ),
    "waits_before_sends": Mistake(
        "pp2 vpp2",
        "",
        "wait for each other in a cycle",
        on(POINT_TO_POINT, "_p2p_ops", waits_before_sends),
        "MLM#5100",
        "stages wait before they send",
        BY_CALLS,
        program=FOUR_LAYERS,
    ),
    "equal_stages": Mistake(
        "pp2 --decoder-first-pipeline-num-layers 1",
        "",
        "it lacks 12 parameters of the reference, such as ",
        on("transformer.transformer_layer", "get_transformer_layer_offset", equal_stages),
        "MLM b759cd37e6",
        "wrong layers in stages of other sizes",
        program=FOUR_LAYERS,
    ),
    "embedding_of_second_stage": Mistake(
        "pp4",
        "",
        "",
        on("parallel_state", "default_embedding_ranks", first_and_second),
        "MLM cf1b0d446d",
        "embedding group with another stage",
        BY_CALLS,
        program=FOUR_LAYERS,
    ),
    "other_local_order": Mistake(
        "ep2 --moe-token-dispatcher-type alltoall",
        LOSS,
        "",
        on(DISPATCHER, "sort_chunks_by_idxs", other_local_order),
        "MLM 254c87400f",
        "tokens go to another expert of the rank",
        program=OF_EXPERTS,
    ),
    "cut_probabilities": Mistake(
        "ep2",
        "gradient of decoder.layers.mlp.router.weight",
        "it is zero",
        on("transformer.moe.experts", "SequentialMLP.forward", cut_probabilities),
        "transformers#48687",
        "router without the gradient of experts",
        program=OF_EXPERTS,
    ),
    "experts_over_replicas": Mistake(
        "tp2 sp dp2",
        LOSS,
        "",
        on(DISPATCHER, "MoEAllGatherTokenDispatcher.__init__", over_replicas),
        "MLM 38ca18b27f",
        "tokens of experts gathered over replicas",
        program=OF_EXPERTS,
    ),
    "no_aux_loss": Mistake(
        "dp2",
        "gradient of decoder.layers.mlp.router.weight",
        "",
        on(ROUTER, "TopKRouter.attach_and_log_load_balancing_loss", no_loss),
        "MLM 15e75b0890",
        "auxiliary loss without a gradient",
        program=OF_EXPERTS,
    ),
    "aux_loss_without_tokens": Mistake(
        "dp2 --calculate-per-token-loss",
        "gradient of decoder.layers.mlp.router.weight",
        "",
        on(ROUTER, "TopKRouter.attach_and_log_load_balancing_loss", counts_without_tokens),
        "MLM 87d9d2506a",
        "auxiliary loss not multiplied by tokens",
        program=OF_EXPERTS,
    ),
    "aux_loss_by_microbatch": Mistake(
        "dp1 --micro-batch-size 2",
        "gradient of decoder.layers.mlp.router.weight",
        "",
        on(ROUTER, "TopKRouter._apply_seq_aux_loss", by_microbatch),
        "MLM#5798",
        "auxiliary loss grows with the microbatch",
        program=OF_EXPERTS.replace(" aux_loss", " seq_aux_loss"),
    ),
    "half_of_predictions": Mistake(
        "pp2",
        "gradient of ",
        "",
        on("transformer.multi_token_prediction", "MTPLossAutoScaler.set_loss_scale", halved_scale),
        "MLM#1532",
        "loss of predictions has another scale",
        relation="it is 1/2",  # that pp is 2 as well is a coincidence
        program=PREDICTING,
    ),
    "capacity_of_a_rank": Mistake(
        "ep2",
        LOSS,
        "",
        on(ROUTER, "apply_router_token_dropping", capacity_of_a_rank),
        "MLM#2214",
        "capacity of experts from other tokens",
        program=OF_EXPERTS + " --moe-expert-capacity-factor 1.5 --moe-token-dispatcher-type alltoall",
    ),
    "router_in_bf16": Mistake(
        "tp2 sp",
        "gradient of decoder.final_layernorm.weight",  # the loss stays within its bound
        "",
        on(ROUTER, "router_gating_linear", coarse_router),
        "MLM 325e7c8017",
        "router computes in a coarser float",
        program=OF_EXPERTS,
        options="--precision program",
    ),
}
