"""Writes values.jsonl: what PyTorch computes, in float64 and with its own gradients, for each piece of verify/reference.

    python3 -m venv /tmp/torch && /tmp/torch/bin/pip install torch
    /tmp/torch/bin/python tests/torch/make_values.py

The first line says which PyTorch it was. Every further line is one setting of one piece:

    piece, setting  what was run
    inputs          tensors that the gradients are taken of, each [rows, columns, row by row]
    given           other tensors: `grad` is the gradient of the output, the rest are tables
    ids             tokens or targets
    values          the output, and grad_NAME for each input

Inputs are drawn by Python with a fixed seed and have three decimals, which keeps the file small. A rerun on the same machine
writes the same file; another processor may give other last digits, and these have to lie within the bounds of the test, too.
tests/verify/reference/torch_values_test.cpp reads the file.
"""

import json
import pathlib
import random

import torch
import torch.nn.functional as F

ACTIVATIONS = {
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "gelu_erf": lambda x: F.gelu(x, approximate="none"),
    "silu": F.silu,
}

torch.set_num_threads(1)
draw = random.Random(20261121)
lines = [{"torch": torch.__version__, "dtype": "float64"}]


def tensor(rows, columns):
    values = [round(draw.uniform(-2, 2), 3) for _ in range(rows * columns)]
    return torch.tensor(values, dtype=torch.float64).reshape(rows, columns)


def flat(x):
    return [*x.shape, *x.reshape(-1).tolist()]


def record(piece, setting, inputs, forward, given=None, ids=None):
    """Runs forward(**inputs), which gives a matrix, back from a drawn gradient, and keeps all of it as a line."""
    for x in inputs.values():
        x.requires_grad_()
    output = forward(**inputs)
    grad = tensor(*output.shape)
    gradients = torch.autograd.grad(output, list(inputs.values()), grad)
    values = {"output": output} | {"grad_" + name: g for name, g in zip(inputs, gradients)}
    lines.append({
        "piece": piece,
        "setting": setting,
        "inputs": {name: flat(x) for name, x in inputs.items()},
        "given": {name: flat(x) for name, x in ({"grad": grad} | (given or {})).items()},
        "ids": ids or [],
        "values": {name: flat(x) for name, x in values.items()},
    })


def row(x):
    """A vector is kept as a matrix of one row."""
    return None if x is None else x.reshape(-1)


def linear(tokens, hidden, outputs, biased):
    inputs = {"x": tensor(tokens, hidden), "weight": tensor(outputs, hidden)}
    if biased:
        inputs["bias"] = tensor(1, outputs)
    record("linear", {}, inputs, lambda x, weight, bias=None: F.linear(x, weight, row(bias)))


def embedding(rows, columns, ids):
    record("embedding", {}, {"table": tensor(rows, columns)}, lambda table: F.embedding(torch.tensor(ids), table), ids=ids)


def norm(is_layer_norm, tokens, hidden, biased, numerator, denominator):
    def forward(x, weight, bias=None):
        epsilon = numerator / denominator
        if is_layer_norm:
            return F.layer_norm(x, (hidden,), row(weight), row(bias), epsilon)
        return F.rms_norm(x, (hidden,), row(weight), epsilon)

    inputs = {"x": tensor(tokens, hidden), "weight": tensor(1, hidden)}
    if biased:
        inputs["bias"] = tensor(1, hidden)
    setting = {"layer_norm": is_layer_norm, "epsilon_numerator": numerator, "epsilon_denominator": denominator}
    record("norm", setting, inputs, forward)


def cross_entropy(vocabulary, padded, targets, ignored, numerator=0, denominator=1):
    def forward(logits):
        return F.cross_entropy(logits[:, :vocabulary], torch.tensor(targets), reduction="none", ignore_index=ignored,
                               label_smoothing=numerator / denominator).reshape(1, -1)

    setting = {"vocabulary": vocabulary, "ignored_id": ignored, "smoothing_numerator": numerator,
               "smoothing_denominator": denominator}
    record("cross_entropy", setting, {"logits": tensor(len(targets), padded)}, forward, ids=targets)


def attention(queries, keys, channels, causal):
    def forward(q, k, v):
        # With as many queries as keys, PyTorch's own causal mask is right. Otherwise the last query sees all
        # keys, which takes a mask.
        mask = torch.ones(queries, keys, dtype=torch.bool).tril(keys - queries) if causal and queries != keys else None
        heads = [x.reshape(1, 1, *x.shape) for x in (q, k, v)]
        return F.scaled_dot_product_attention(*heads, attn_mask=mask, is_causal=bool(causal) and mask is None)[0, 0]

    inputs = {"q": tensor(queries, channels), "k": tensor(keys, channels), "v": tensor(keys, channels)}
    record("attention", {"causal": causal}, inputs, forward)


def turns(positions, channels):
    """Of each position and pair of channels, a complex number on the unit circle."""
    frequencies = 100.0 ** (-torch.arange(0, channels, 2, dtype=torch.float64) / channels)
    angles = torch.outer(torch.arange(positions, dtype=torch.float64), frequencies)
    return torch.polar(torch.ones_like(angles), angles)


def turned(x, turn):
    """Channels i and i + d/2 are the real and the imaginary part of a number."""
    real, imaginary = x.chunk(2, dim=-1)
    product = torch.complex(real.contiguous(), imaginary.contiguous()) * turn
    return torch.cat((product.real, product.imag), dim=-1)


