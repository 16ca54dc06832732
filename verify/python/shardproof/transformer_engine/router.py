"""Which experts a token is sent to, and the auxiliary loss that balances them.

Shapes  logits [tokens, experts]; probabilities and maps have this shape. A map is true where a token has the expert.
Exact   scores are computed in f32, or f64 for f64.
"""

from typing import Optional, Tuple

import torch

from .parallel import Tensor, wide

_TINY = 1e-20  # that of Transformer Engine, by which no sum of scores is zero


def _normalized(scores: Tensor) -> Tensor:
    return scores / (scores.sum(-1, keepdim=True) + _TINY)


def _scores(logits: Tensor, score_function: str) -> Tensor:
    if score_function == "softmax":
        return torch.softmax(logits, -1)
    if score_function == "sigmoid":
        return torch.sigmoid(logits)
    if score_function == "sqrtsoftplus":
        return torch.nn.functional.softplus(logits).sqrt()
    raise ValueError(f"score_function is {score_function}: it has to be 'softmax', 'sigmoid' or 'sqrtsoftplus'")


def _chosen(scores: Tensor, topk: int, num_groups: Optional[int], group_topk: Optional[int]) -> Tensor:
    """Returns the numbers of the experts with the highest scores, of the groups with the highest ones."""
    if group_topk:
        tokens, experts = scores.shape
        groups = scores.reshape(tokens, num_groups or 1, -1)
        best = groups.topk(topk // group_topk, -1).values.sum(-1).topk(group_topk, -1).indices
        is_in = torch.zeros(groups.shape[:2], dtype=torch.bool, device=scores.device).scatter(1, best, True)
        scores = groups.masked_fill(~is_in.unsqueeze(-1), float("-inf")).reshape(tokens, experts)
    return scores.topk(topk, -1).indices


def _map_of(chosen: Tensor, like: Tensor) -> Tensor:
    return torch.zeros_like(like, dtype=torch.bool).scatter(1, chosen, True)


def fused_topk_with_score_function(
    logits: Tensor,
    topk: int,
    use_pre_softmax: bool,
    num_groups: Optional[int],
    group_topk: Optional[int],
    scaling_factor: Optional[float],
    score_function: str,
    expert_bias: Optional[Tensor],
) -> Tuple[Tensor, Tensor]:
    """Returns the probability of each expert of a token, 0 for the others, and the map."""
    rows = wide(logits)
    is_after = score_function == "softmax" and not use_pre_softmax
    scores = rows if is_after else _scores(rows, score_function)
    ranked = scores if expert_bias is None or score_function == "softmax" else scores + expert_bias
    chosen = _chosen(ranked, topk, num_groups, group_topk)
    values = scores.gather(1, chosen)
    if is_after:
        values = torch.softmax(values, -1)
    elif score_function != "softmax" and topk > 1:
        values = _normalized(values)
    values = values * (scaling_factor or 1.0)
    return torch.zeros_like(rows).scatter(1, chosen, values).to(logits.dtype), _map_of(chosen, rows)


def fused_compute_score_for_moe_aux_loss(logits: Tensor, topk: int, score_function: str) -> Tuple[Tensor, Tensor]:
    """Returns the map, and the scores of all experts, whose sum is 1 for each token."""
    scores = _scores(wide(logits), score_function)
    scores = scores if score_function == "softmax" else _normalized(scores)
    return _map_of(scores.topk(topk, -1).indices, scores), scores


def fused_moe_aux_loss(
    probs: Tensor, tokens_per_expert: Tensor, total_num_tokens: int, num_experts: int, topk: int, coeff: float
) -> Tensor:
    factor = num_experts * coeff / (topk * total_num_tokens * total_num_tokens)
    return ((wide(probs).sum(0) * tokens_per_expert).sum() * factor).to(probs.dtype)
