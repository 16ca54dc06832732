"""What a training over Megatron computes, by the names of Megatron's checkpoints, which are the same on every layout:
the loss of a step, the parameters that it begins with, their gradients, the norm, and what the optimizer keeps.

Calls   install() once in a rank's process, before the program imports Megatron. Models are found when they are given to
        Megatron's DistributedDataParallel, and a step ends with the step of Megatron's optimizer.
Shapes  a gradient is `main_grad` when the optimizer begins. Of a ZeRO-1 buffer it is the part that the rank owns.
        States of the optimizer (states.py) are those after its step, of the same part. One of them is `main_param`:
        what the optimizer updates, if it is a copy of the parameter or in f64. So a twin in f64 has it, too.
Errors  NotServed where the program makes a model of FSDP.
"""

import functools
import importlib
import sys
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Sequence, Tuple

import torch

from . import states, values
from .after_import import after_import
from .threads import NotServed
from .values import Block, Keep

_SCHEDULES = (
    "forward_backward_no_pipelining",
    "forward_backward_pipelining_with_interleaving",
    "forward_backward_pipelining_without_interleaving",
)
_SHARDED = (
    "megatron.core.distributed.torch_fully_sharded_data_parallel",
    "megatron.core.distributed.fsdp.mcore_fsdp_adapter",
)


class _View(NamedTuple):
    """A parameter or a buffer, or a part of it that has a name of its own, such as a half of a gated layer."""

    parameter: torch.Tensor
    begin: int  # elements of the parameter before it
    block: Block

    def of(self, flat: torch.Tensor) -> torch.Tensor:
        """Returns its elements among all of the parameter's."""
        return flat.reshape(-1)[self.begin : self.begin + self.size]

    @property
    def size(self) -> int:
        return functools.reduce(lambda x, y: x * y, self.block.shape, 1)


def _tensors_of(states: Any) -> Iterator[Any]:
    """Returns the sharded tensors of a nested state. Its sharded objects, such as states of FP8, are none."""
    if hasattr(states, "prepend_axis_num"):
        yield states
    elif hasattr(states, "build_fn"):
        yield from _tensors_of(states.build())
    elif isinstance(states, (dict, list, tuple)):
        for state in states.values() if isinstance(states, dict) else states:
            yield from _tensors_of(state)


def _states_of(module: Any) -> Any:
    """Returns the states of a model as its checkpoint has them. Megatron refuses to write some models as a whole, for
    example tied embeddings with multi-token prediction on a later stage. Their modules can be written."""
    try:
        return module.sharded_state_dict()
    except Exception:
        kind = importlib.import_module("megatron.core.transformer.module").MegatronModule
        return kind.sharded_state_dict(module)


def _views_of(module: Any) -> List[_View]:
    """Returns the parameters of a model as Megatron names and places them in checkpoints, and its buffers that are there,
    too, such as the bias of experts."""
    begins = {tensor.data_ptr(): tensor for tensor in (*module.parameters(), *module.buffers()) if tensor.numel() > 0}
    views = []
    for state in _tensors_of(_states_of(module)):
        data = state.data
        if not isinstance(data, torch.Tensor) or not data.is_contiguous() or state.flattened_range is not None:
            continue
        address = data.data_ptr()
        for first, parameter in begins.items():
            before = (address - first) // parameter.element_size()
            if 0 <= before and before + data.numel() <= parameter.numel():
                stacked = state.prepend_axis_num  # axes of layers and experts, of which it is one
                which = "".join(f"[{place}]" for place in state.global_offset[:stacked])
                whole, offset = state.global_shape[stacked:], state.global_offset[stacked:]
                views.append(_View(parameter, before, Block(state.key + which, whole, offset, list(data.shape))))
                break
    return views


def _owned(model: Any) -> Dict[torch.Tensor, Tuple[int, int]]:
    """Returns which elements of a gradient this rank owns, for parameters in buffers of ZeRO-1."""
    owned = {}
    for buffer in [*getattr(model, "buffers", ()), *getattr(model, "expert_parallel_buffers", ())]:
        if not buffer.ddp_config.use_distributed_optimizer:
            continue
        group = buffer.data_parallel_group
        for bucket in buffer.buckets:
            shard = bucket.grad_data.numel() // group.size()
            for parameter in bucket.params:
                begin = (parameter.main_grad.data_ptr() - bucket.grad_data.data_ptr()) // bucket.grad_data.element_size()
                first = group.rank() * shard - begin
                owned[parameter] = (max(0, first), min(parameter.numel(), first + shard))
    return owned


