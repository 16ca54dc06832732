"""The modules of the stand-in, by the names of Transformer Engine: what each of them has.

Exact   the version is one of which Megatron 0.19.2 asks for nothing that is not here.
"""

from typing import Any, Dict

from . import not_played, ops, permutation, router
from .attention import DotProductAttention
from .cross_entropy import parallel_cross_entropy
from .grouped_linear import GroupedLinear
from .layer import Layer
from .linear import LayerNormLinear, Linear
from .norms import LayerNorm, RMSNorm
from .optimizers import (
    FusedAdam,
    FusedSGD,
    multi_tensor_applier,
    multi_tensor_l2norm,
    multi_tensor_scale,
    multi_tensor_scale_tensor,
)
from .random_states import CudaRNGStatesTracker, get_all_rng_states
from .rope import apply_rotary_pos_emb
from .transformer_layer import LayerNormMLP, MultiheadAttention, TransformerLayer

VERSION = "2.13.0"


def _named(*things: Any) -> Dict[str, Any]:
    return {thing.__name__: thing for thing in things}


def _classes(names: str) -> Dict[str, Any]:
    return {name: not_played.refused_class(name) for name in names.split()}


def _functions(names: str) -> Dict[str, Any]:
    return {name: not_played.refused(name) for name in names.split()}


def _contexts(names: str) -> Dict[str, Any]:
    return {name: not_played.quantized(name) for name in names.split()}


def _public(module: Any) -> Dict[str, Any]:
    """Returns what a module of the stand-in defines."""
    own = {name: value for name, value in vars(module).items() if not name.startswith("_")}
    return {name: value for name, value in own.items() if getattr(value, "__module__", "") == module.__name__}


_RECIPES = "DelayedScaling Float8CurrentScaling Float8BlockScaling MXFP8BlockScaling NVFP4BlockScaling"
_OF_8_BITS = "fp8 mxfp8 fp8_block_scaling nvfp4".split()
_OF_FP8 = {
    **_contexts("fp8_autocast fp8_model_init autocast quantized_model_init"),
    **_named(not_played.FP8GlobalStateManager),
    **{f"check_{kind}_support": not_played.has_no_fp8 for kind in _OF_8_BITS},
    **{f"is_{kind}_available": not_played.is_not_available for kind in _OF_8_BITS},
}
_BASE = {
    "TransformerEngineBaseModule": Layer,
    **_named(not_played.get_dummy_wgrad),
    **_functions("initialize_ub destroy_ub"),
}
_LAYERS = _named(Linear, LayerNormLinear, LayerNormMLP, GroupedLinear, LayerNorm, RMSNorm)
_P = "transformer_engine.pytorch"

MODULES: Dict[str, Dict[str, Any]] = {
    "transformer_engine": {"__version__": VERSION},
    "transformer_engine.common": {},
    "transformer_engine.common.recipe": {**_named(not_played.Format), **_classes("Recipe " + _RECIPES)},
    _P: {
        **_LAYERS,
        **_named(DotProductAttention, MultiheadAttention, TransformerLayer),
        **_OF_FP8,
        **_functions("checkpoint make_graphed_callables"),
    },
    _P + ".attention": _named(DotProductAttention, MultiheadAttention),
    _P + ".attention.rope": _named(apply_rotary_pos_emb),
    _P + ".cross_entropy": _named(parallel_cross_entropy),
    _P
    + ".distributed": {
        **_named(CudaRNGStatesTracker, get_all_rng_states, not_played.activation_recompute_forward),
        **_functions("checkpoint"),
        "is_fp8_activation_recompute_enabled": not_played.FP8GlobalStateManager.is_fp8_enabled,
        "in_fp8_activation_recompute_phase": not_played.FP8GlobalStateManager.is_fp8_enabled,
    },
    _P + ".fp8": _OF_FP8,
    _P + ".module": _LAYERS,
    _P + ".module.base": _BASE,
    _P + ".ops": _public(ops),
    _P
    + ".optimizers": _named(
        FusedAdam,
        FusedSGD,
        multi_tensor_applier,
        multi_tensor_l2norm,
        multi_tensor_scale,
    ),
    _P + ".permutation": _public(permutation),
    _P + ".router": _public(router),
    _P + ".tensor": _named(not_played.QuantizedTensor),
}
MODULES[_P + ".optimizers"]["multi_tensor_scale_tensor"] = multi_tensor_scale_tensor
