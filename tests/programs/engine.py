"""The stand-in for Transformer Engine against formulas in f64, forward and backward, on groups of 1, 2 and 4 ranks:
all in f64, and those of 2 ranks in f32 and bf16 too.

    shardproof run --ranks 4 -- python engine.py [DEFECT]     a defect is planted, and the program has to fail
    shardproof run --ranks 4 -- python engine.py defects      plants each of them, and fails if one is not found

An error is judged against BOUND * eps * (1 + the largest element), with eps of the dtype of the layer.
"""

import importlib
import sys
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

import torch
import torch.distributed as dist
import transformer_engine.pytorch as te
from transformer_engine.pytorch import ops, permutation, router
from transformer_engine.pytorch.attention.rope import apply_rotary_pos_emb
from transformer_engine.pytorch.cross_entropy import parallel_cross_entropy
from transformer_engine.pytorch.distributed import CudaRNGStatesTracker
from transformer_engine.pytorch.optimizers import FusedAdam, multi_tensor_applier, multi_tensor_l2norm

BOUND = 2.0**4
EPS = 1e-5  # of norms
DTYPES = (torch.float64, torch.float32, torch.bfloat16)
Tensor = torch.Tensor


class Group(NamedTuple):
    """A group of ranks, with those of its halves that "a2a+p2p" needs."""

    size: int
    rank: int
    group: Any
    halves: Any

    def of(self, whole: Tensor, dimension: int) -> Tensor:
        return whole.chunk(self.size, dimension)[self.rank].contiguous()

    def summed(self, x: Tensor) -> Tensor:
        total = x.double()
        dist.all_reduce(total, group=self.group)
        return total


class Judge:
    """Collects how far results are from what is wanted."""

    def __init__(self) -> None:
        self.worst: Tuple[float, str] = (0.0, "")
        self.count = 0

    def close(self, name: str, found: Tensor, wanted: Tensor, dtype: torch.dtype) -> None:
        wanted = wanted.detach()
        bound = BOUND * torch.finfo(dtype).eps * (1 + float(wanted.abs().max()))
        error = float((found.detach().double() - wanted).abs().max()) if found.shape == wanted.shape else float("inf")
        self.worst = max(self.worst, (error / bound if error == error else float("inf"), f"{name} in {dtype}"))
        self.count += 1

    def true(self, name: str, is_right: bool) -> None:
        self.worst = max(self.worst, (0.0 if is_right else float("inf"), name))
        self.count += 1