def rotation(positions, channels):
    turn = turns(positions, channels)
    record("rotation", {}, {"x": tensor(positions, channels)}, lambda x: turned(x, turn),
           given={"cosines": turn.real, "sines": turn.imag})


def self_attention(sequence, batch, hidden, heads, groups, channels, causal, rotary, biased):
    turn = turns(sequence, channels)

    def forward(x, qkv_weight, proj_weight, qkv_bias=None, proj_bias=None):
        mixed = F.linear(x, qkv_weight, row(qkv_bias)).reshape(sequence, batch, groups, heads // groups + 2, channels)
        q, k, v = (part.flatten(2, 3).permute(1, 2, 0, 3) for part in mixed.split((heads // groups, 1, 1), dim=3))
        if rotary:
            q, k = turned(q, turn), turned(k, turn)
        context = F.scaled_dot_product_attention(q, k, v, is_causal=bool(causal), enable_gqa=True)
        return F.linear(context.permute(2, 0, 1, 3).reshape(sequence * batch, -1), proj_weight, row(proj_bias))

    inputs = {"x": tensor(sequence * batch, hidden), "qkv_weight": tensor((heads + 2 * groups) * channels, hidden),
              "proj_weight": tensor(hidden, heads * channels)}
    if biased:
        inputs |= {"qkv_bias": tensor(1, (heads + 2 * groups) * channels), "proj_bias": tensor(1, hidden)}
    setting = {"sequence": sequence, "batch": batch, "heads": heads, "groups": groups, "channels": channels, "causal": causal}
    record("self_attention", setting, inputs, forward, given={"cosines": turn.real, "sines": turn.imag} if rotary else None)


def activation(function):
    # The inputs range from where all three functions are nearly 0 to where they are nearly x.
    x = torch.tensor([[round(0.75 * i + draw.uniform(-0.2, 0.2), 3) for i in range(-12, 13)]], dtype=torch.float64)
    record("activation", {"function": function}, {"x": x}, lambda x: ACTIVATIONS[function](x))


def mlp(function, gated, tokens, hidden, ffn, biased):
    def forward(x, fc1_weight, fc2_weight, fc1_bias=None, fc2_bias=None):
        inside = F.linear(x, fc1_weight, row(fc1_bias))
        gate, up = inside.chunk(2, dim=-1) if gated else (inside, 1)
        return F.linear(ACTIVATIONS[function](gate) * up, fc2_weight, row(fc2_bias))

    inside = 2 * ffn if gated else ffn
    inputs = {"x": tensor(tokens, hidden), "fc1_weight": tensor(inside, hidden), "fc2_weight": tensor(hidden, ffn)}
    if biased:
        inputs |= {"fc1_bias": tensor(1, inside), "fc2_bias": tensor(1, hidden)}
    record("mlp", {"function": function, "gated": gated}, inputs, forward)


linear(tokens=4, hidden=3, outputs=5, biased=1)
linear(tokens=2, hidden=16, outputs=3, biased=0)

embedding(rows=5, columns=3, ids=[1, 4, 1, 0, 1, 4])
embedding(rows=3, columns=4, ids=[2])

norm(is_layer_norm=1, tokens=4, hidden=5, biased=1, numerator=1, denominator=100000)
norm(is_layer_norm=1, tokens=3, hidden=6, biased=0, numerator=3, denominator=10)
norm(is_layer_norm=0, tokens=4, hidden=5, biased=0, numerator=1, denominator=100000)
norm(is_layer_norm=0, tokens=3, hidden=6, biased=0, numerator=3, denominator=10)

cross_entropy(vocabulary=5, padded=5, targets=[2, 0, 4], ignored=-100)
cross_entropy(vocabulary=4, padded=6, targets=[3, -1, 0], ignored=-1)
cross_entropy(vocabulary=5, padded=5, targets=[1, 4, 0], ignored=-100, numerator=1, denominator=10)
cross_entropy(vocabulary=4, padded=7, targets=[2, 1, 3, 0], ignored=1, numerator=3, denominator=7)

attention(queries=4, keys=4, channels=3, causal=0)
attention(queries=4, keys=4, channels=3, causal=1)
attention(queries=2, keys=5, channels=4, causal=0)
attention(queries=2, keys=5, channels=4, causal=1)

rotation(positions=4, channels=6)

self_attention(sequence=3, batch=2, hidden=3, heads=4, groups=2, channels=2, causal=1, rotary=0, biased=1)
self_attention(sequence=3, batch=2, hidden=3, heads=4, groups=2, channels=4, causal=1, rotary=1, biased=1)
self_attention(sequence=4, batch=1, hidden=4, heads=3, groups=1, channels=4, causal=0, rotary=1, biased=0)
self_attention(sequence=2, batch=2, hidden=3, heads=2, groups=2, channels=3, causal=0, rotary=0, biased=0)

for name in ACTIVATIONS:
    activation(name)
for name in ACTIVATIONS:
    mlp(name, gated=0, tokens=3, hidden=3, ffn=4, biased=1)
    mlp(name, gated=1, tokens=3, hidden=3, ffn=3, biased=0)
mlp("silu", gated=1, tokens=2, hidden=4, ffn=2, biased=1)

text = "".join(json.dumps(line) + "\n" for line in lines)
(pathlib.Path(__file__).parent / "values.jsonl").write_text(text)