def _optimizers_of_torch(optimizer: Any) -> Iterator[Any]:
    """Returns the optimizers that one of Megatron calls. Some stages have none."""
    chained = getattr(optimizer, "chained_optimizers", None)
    if chained is not None:
        for one in chained:
            yield from _optimizers_of_torch(one)
    elif getattr(optimizer, "optimizer", None) is not None:
        yield optimizer.optimizer


class _Updated(NamedTuple):
    """A tensor that an optimizer updates: a parameter, the part of it that this rank owns, or a copy of either."""

    optimizer: Any
    tensor: torch.Tensor

    def states(self, has_copy: bool) -> Iterator[Tuple[str, Any]]:
        yield from states.of(self.optimizer, self.tensor)
        if has_copy or self.tensor.dtype == torch.float64:
            yield "main_param", self.tensor.detach()


def _updated(optimizer: Any) -> Dict[int, _Updated]:
    """Returns the tensors that optimizers update, by their addresses."""
    return {
        tensor.data_ptr(): _Updated(of_torch, tensor)
        for of_torch in _optimizers_of_torch(optimizer)
        for group in getattr(of_torch, "param_groups", ())
        for tensor in group["params"]
        if isinstance(tensor, torch.Tensor) and tensor.numel() > 0
    }


class _Training:
    """The models of a program, and the step that it is in."""

    def __init__(self, keep: Keep, draws: bool) -> None:
        self._keep = keep
        self._draws = draws
        self._models: List[Tuple[Any, List[_View]]] = []
        self._step = 0
        self._depth = 0  # of optimizers that call others

    def has_models(self) -> bool:
        return bool(self._models)

    def add(self, model: Any, module: Any) -> None:
        views = _views_of(module)
        for name, parameter in module.named_parameters():
            if sum(view.size for view in views if view.parameter is parameter) < parameter.numel():
                self._publish("left out", Block(name, [0], [0], [0]), torch.empty(0))
        if self._draws:
            with torch.no_grad():
                for view in views:
                    if not isinstance(view.parameter, torch.nn.Parameter):
                        continue
                    axes = view.parameter.dim()
                    part = view.of(view.parameter.detach())
                    part.copy_(values.drawn(view.block, part.view(list(view.block.shape)), axes).reshape(-1))
        self._models.append((model, views))

    def _publish(self, kind: str, block: Block, elements: torch.Tensor, begin: int = 0) -> None:
        values.publish(self._keep, kind, self._step, block, elements, begin)

    def end_forward(self, losses: Any) -> None:
        """Publishes the losses of the last stage. Those of other microbatches are with other ranks."""
        if self._step >= values.STEPS or not isinstance(losses, list):
            return
        state = sys.modules["megatron.core.parallel_state"]
        rank, size = (f(with_context_parallel=True) for f in (state.get_data_parallel_rank, state.get_data_parallel_world_size))
        for name, parts in values.sums(losses).items():
            self._publish("loss", Block(name, [size, 2], [rank, 0], [1, 2]), torch.tensor(parts, dtype=torch.float64))

    def _parts(self) -> Iterator[Tuple[_View, int, int]]:
        """Returns views, and the first and the end of the elements of their parameter that this rank owns."""
        for model, views in self._models:
            owned = _owned(model)
            for view in views:
                yield (view, *owned.get(view.parameter, (0, view.parameter.numel())))

    def _publish_part(self, kind: str, view: _View, block: Block, elements: torch.Tensor, first: int) -> None:
        """Publishes those elements of a view that are among some of its parameter's."""
        begin, end = max(first, view.begin), min(first + elements.numel(), view.begin + view.size)
        if begin < end:
            self._publish(kind, block, elements.reshape(-1)[begin - first : end - first], begin - view.begin)

    def _begin_step(self) -> None:
        for view, first, end in self._parts():
            self._publish("parameter", view.block, view.of(view.parameter.detach()))
            gradient = getattr(view.parameter, "main_grad", None)
            gradient = view.parameter.grad if gradient is None else gradient
            if gradient is not None and first < end:
                self._publish_part("gradient", view, view.block, gradient.reshape(-1)[first:end], first)

    def _end_step(self, optimizer: Any) -> None:
        """Publishes the states of optimizers. Those whose tensors are not found are told as left out."""
        updated, left_out = _updated(optimizer), {}
        every = [each.optimizer for each in updated.values()]
        unknown = {id(of_torch): of_torch for of_torch in every if getattr(of_torch, "state", None)}
        for view, first, end in self._parts():
            copy = getattr(view.parameter, "main_param", None)
            begin = view.parameter.data_ptr() + first * view.parameter.element_size()
            found = updated.get(begin if copy is None else copy.data_ptr())
            if found is None or found.tensor.numel() != end - first:
                continue
            unknown.pop(id(found.optimizer), None)
            for name, state in found.states(copy is not None):
                if state is None:
                    left_out[name] = found.optimizer
                else:
                    block = view.block._replace(name=states.name_of(name, view.block.name))
                    self._publish_part("state", view, block, state, first)
        for name, of_torch in [*left_out.items(), *(("states", each) for each in unknown.values())]:
            self._publish("left out", states.left_out(name, of_torch), torch.empty(0))

    def step(self, optimizer: Any, step: Callable[..., Any], arguments: Any, named: Any) -> Any:
        """Makes a step of the outermost optimizer."""
        if self._depth > 0 or self._step >= values.STEPS:
            return step(optimizer, *arguments, **named)
        self._begin_step()
        self._depth += 1
        try:
            made = step(optimizer, *arguments, **named)
        finally:
            self._depth -= 1
        if isinstance(made, tuple) and len(made) > 1 and made[1] is not None:
            norm = torch.as_tensor(made[1], dtype=torch.float64).reshape(1)
            self._publish("norm", Block("norm of the gradients", [1], [0], [1]), norm)
        self._end_step(optimizer)
        self._step += 1
        return made


