"""FusedAdam, FusedSGD and the functions on lists of tensors.

Exact   a step of Adam has the operations of torch.optim.AdamW (adam_w_mode) and torch.optim.Adam, in their order, in
        the dtype of the parameters. The number of steps is in the group of parameters: `step`.
"""

from typing import Any, Callable, List, Optional, Tuple

import torch

from .parallel import Tensor, refuse

_CHUNK = 2048 * 32  # elements; no function here looks at it


class FusedAdam(torch.optim.Optimizer):
    """Adam, with weight decay that is decoupled from the gradient or added to it."""

    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        bias_correction: bool = True,
        betas: Tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        adam_w_mode: bool = True,
        weight_decay: float = 0.0,
        amsgrad: bool = False,
        *,
        capturable: bool = False,
        master_weights: bool = False,
        master_weight_dtype: Any = None,
        exp_avg_dtype: Any = None,
        exp_avg_sq_dtype: Any = None,
        use_decoupled_grad: bool = False,
        store_param_remainders: bool = False,
        set_grad_none: Optional[bool] = None,
    ) -> None:
        refuse("FusedAdam", amsgrad=amsgrad, capturable=capturable, master_weights=master_weights)
        refuse("FusedAdam", use_decoupled_grad=use_decoupled_grad)
        self._state_dtypes = {"exp_avg": exp_avg_dtype, "exp_avg_sq": exp_avg_sq_dtype}
        self.adam_w_mode = adam_w_mode
        chosen = {
            "lr": lr,
            "bias_correction": bias_correction,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
        }
        super().__init__(params, chosen)

    def initialize_state(self, param: Tensor, store_param_remainders: bool = False) -> None:
        for name, dtype in self._state_dtypes.items():
            refuse("FusedAdam", **{name + "_dtype": None if dtype in (None, param.dtype) else dtype})
            self.state[param][name] = torch.zeros_like(param)

    @torch.no_grad()
    def step(self, closure: Optional[Callable[[], Any]] = None) -> Any:
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            if group["params"]:
                group["step"] = group.get("step", 0) + 1
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self._update(parameter, group)
        return loss

    def _update(self, parameter: Any, group: Any) -> None:
        if not self.state[parameter]:
            self.initialize_state(parameter)
        (beta1, beta2), decay, gradient = group["betas"], group["weight_decay"], parameter.grad
        mean, square = (self.state[parameter][name] for name in ("exp_avg", "exp_avg_sq"))
        if decay != 0.0 and self.adam_w_mode:
            parameter.mul_(1 - group["lr"] * decay)
        elif decay != 0.0:
            gradient = gradient.add(parameter, alpha=decay)
        mean.lerp_(gradient, 1 - beta1)
        square.mul_(beta2).addcmul_(gradient, gradient, value=1 - beta2)
        steps = group["step"]
        first, second = (1 - beta1**steps, 1 - beta2**steps) if group["bias_correction"] else (1.0, 1.0)
        parameter.addcdiv_(mean, (square.sqrt() / second**0.5).add_(group["eps"]), value=-(group["lr"] / first))


class FusedSGD(torch.optim.SGD):
    """SGD, which is that of torch."""

    def __init__(self, params: Any, lr: Any = 1e-3, **named: Any) -> None:
        refuse("FusedSGD", wd_after_momentum=named.pop("wd_after_momentum", None))
        for name in ("materialize_master_grads", "set_grad_none"):  # they change no number
            named.pop(name, None)
        super().__init__(params, lr=lr, **named)


def multi_tensor_applier(op: Callable[..., Any], noop_flag: Any, lists: List[List[Tensor]], *arguments: Any) -> Any:
    return op(_CHUNK, noop_flag, lists, *arguments)


def multi_tensor_l2norm(chunk_size: int, noop_flag: Any, lists: List[List[Tensor]], per_tensor: bool = False) -> Any:
    """Returns the norm of all tensors together, and those of each if they are asked for."""
    norms = [torch.norm(tensor) for tensor in lists[0]]
    each = torch.stack(norms) if norms else torch.zeros(0)
    return torch.norm(each).reshape(1).to(torch.float), each if per_tensor else None


def multi_tensor_scale(chunk_size: int, noop_flag: Any, lists: List[List[Tensor]], scale: Any) -> None:
    """Writes the tensors of the first list, times a factor, to those of the second."""
    for source, target in zip(*lists):
        target.copy_(source * scale)


multi_tensor_scale_tensor = multi_tensor_scale