def drawn(seed: int, *sizes: int) -> Tensor:
    """Returns numbers that bf16 has, so that all dtypes start from the same."""
    x = torch.randn(*sizes, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return x.bfloat16().double()


def leaf(x: Tensor, dtype: torch.dtype = torch.float64) -> Tensor:
    return x.detach().to(dtype).clone().requires_grad_()


def norm_of(x: Tensor, weight: Tensor, bias: Optional[Tensor]) -> Tensor:
    """The formula of a layer norm, or of an RMS norm without bias."""
    centred = x - x.sum(-1, keepdim=True) / x.shape[-1] if bias is not None else x
    deviation = ((centred * centred).sum(-1, keepdim=True) / x.shape[-1] + EPS) ** 0.5
    return weight * centred / deviation + (0 if bias is None else bias)


def norms(judge: Judge, group: Group, dtype: torch.dtype) -> None:
    whole, dy = drawn(1, 8, 2, 16), drawn(2, 8, 2, 16)
    for kind, is_zero_centered in (
        (te.LayerNorm, False),
        (te.LayerNorm, True),
        (te.RMSNorm, False),
        (te.RMSNorm, True),
    ):
        layer = kind(16, eps=EPS, params_dtype=dtype, zero_centered_gamma=is_zero_centered, sequence_parallel=True)
        weight, bias = drawn(3, 16), drawn(4, 16) if kind is te.LayerNorm else None
        set_to(layer.weight, weight)
        if bias is not None:
            set_to(layer.bias, bias)
        x, factor = leaf(whole, dtype), leaf(weight)
        layer(x).backward(dy.to(dtype))
        wanted_x = leaf(whole)
        wanted = norm_of(wanted_x, factor + (1 if is_zero_centered else 0), bias)
        wanted.backward(dy)
        judge.close(f"result of {kind.__name__}", layer(x), wanted, dtype)
        judge.close(f"gradient of x of {kind.__name__}", x.grad, wanted_x.grad, dtype)
        judge.close(f"gradient of the weight of {kind.__name__}", layer.weight.grad, factor.grad, dtype)
        judge.true("mark of a norm", layer.weight.sequence_parallel is True)
    both = te.LayerNormLinear(
        16,
        4,
        EPS,
        normalization="RMSNorm",
        return_bias=True,
        return_layernorm_output=True,
        params_dtype=dtype,
        device="cpu",
    )
    set_to(both.weight, drawn(5, 4, 16))
    y, bias, rows = both(whole.to(dtype))
    normed = norm_of(whole, torch.ones(16, dtype=torch.float64), None)
    judge.close("norm that a layer returns", rows, normed, dtype)
    judge.close("result beside a norm", y, normed.to(dtype).double() @ drawn(5, 4, 16).t(), dtype)
    judge.true("bias beside a norm", torch.equal(bias, torch.zeros(4, dtype=dtype)))


def set_to(parameter: Tensor, value: Tensor) -> None:
    with torch.no_grad():
        parameter.copy_(value)


def linears(judge: Judge, group: Group, dtype: torch.dtype) -> None:
    for mode in ("column", "row"):
        for cuts in (False, True):
            for with_norm in (False, True) if mode == "column" else (False,):
                a_linear(judge, group, dtype, mode, cuts, with_norm)


def a_linear(judge: Judge, group: Group, dtype: torch.dtype, mode: str, cuts: bool, with_norm: bool) -> None:
    whole, dy, matrix, bias = drawn(11, 8, 2, 16), drawn(12, 8, 2, 12), drawn(13, 12, 16), drawn(14, 12)
    named = {
        "sequence_parallel": cuts,
        "tp_group": group.group,
        "parallel_mode": mode,
        "params_dtype": dtype,
        "device": "cpu",
    }
    layer = te.LayerNormLinear(16, 12, eps=EPS, **named) if with_norm else te.Linear(16, 12, **named)
    is_column, cuts = mode == "column", cuts and group.size > 1
    set_to(layer.weight, group.of(matrix, 0 if is_column else 1))
    set_to(layer.bias, group.of(bias, 0) if is_column else bias)
    wanted = [leaf(part) for part in (whole, matrix, bias, drawn(15, 16), drawn(16, 16))]
    rows = norm_of(wanted[0], wanted[3], wanted[4]) if with_norm else wanted[0]
    result = torch.einsum("sbi,oi->sbo", rows, wanted[1]) + wanted[2]
    result.backward(dy)
    if with_norm:
        set_to(layer.layer_norm_weight, wanted[3])
        set_to(layer.layer_norm_bias, wanted[4])
    cut_x, cut_y = (cuts if is_column else None), (None if is_column else cuts)

    def of_rank(tensor: Tensor, cuts_tokens: Optional[bool]) -> Tensor:
        """Returns a rank's part: all columns of its tokens or of all tokens, or its columns of all tokens."""
        return group.of(tensor, 2) if cuts_tokens is None else group.of(tensor, 0) if cuts_tokens else tensor

    x = leaf(of_rank(whole, cut_x), dtype)
    y = layer(x)
    y.backward(of_rank(dy, cut_y).to(dtype))
    name = f"{type(layer).__name__} by {mode}s{' with cut tokens' if cuts else ''} on {group.size} ranks"
    judge.close("result of " + name, y, of_rank(result.detach(), cut_y), dtype)
    judge.close("gradient of x of " + name, x.grad, of_rank(wanted[0].grad, cut_x), dtype)
    judge.close(
        "gradient of the weight of " + name, layer.weight.grad, group.of(wanted[1].grad, 0 if is_column else 1), dtype
    )
    db = group.summed(layer.bias.grad) if not is_column and cuts else layer.bias.grad
    judge.close(
        "gradient of the bias of " + name, db, group.of(wanted[2].grad, 0) if is_column else wanted[2].grad, dtype
    )
    if with_norm:
        dw = group.summed(layer.layer_norm_weight.grad) if cuts else layer.layer_norm_weight.grad
        judge.close("gradient of the norm of " + name, dw, wanted[3].grad, dtype)


def grouped(judge: Judge, group: Group, dtype: torch.dtype) -> None:
    sizes, whole, dy = [3, 0, 5], drawn(21, 8, 6), drawn(22, 8, 4)
    layer = te.GroupedLinear(3, 6, 4, bias=False, params_dtype=dtype, device="cpu", fuse_wgrad_accumulation=True)
    x, first = leaf(whole, dtype), 0
    for expert in range(3):
        weight = getattr(layer, f"weight{expert}")
        set_to(weight, drawn(23 + expert, 4, 6))
        weight.main_grad, weight.grad_added_to_main_grad = torch.ones(4, 6, dtype=dtype), False
    y = layer(x, sizes)
    y.backward(dy.to(dtype))
    for expert, size in enumerate(sizes):
        rows, weight = slice(first, first + size), getattr(layer, f"weight{expert}")
        if size:
            judge.close("result of GroupedLinear", y[rows], whole[rows] @ drawn(23 + expert, 4, 6).t(), dtype)
            judge.close("gradient of x of GroupedLinear", x.grad[rows], dy[rows] @ drawn(23 + expert, 4, 6), dtype)
        judge.close("main_grad of GroupedLinear", weight.main_grad, 1 + dy[rows].t() @ whole[rows], dtype)
        judge.true("mark of main_grad", weight.grad_added_to_main_grad)
        first += size


def permutations(judge: Judge, group: Group, dtype: torch.dtype) -> None:
    whole, chances = drawn(71, 6, 8), drawn(72, 6, 4).abs()
    chosen = torch.tensor([[1, 0, 1, 0], [0, 0, 0, 1], [1, 1, 1, 0], [0, 0, 1, 1], [0, 0, 0, 0], [1, 0, 0, 0]]).bool()
    rows = [(token, expert) for expert in range(4) for token in range(6) if chosen[token, expert]]
    x, probs = leaf(whole, dtype), leaf(chances, dtype)
    found, found_probs, order = permutation.moe_permute_with_probs(x, probs, chosen, len(rows))
    judge.close("rows of experts", found, torch.stack([whole[token] for token, _ in rows]), dtype)
    judge.close("chances of rows", found_probs, torch.stack([chances[place] for place in rows]), dtype)
    judge.true("rows without chances", torch.equal(permutation.moe_permute(x, chosen)[0], found))
    back = permutation.moe_unpermute(found, order, probs, x.shape)
    shares = (chances * chosen).sum(1, keepdim=True)
    judge.close("sum of the rows of tokens", back, whole * shares, dtype)
    dy = drawn(73, 6, 8)
    back.backward(dy.to(dtype))
    judge.close("gradient of tokens", x.grad, dy * shares, dtype)
    judge.close("gradient of chances", probs.grad, (dy * whole).sum(1, keepdim=True) * chosen, dtype)
    sizes = chosen.sum(0)
    padded, _, order, _, wanted = permutation.moe_permute_and_pad_with_probs(x, probs, chosen, sizes, 4)
    judge.true("padded sizes", wanted.tolist() == [4, 4, 4, 4] and padded.shape[0] == 16)
    judge.true("padded rows", not padded[[3, 5, 6, 7, 11, 14, 15]].any())
    judge.close("sum of padded rows", permutation.moe_unpermute(padded, order, None, x.shape), whole * chosen.sum(1, True), dtype)
    chunks = permutation.moe_sort_chunks_by_index(x, torch.tensor([1, 2, 3]), torch.tensor([2, 0, 1]))
    judge.close("sorted chunks", chunks, whole[[3, 4, 5, 0, 1, 2]], dtype)


def routed(row: List[float], bias: List[float], topk: int, groups: int) -> Dict[int, float]:
    """The scores of the chosen experts by sigmoid: those of the better half of the groups."""
    scores = [1 / (1 + 2.718281828459045**-value) for value in row]
    ranked = [score + other for score, other in zip(scores, bias)]
    width = len(row) // groups
    best = [sum(sorted(ranked[at : at + width])[-topk * 2 // groups :]) for at in range(0, len(row), width)]
    kept = sorted(range(groups), key=best.__getitem__)[-groups // 2 :]
    experts = sorted((e for e in range(len(row)) if e // width in kept), key=ranked.__getitem__)[-topk:]
    total = sum(scores[e] for e in experts)
    return {e: 2.5 * scores[e] / total for e in experts}


def routers(judge: Judge, group: Group, dtype: torch.dtype) -> None:
    if dtype == torch.bfloat16:  # in which scores are equal
        return
    whole, bias = drawn(74, 5, 8), drawn(75, 8)
    found, chosen = router.fused_topk_with_score_function(whole.to(dtype), 4, False, 4, 2, 2.5, "sigmoid", bias.to(dtype))
    for token, row in enumerate(whole.tolist()):
        wanted = routed(row, bias.tolist(), 4, 4)
        judge.true("chosen experts", chosen[token].nonzero().flatten().tolist() == sorted(wanted))
        values = torch.tensor([wanted.get(e, 0.0) for e in range(8)], dtype=torch.float64)
        judge.close("chances of experts", found[token], values, dtype)
    for is_before in (False, True):
        logits, wanted_logits = leaf(whole, dtype), leaf(whole)
        found, chosen = router.fused_topk_with_score_function(logits, 3, is_before, None, None, None, "softmax", None)
        weights = wanted_logits.exp() * (1 if is_before else chosen)
        wanted_chances = weights / weights.sum(1, keepdim=True) * chosen
        judge.close("chances by softmax", found, wanted_chances, dtype)
        (found * drawn(76, 5, 8).to(dtype)).sum().backward()
        (wanted_chances * drawn(76, 5, 8)).sum().backward()
        judge.close("gradient of logits", logits.grad, wanted_logits.grad, dtype)
    chosen, scores = router.fused_compute_score_for_moe_aux_loss(whole.to(dtype), 2, "sigmoid")
    plain = 1 / (1 + (-whole).exp())
    judge.close("scores of a loss", scores, plain / plain.sum(1, keepdim=True), dtype)
    loss = router.fused_moe_aux_loss(scores, chosen.sum(0), 5, 8, 2, 0.5)
    wanted_loss = ((plain / plain.sum(1, keepdim=True)).sum(0) * chosen.sum(0)).sum() * 8 * 0.5 / (2 * 5 * 5)
    judge.close("loss of balance", loss, wanted_loss, dtype)


def sequences(judge: Judge, group: Group, dtype: torch.dtype) -> None:
    """A gated MLP with a norm, as Megatron makes it, on tokens that are divided over ranks."""
    whole, dy, up, down = drawn(77, 8, 4), drawn(78, 8, 4), drawn(79, 16, 4), drawn(80, 4, 8)
    parts = [group.of(x, 0) for x in up.chunk(2)]
    layers = (
        ops.BasicLinear(4, 16, dtype=dtype, tensor_parallel_mode="column", tensor_parallel_group=group.group, sequence_parallel=True),
        ops.BasicLinear(8 // group.size, 4, dtype=dtype),
    )
    set_to(layers[0].weight, torch.cat(parts))
    set_to(layers[1].weight, group.of(down, 1))
    steps = (ops.MakeExtraOutput(), ops.RMSNorm(4, eps=EPS, dtype=dtype), layers[0], ops.SwiGLU(), layers[1])
    x = leaf(group.of(whole, 0), dtype)
    found, kept = ops.Sequential(*steps, ops.ReduceScatter(group.group))(x)
    found.backward(group.of(dy, 0).to(dtype))
    wanted_x = leaf(whole)
    gate, value = (norm_of(wanted_x, torch.ones(4, dtype=torch.float64), None) @ up.t()).chunk(2, -1)
    wanted = (gate / (1 + (-gate).exp()) * value) @ down.t()
    wanted.backward(dy)
    judge.true("a further output", torch.equal(kept, x))
    loose = dtype if dtype == torch.float64 else torch.bfloat16  # five layers of rounding
    judge.close("a sequence", found, group.of(wanted, 0), loose)
    judge.close("gradient of a sequence", x.grad, group.of(wanted_x.grad, 0), loose)
    total = ops.AllReduce(group.group)(leaf(group.of(whole, 0), dtype))
    judge.close("sum of a sequence", total, sum(whole.chunk(group.size, 0)), dtype)
    gelu = 0.5 * whole * (1 + torch.tanh((2 / torch.pi) ** 0.5 * (whole + 0.044715 * whole**3)))
    judge.close("gelu", ops.GELU()(whole.to(dtype)), gelu, dtype)
    blocks = ops.ScaledSwiGLU(glu_interleave_size=1)(whole.to(dtype), dy[:, 0].to(dtype))
    gate, value = whole[:, 0::2], whole[:, 1::2]
    judge.close("scaled blocks", blocks, gate / (1 + (-gate).exp()) * value * dy[:, :1], dtype)


def attention_of(q: Tensor, k: Tensor, v: Tensor, sees: Tensor, kept: Any = 1.0) -> Tensor:
    """The formula of attention, for q [s, b, h, d] and k, v [s, b, g, d]; a query that sees nothing gets 0."""
    k, v = (x.repeat_interleave(q.shape[2] // x.shape[2], 2) for x in (k, v))
    scores = torch.einsum("qbhd,kbhd->bhqk", q, k) / q.shape[3] ** 0.5
    weights = (scores - scores.detach().amax(3, keepdim=True)).exp() * sees
    sums = weights.sum(3, keepdim=True)
    weights = weights / (sums + (sums == 0)) * kept
    return torch.einsum("bhqk,kbhd->qbhd", weights, v).flatten(2)


def tokens_of(rank: int, size: int, lengths: List[int]) -> List[int]:
    """Returns the tokens of a rank: of each sequence the chunks `rank` and `2 * size - 1 - rank`."""
    found, first = [], 0
    for length in lengths:
        chunk = length // (2 * size)
        for number in (rank, 2 * size - 1 - rank) if size > 1 else (0, 1):
            found += range(first + number * chunk, first + (number + 1) * chunk)
        first += length
    return found


class Case(NamedTuple):
    """A call of attention."""

    mask: str = "causal"
    format: str = "sbhd"
    window: Optional[Tuple[int, int]] = None
    lengths: Tuple[int, ...] = (16,)  # of sequences with their padding
    counted: Tuple[int, ...] = (16,)
    dropout: float = 0.0

    def sees(self) -> Tensor:
        """Returns which token sees which. [tokens, tokens]"""
        starts = [sum(self.lengths[:number]) for number in range(len(self.lengths))]
        sees = torch.zeros(sum(self.lengths), sum(self.lengths), dtype=torch.float64)
        for start, counted in zip(starts, self.counted):
            for one in range(counted):
                for other in range(counted):
                    is_near = self.window is None or -self.window[0] <= other - one <= self.window[1]
                    sees[start + one, start + other] = float(is_near and ("causal" not in self.mask or other <= one))
        return sees


CASES = (
    Case(),
    Case(mask="no_mask", format="bshd"),
    Case(window=(3, 0)),
    Case("padding_causal", "thd", None, (8, 16, 8), (5, 16, 8)),
    Case("padding", "thd", None, (16, 8), (16, 7)),
    Case(dropout=0.5),
)


def attentions(judge: Judge, group: Group, dtype: torch.dtype) -> None:
    for kind in ("p2p", "all_gather", "a2a", "a2a+p2p"):
        if kind != "a2a+p2p" or group.halves is not None:
            for case in CASES:
                an_attention(judge, group, dtype, kind, case)
    a_mask(judge, dtype)
    a_sink(judge, dtype)


def an_attention(judge: Judge, group: Group, dtype: torch.dtype, kind: str, case: Case) -> None:
    b, h, g, d = (1 if case.format == "thd" else 2), 8, 4, 4
    tokens, own = sum(case.lengths), tokens_of(group.rank, group.size, list(case.lengths))
    whole = [leaf(drawn(31, tokens, b, h, d)), *(leaf(drawn(seed, tokens, b, g, d)) for seed in (32, 33))]
    dy = drawn(34, tokens, b, h * d)
    if case.dropout and kind != "p2p":
        return
    result = attention_of(*whole, case.sees(), all_kept(group, case, (b, g, h // g), dtype))
    result.backward(dy)
    ends, padded = (torch.tensor([0, *part]).cumsum(0).int() for part in (case.counted, case.lengths))
    over = group.halves if kind == "a2a+p2p" else group.group
    layer = te.DotProductAttention(
        h, d, g, case.dropout, window_size=case.window, attn_mask_type=case.mask, cp_group=over, cp_comm_type=kind
    )

    def given(x: Tensor) -> Tensor:
        x = x.detach()[own]
        return x.transpose(0, 1) if case.format == "bshd" else x.squeeze(1) if case.format == "thd" else x

    parts = [leaf(given(x), dtype) for x in whole]
    packed = {"cu_seqlens_q": ends, "cu_seqlens_q_padded": padded} if case.format == "thd" else {}
    torch.manual_seed(50 + group.rank)
    y = layer(*parts, qkv_format=case.format, **packed)
    y.backward(given(dy).to(dtype))
    name = f"of {kind} of {group.size} ranks, {case}"
    judge.close("result " + name, y, given(result), dtype)
    for letter, part, wanted in zip("qkv", parts, whole):
        judge.close(f"gradient of {letter} {name}", part.grad, given(wanted.grad), dtype)


def all_kept(group: Group, case: Case, heads: Tuple[int, int, int], dtype: torch.dtype) -> Any:
    """Returns the factors of dropout that all ranks draw: rank by rank, from the seed of the rank. [b, h, q, k]"""
    if not case.dropout:
        return 1.0
    lengths = list(case.lengths)
    kept = torch.zeros(heads[0], heads[1] * heads[2], sum(lengths), sum(lengths), dtype=torch.float64)
    for rank in range(group.size):
        torch.manual_seed(50 + rank)
        queries = torch.tensor(tokens_of(rank, group.size, lengths))
        for source in range(group.size):
            keys = torch.tensor(tokens_of(source, group.size, lengths))
            ones = torch.ones(*heads, len(queries), len(keys), dtype=dtype)
            factors = torch.nn.functional.dropout(ones, case.dropout).double().flatten(1, 2)
            kept[:, :, queries.unsqueeze(1), keys] = factors
    return kept


def a_mask(judge: Judge, dtype: torch.dtype) -> None:
    """Masks of the program: padding of samples, and any mask."""
    q, k, v = (drawn(seed, 6, 2, 4, 4) for seed in (41, 42, 43))
    padding = torch.arange(6) >= torch.tensor([[4], [6]])  # [b, s]
    anything = drawn(44, 2, 1, 6, 6) > 0.5
    anything[..., 0] = False
    layer = te.DotProductAttention(4, 4)
    for kind, mask, hidden in (
        ("padding", padding[:, None, None], padding[:, None, None] | padding[:, None, :, None]),
        ("arbitrary", anything, anything),
    ):
        y = layer(*(x.to(dtype) for x in (q, k, v)), mask, attn_mask_type=kind)
        judge.close(f"result with {kind}", y, attention_of(q, k, v, (~hidden).double()), dtype)
    y = layer(*(x.to(dtype) for x in (q[:2], k, v)), attn_mask_type="causal_bottom_right")
    sees = torch.ones(2, 6, dtype=torch.float64).tril(4)
    judge.close("result of the last queries", y, attention_of(q[:2], k, v, sees), dtype)


def a_sink(judge: Judge, dtype: torch.dtype) -> None:
    """One more score for each head: learnt, and 0."""
    whole = [leaf(drawn(45 + number, 6, 2, heads, 4)) for number, heads in enumerate((8, 4, 4))]
    offset, dy = leaf(drawn(48, 8)), drawn(49, 6, 2, 32)
    keys = torch.cat([whole[1], torch.zeros(1, 2, 4, 4, dtype=torch.float64)])
    values = torch.cat([whole[2], torch.zeros(1, 2, 4, 4, dtype=torch.float64)])
    sees = torch.cat([torch.ones(6, 6, dtype=torch.float64).tril(), torch.zeros(6, 1, dtype=torch.float64)], 1)
    scores = torch.einsum("qbhd,kbhd->bhqk", whole[0], keys.repeat_interleave(2, 2)) / 2
    shares = scores.exp() * sees
    for kind, last in (("off-by-one", torch.zeros(8, dtype=torch.float64)), ("learnable", offset)):
        layer = te.DotProductAttention(8, 4, 4, softmax_type=kind)
        if kind == "learnable":
            set_to(layer.softmax_offset, offset)
        parts = [leaf(x, dtype) for x in whole]
        y = layer(*parts)
        weights = shares / (shares.sum(3, keepdim=True) + last.exp().view(1, 8, 1, 1))
        wanted = torch.einsum("bhqk,kbhd->qbhd", weights, values.repeat_interleave(2, 2)).flatten(2)
        judge.close(f"result of softmax {kind}", y, wanted, dtype)
    y.backward(dy.to(dtype))
    wanted.backward(dy)
    for name, found, part in zip("qkv", parts, whole):
        judge.close(f"gradient of {name} of a learnt softmax", found.grad, part.grad, dtype)
    of_offset = dtype if dtype == torch.bfloat16 else torch.float32  # the offset itself is f32
    judge.close("gradient of the offset", layer.softmax_offset.grad, offset.grad, of_offset)


def transformer_layers(judge: Judge, group: Group, dtype: torch.dtype) -> None:
    for is_fused in (False, True):
        a_transformer_layer(judge, group, dtype, is_fused)


def a_transformer_layer(judge: Judge, group: Group, dtype: torch.dtype, is_fused: bool) -> None:
    """A layer of 8 heads in 4 groups, on tokens that are divided over ranks."""
    sizes = {"q": (32, 16), "k": (16, 16), "v": (16, 16), "out": (16, 32), "up": (12, 16), "down": (16, 12)}
    wanted = {name: leaf(drawn(91 + number, *size) / 4) for number, (name, size) in enumerate(sizes.items())}
    bias, whole, dy = drawn(97, 12), drawn(98, 8, 2, 16), drawn(99, 8, 2, 16)
    layer = te.TransformerLayer(
        16,
        12,
        8,
        4,
        EPS,
        0.0,
        0.0,
        kv_channels=4,
        tp_group=group.group,
        sequence_parallel=True,
        set_parallel_mode=True,
        fuse_qkv_params=is_fused,
        params_dtype=dtype,
        device="cpu",
    )
    into, mlp = layer.self_attention.layernorm_qkv, layer.layernorm_mlp
    if is_fused:  # heads of one group after the other
        parts = [wanted["q"].view(4, 8, 16), wanted["k"].view(4, 4, 16), wanted["v"].view(4, 4, 16)]
        set_to(into.weight, group.of(torch.cat(parts, 1).flatten(0, 1), 0))
    else:
        for name, weight in zip("qkv", (into.query_weight, into.key_weight, into.value_weight)):
            set_to(weight, group.of(wanted[name], 0))
    set_to(layer.self_attention.proj.weight, group.of(wanted["out"], 1))
    set_to(mlp.fc1_weight, group.of(wanted["up"], 0))
    set_to(mlp.fc1_bias, group.of(bias, 0))
    set_to(mlp.fc2_weight, group.of(wanted["down"], 1))
    x, wanted_x = leaf(group.of(whole, 0), dtype), leaf(whole)
    y = layer(x)
    y.backward(group.of(dy, 0).to(dtype))
    ones, zeros = torch.ones(16, dtype=torch.float64), torch.zeros(16, dtype=torch.float64)
    rows = norm_of(wanted_x, ones, zeros)
    q, k, v = ((rows @ wanted[name].t()).unflatten(2, (-1, 4)) for name in "qkv")
    middle = wanted_x + attention_of(q, k, v, torch.ones(8, 8, dtype=torch.float64).tril()) @ wanted["out"].t()
    up = norm_of(middle, ones, zeros) @ wanted["up"].t() + bias
    activated = 0.5 * up * (1 + torch.tanh((2 / torch.pi) ** 0.5 * (up + 0.044715 * up**3)))
    result = middle + activated @ wanted["down"].t()
    result.backward(dy)
    loose = dtype if dtype == torch.float64 else torch.bfloat16  # a whole layer of rounding
    names = [name for name, _ in layer.named_parameters()]
    judge.true("the norm before the matrix", "layer_norm_weight" in names[0] and "bias" not in names[2])
    judge.true("mark of a norm inside", mlp.layer_norm_weight.sequence_parallel is (group.size > 1))
    judge.true("states of FP8", not any(name == "_extra_state" for name in layer.state_dict()))
    judge.close("a transformer layer", y, group.of(result, 0), loose)
    judge.close("gradient of x of a transformer layer", x.grad, group.of(wanted_x.grad, 0), loose)
    judge.close("gradient of fc2", mlp.fc2_weight.grad, group.of(wanted["down"].grad, 1), loose)
    if not is_fused:
        judge.close("gradient of keys", into.key_weight.grad, group.of(wanted["k"].grad, 0), loose)


def cross_entropies(judge: Judge, group: Group, dtype: torch.dtype) -> None:
    whole, dy = leaf(drawn(61, 5, 2, 16)), drawn(62, 5, 2)
    target = torch.randint(0, 16, (5, 2), generator=torch.Generator().manual_seed(63))
    target[1, 1] = -100
    counts = (target >= 0).double()
    picked = (whole * torch.nn.functional.one_hot(target.clamp(min=0), 16)).sum(2)
    losses = (whole.exp().sum(2).log() - picked) * counts
    losses.backward(dy)
    logits = leaf(group.of(whole.detach(), 2), dtype)
    found = parallel_cross_entropy(logits, target, 0.0, False, group.group)
    found.backward(dy.to(found.dtype))
    judge.close(f"losses of {group.size} ranks", found, losses, dtype)
    judge.close(f"gradient of logits of {group.size} ranks", logits.grad, group.of(whole.grad, 2), dtype)


def rotations(judge: Judge, group: Group, dtype: torch.dtype) -> None:
    angles, whole, dy = drawn(71, 16, 1, 1, 2), drawn(72, 16, 2, 3, 6), drawn(73, 16, 2, 3, 6)
    for interleaved in (False, True):
        freqs = torch.stack([angles, angles], -1).flatten(-2) if interleaved else torch.cat([angles, angles], -1)

        def turned(x: Tensor, by: Tensor) -> Tensor:
            first, second = (x[..., 0:4:2], x[..., 1:4:2]) if interleaved else (x[..., 0:2], x[..., 2:4])
            both = torch.polar(torch.ones_like(by), by) * torch.complex(first, second)
            pair = (both.real, both.imag)
            return torch.cat(
                [torch.stack(pair, -1).flatten(-2) if interleaved else torch.cat(pair, -1), x[..., 4:]], -1
            )

        x = leaf(whole, dtype)
        y = apply_rotary_pos_emb(x, freqs, "sbhd", interleaved=interleaved, fused=True)
        y.backward(dy.to(dtype))
        judge.close("rotated", y, turned(whole, angles), dtype)
        judge.close("gradient of rotated", x.grad, turned(dy, -angles), dtype)
        ends = torch.tensor([0, 8, 16]).int()
        own = torch.tensor(tokens_of(group.rank, group.size, [8, 8]))
        packed = {"cu_seqlens": ends, "cp_size": group.size, "cp_rank": group.rank}
        y = apply_rotary_pos_emb(whole[own, 0].to(dtype), freqs, "thd", interleaved=interleaved, fused=True, **packed)
        judge.close("rotated, packed", y, turned(whole[own, 0], angles[own % 8].squeeze(1)), dtype)


def optimizers(judge: Judge, group: Group, dtype: torch.dtype) -> None:
    for is_decoupled in (True, False):
        x, wanted = leaf(drawn(81, 7), dtype), drawn(81, 7)
        optimizer = FusedAdam([x], lr=0.01, betas=(0.8, 0.9), eps=EPS, weight_decay=0.1, adam_w_mode=is_decoupled)
        gradients = [drawn(82 + step, 7) for step in range(3)]
        for step, gradient in enumerate(gradients, 1):
            x.grad = gradient.to(dtype)
            optimizer.step()
            if is_decoupled:
                mean = sum(0.2 * 0.8 ** (step - n) * one for n, one in enumerate(gradients[:step], 1)) / (1 - 0.8**step)
                square = sum(0.1 * 0.9 ** (step - n) * one**2 for n, one in enumerate(gradients[:step], 1)) / (
                    1 - 0.9**step
                )
                wanted = wanted - 0.01 * (mean / (square**0.5 + EPS) + 0.1 * wanted)
                judge.close("step of FusedAdam", x, wanted, dtype)
        judge.true("step of a group", optimizer.param_groups[0]["step"] == 3)
    if dtype == torch.float64:
        norm, _ = multi_tensor_applier(
            multi_tensor_l2norm, None, [[torch.full([3], 2.0), torch.full([2, 2], 1.0)]], False
        )
        judge.close("norm of tensors", norm, torch.tensor([4.0], dtype=torch.float64), dtype)


def random_states(judge: Judge, group: Group, dtype: torch.dtype) -> None:
    tracker = CudaRNGStatesTracker()
    torch.manual_seed(1)
    tracker.add("mine", 5)
    drawn_inside = []
    for _ in range(2):
        with tracker.fork("mine"):
            drawn_inside.append(torch.rand(3, device="cuda"))
    outside = torch.rand(3, device="cuda")
    generator = torch.Generator().manual_seed(5)
    judge.true(
        "states inside",
        torch.equal(torch.cat(drawn_inside), torch.cat([torch.rand(3, generator=generator) for _ in range(2)])),
    )
    judge.true("state outside", torch.equal(outside, torch.rand(3, generator=torch.Generator().manual_seed(1))))


def refusals(judge: Judge, group: Group, dtype: torch.dtype) -> None:
    for name, make in (
        ("fp8_autocast", lambda: te.fp8_autocast(enabled=True).__enter__()),
        ("ub_overlap_ag", lambda: te.Linear(2, 2, ub_overlap_ag=True)),
        ("delay_wgrad_compute", lambda: te.GroupedLinear(2, 2, 2, delay_wgrad_compute=True)),
        ("softmax_type", lambda: te.DotProductAttention(2, 2, softmax_type="sparse")),
        ("layer_type", lambda: te.TransformerLayer(2, 2, 2, layer_type="decoder")),
        (
            "cp_comm_type",
            lambda: an_attention(judge, group, dtype, "unknown", Case()) if group.size > 1 else te.checkpoint(None),
        ),
    ):
        try:
            make()
            said = "nothing"
        except NotImplementedError as refusal:
            said = str(refusal)
        judge.true(f"refusal of {name}", "Transformer Engine" in said)


FAMILIES: Dict[str, Callable[[Judge, Group, torch.dtype], None]] = {
    "norms": norms,
    "linears": linears,
    "grouped": grouped,
    "attentions": attentions,
    "transformer_layers": transformer_layers,
    "cross_entropies": cross_entropies,
    "rotations": rotations,
    "optimizers": optimizers,
    "random_states": random_states,
    "refusals": refusals,
    "permutations": permutations,
    "routers": routers,
    "sequences": sequences,
}


def contiguous(length: int, rank: int, size: int) -> Tensor:
    return torch.arange(length // size) + rank * (length // size)


def rolled(to_tokens: Any) -> Any:
    return lambda x, group: to_tokens(x, group).roll(1, 2)


def without_sum(x: Tensor, group: Any) -> Tensor:
    return x.chunk(dist.get_world_size(group))[dist.get_rank(group)]


def forgetful(fork: Any) -> Any:
    def forked(self: Any, name: str) -> Any:
        self.states_[name] = torch.Generator().manual_seed(5).get_state()
        return fork(self, name)

    return forked


DEFECTS: Dict[str, Tuple[str, str, str, Callable[[Any], Any]]] = {  # family, module, name, and what is put in its place
    "plain_gamma": ("norms", "norms", "normalized", lambda f: lambda x, w, b, eps, _: f(x, w, b, eps, False)),
    "no_sum_of_rows": ("linears", "linear", "all_reduced", lambda f: lambda x, group: x),
    "no_sum_of_tokens": ("linears", "linear", "reduce_scattered", lambda f: without_sum),
    "other_experts": (
        "grouped",
        "grouped_linear",
        "GroupedLinear.forward",
        lambda f: lambda self, x, m: f(self, x, m[::-1]),
    ),
    "unscaled_merge": ("attentions", "context", "merged", lambda f: lambda o, s, o2, s2: (o + o2, f(o, s, o2, s2)[1])),
    "other_chunks": ("attentions", "places", "_chunks", lambda f: contiguous),
    "no_dot": ("attentions", "context", "gradients", lambda f: lambda *a: f(*a[:-1], torch.zeros_like(a[-1]))),
    "other_heads": ("attentions", "context", "_to_tokens", rolled),
    "no_sum_of_keys": ("attentions", "context", "reduce_scattered", lambda f: without_sum),
    "one_sequence": ("attentions", "places", "hidden", lambda f: lambda q, k, w: f(q._replace(sequences=None), k, w)),
    "all_kept": (
        "attentions",
        "context",
        "gradients",
        lambda f: lambda *a: f(*a[:3], a[3]._replace(kept=None), *a[4:]),
    ),
    "no_sink": ("attentions", "context", "merged", lambda f: lambda o, s, p, t: (o, s) if not p.any() else f(o, s, p, t)),
    "keys_for_values": (
        "transformer_layers",
        "transformer_layer",
        "MultiheadAttention._parts",
        lambda f: lambda self, mixed: [f(self, mixed)[place] for place in (0, 2, 1)],
    ),
    "without_input": (
        "transformer_layers",
        "transformer_layer",
        "TransformerLayer._added",
        lambda f: lambda self, x, made: f(self, x, made) - x,
    ),
    "own_logits": (
        "cross_entropies",
        "cross_entropy",
        "gathered",
        lambda f: lambda x, group: x.repeat(dist.get_world_size(group), 1),
    ),
    "turned_back": ("rotations", "rope", "_turned", lambda f: lambda x, interleaved: -f(x, interleaved)),
    "no_correction": (
        "optimizers",
        "optimizers",
        "FusedAdam._update",
        lambda f: lambda self, p, g: f(self, p, {**g, "bias_correction": False}),
    ),
    "same_numbers": ("random_states", "random_states", "CudaRNGStatesTracker.fork", forgetful),
    "order_of_tokens": ("permutations", "permutation", "_rows_of", lambda f: lambda m, n: m.nonzero().t()),
    "equal_chances": ("permutations", "permutation", "_taken_probs", lambda f: lambda p, rows: f(p, rows) * 0 + 1),
    "all_groups": ("routers", "router", "_chosen", lambda f: lambda scores, topk, *_: f(scores, topk, None, None)),
    "any_sum": ("routers", "router", "_normalized", lambda f: lambda scores: scores),
    "no_sum_behind": ("sequences", "ops", "ReduceScatter._there", lambda f: without_sum),
    "plain_gelu": ("sequences", "ops", "GELU._function", lambda f: torch.nn.functional.gelu),
    "no_refusal": ("refusals", "layer", "refuse", lambda f: lambda *a, **k: None),
}


def plant(name: str) -> Callable[[], None]:
    """Puts a defect into the stand-in, and returns what takes it out."""
    _, module, place, make = DEFECTS[name]
    holder: Any = importlib.import_module("shardproof.transformer_engine." + module)
    *outer, last = place.split(".")
    for part in outer:
        holder = getattr(holder, part)
    kept = getattr(holder, last)
    setattr(holder, last, make(kept))
    return lambda: setattr(holder, last, kept)


def judged(groups: List[Group], families: List[str]) -> Tuple[float, str, int]:
    """Returns the worst slack of all ranks, what has it, and how many results were compared."""
    judge = Judge()
    for group in groups:
        for dtype in DTYPES if len(groups) > 1 and group.size == 2 else DTYPES[:1]:
            for family in families:
                FAMILIES[family](judge, group, dtype)
    slacks: List[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(slacks, judge.worst)
    return (*max(slacks), judge.count)


def all_groups() -> List[Group]:
    rank = dist.get_rank()
    alone, pairs, strides = (
        [dist.new_group(ranks) for ranks in parts]
        for parts in ([[0], [1], [2], [3]], [[0, 1], [2, 3]], [[0, 2], [1, 3]])
    )
    pair, stride = pairs[rank // 2], strides[rank % 2]
    return [
        Group(1, 0, alone[rank], None),
        Group(2, rank % 2, pair, None),
        Group(4, rank, dist.group.WORLD, [pair, stride]),
    ]


def main() -> None:
    dist.init_process_group("nccl")
    words, groups = sys.argv[1:], all_groups()
    if words != ["defects"]:
        for word in words:
            plant(word)
        slack, name, count = judged(groups, list(FAMILIES))
        if slack > 1:
            raise AssertionError(f"{slack:.2g} times the bound: {name}")
        if dist.get_rank() == 0:
            print(f"{count} results; the worst has {slack:.2g} of its bound: {name}", flush=True)
        return
    for word, (family, *_) in DEFECTS.items():
        take_out = plant(word)
        slack, name, _ = judged(groups[1:2], [family])
        take_out()
        if slack <= 1:
            raise AssertionError(f"the defect {word} is not found: {slack:.2g} of the bound")


if __name__ == "__main__":
    main()