def _change_models(module: Any, training: _Training) -> None:
    kind = module.DistributedDataParallel
    init = kind.__init__

    @functools.wraps(init)
    def init_and_add(self: Any, config: Any, ddp_config: Any, module: Any, *arguments: Any, **named: Any) -> None:
        training.add(self, module)
        init(self, config, ddp_config, module, *arguments, **named)

    setattr(kind, "__init__", init_and_add)


def _refuse_sharded_models(module: Any) -> None:
    """Refuses the models of FSDP: where the shards lie that they make of parameters is not known."""
    for name, kind in vars(module).items():
        if name.endswith("FullyShardedDataParallel") and kind.__module__ == module.__name__:

            def refuse(*_: Any, kind: Any = kind, **__: Any) -> None:
                raise NotServed(f"{kind.__name__} of Megatron, whose values cannot be compared with those of other layouts")

            setattr(kind, "__init__", refuse)


def _kinds_of(kind: type) -> Iterator[type]:
    yield kind
    for below in kind.__subclasses__():
        yield from _kinds_of(below)


def _change_optimizers(_: Any, training: _Training) -> None:
    for kind in set(_kinds_of(importlib.import_module("megatron.core.optimizer.optimizer").MegatronOptimizer)):
        of_kind = vars(kind).get("step")
        if of_kind is None:
            continue

        @functools.wraps(of_kind)
        def step(self: Any, *arguments: Any, of_kind: Any = of_kind, **named: Any) -> Any:
            return training.step(self, of_kind, arguments, named)

        setattr(kind, "step", step)


def _change_schedules(module: Any, training: _Training) -> None:
    for name in _SCHEDULES:
        of_megatron = getattr(module, name)

        @functools.wraps(of_megatron)
        def schedule(*arguments: Any, of_megatron: Any = of_megatron, **named: Any) -> Any:
            losses = of_megatron(*arguments, **named)
            if not named.get("forward_only"):
                training.end_forward(losses)
            return losses

        setattr(module, name, schedule)


def install(keep: Keep, draws: bool) -> Callable[[], bool]:
    """Has what a training computes told. `draws`: its weights are drawn from their names first.

    Returns what says whether there is a model of Megatron.
    """
    training = _Training(keep, draws)
    changes: Sequence[Tuple[str, Callable[[Any, _Training], None]]] = (
        ("megatron.core.distributed.distributed_data_parallel", _change_models),
        ("megatron.core.optimizer", _change_optimizers),
        ("megatron.core.pipeline_parallel.schedules", _change_schedules),
    )
    for name, change in changes:
        after_import(name, functools.partial(change, training=training))
    for name in _SHARDED:
        after_import(name, _refuse_sharded_models)
    return training.has_models
