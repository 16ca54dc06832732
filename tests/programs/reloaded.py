"""Has a training of pretrain.py go on from a checkpoint after its first step, and mistakes in that. mistakes.py plants
them.

Shapes  the word --reload of mistakes.py installs it. The run of one rank writes the checkpoint into the folder that the
        variable MISTAKES_FOLDER names; every other layout reads it, in place of what it has computed itself. So what a
        layout has not loaded is not what one rank has.
"""

import importlib
import os
from typing import Any, Dict, List

import torch
from planting import Mistake, on


def _forget_states(optimizer: Any) -> None:
    for states in optimizer.optimizer.state.values():
        for state in states.values():
            if torch.is_tensor(state) and state.dim() > 0:
                state.zero_()


def _forget(model: Any, optimizer: Any) -> None:
    """Loses all that a checkpoint has to bring back."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
        for one in getattr(optimizer, "chained_optimizers", [optimizer]):
            _forget_states(one)


def _without_wrappers(model: Any) -> Any:
    return _without_wrappers(model.module) if hasattr(model, "module") else model


def _reload(model: Any, optimizer: Any) -> None:
    checkpoints = importlib.import_module("megatron.core.dist_checkpointing")
    folder = os.environ["MISTAKES_FOLDER"]
    of_model = model.sharded_state_dict()
    if torch.distributed.get_world_size() == 1 and not os.listdir(folder):
        checkpoints.save({"model": of_model, "optimizer": optimizer.sharded_state_dict(of_model)}, folder)
        return
    _forget(model, optimizer)
    wanted = {"model": of_model, "optimizer": optimizer.sharded_state_dict(of_model, is_loading=True)}
    loaded = checkpoints.load(wanted, folder)
    model.load_state_dict(loaded["model"])
    optimizer.load_state_dict(loaded["optimizer"])


def install() -> None:
    training = importlib.import_module("megatron.training.training")
    of_megatron, steps = training.train_step, []

    def step_and_reload(forward_step: Any, data: Any, model: Any, optimizer: Any, *arguments: Any, **named: Any) -> Any:
        made = of_megatron(forward_step, data, model, optimizer, *arguments, **named)
        steps.append(made)
        if len(steps) == 1:
            _reload(_without_wrappers(model[0]), optimizer)
        return made

    training.train_step = step_and_reload


def _tensors(states: Any) -> List[Any]:
    if hasattr(states, "prepend_axis_num"):
        return [states]
    children = states.values() if isinstance(states, dict) else states if isinstance(states, list) else ()
    return [tensor for child in children for tensor in _tensors(child)]


def keys_of_stages(load: Any) -> Any:
    """Counts layers in each stage from 0, so that a later stage loads those of the first."""

    def loaded(states: Any, *arguments: Any, **named: Any) -> Any:
        layers = [tensor for tensor in _tensors(states) if tensor.prepend_axis_num == 1]
        first = min((tensor.global_offset[0] for tensor in layers), default=0)
        for tensor in layers:
            tensor.global_offset = (tensor.global_offset[0] - first, *tensor.global_offset[1:])
        return load(states, *arguments, **{**named, "validate_access_integrity": False})

    return loaded


def without_states(load: Any) -> Any:
    """Leaves the states of an optimizer as they were, although those of the checkpoint are read in their place."""

    def loaded(self: Any, *arguments: Any, **named: Any) -> None:
        load(self, *arguments, **named)
        _forget_states(self)

    return loaded


def exchanged_groups(filtered: Any) -> Any:
    """Gives groups of parameters what other groups have saved, such as their weight decay."""

    def exchanged(current: Any, saved: Any) -> Any:
        groups = filtered(current, saved)
        others: List[Dict[str, Any]] = [dict(group) for group in reversed(groups)]
        return [{**other, "params": group["params"]} for group, other in zip(groups, others)]

    return exchanged


RELOADED = "--reload"
WRONG_CHECKPOINTS: Dict[str, Mistake] = {
    "keys_of_stages": Mistake(
        "pp2",
        "before step 1",
        "it is ",
        on("dist_checkpointing", "load", keys_of_stages),
        "MLM#7452",
        "checkpoint counts layers per stage",
        program=RELOADED,
    ),
    "moments_not_loaded": Mistake(
        "tp2",
        "after step 1",
        "",
        on("optimizer.optimizer", "FP32Optimizer.load_state_dict", without_states),
        "ISEEKYAN#104",
        "states of the optimizer are not loaded",
        program=RELOADED,
    ),
    "exchanged_groups": Mistake(
        "tp2",
        "after step 1",
        "",
        on("optimizer.optimizer", "MegatronOptimizer._filter_and_reorder_param_groups", exchanged_groups),
        "MLM 1505db4cc4",
        "groups of parameters loaded for others",
        program=RELOADED,
    ),
}
