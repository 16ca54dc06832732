"""GroupedLinear: a linear layer for each of several groups of rows, such as those of experts.

Shapes  x [rows, in], of which the first m_splits[0] rows are of group 0, and so on.
"""

from typing import Any, List, Optional

import torch

from .layer import WithWeights
from .linear import Product, How, in_autocast
from .parallel import Tensor


class GroupedLinear(WithWeights):
    """Linear layers without calls: the program divides their rows and sums their results itself."""

    def __init__(self, num_gemms: int, in_features: int, out_features: int, *arguments: Any, **named: Any) -> None:
        super().__init__(num_gemms, in_features, out_features, *arguments, **named)
        self.num_gemms = num_gemms

    def forward(self, inp: Tensor, m_splits: List[int], is_first_microbatch: Optional[bool] = None) -> Any:
        sizes = [int(size) for size in m_splits]
        if len(sizes) != self.num_gemms or sum(sizes) != inp.reshape(-1, inp.shape[-1]).shape[0]:
            raise ValueError(
                f"m_splits is {sizes}: it has to have {self.num_gemms} parts of the rows of {list(inp.shape)}"
            )
        results, biases = [], []
        for group, rows in enumerate(torch.split(inp.reshape(-1, inp.shape[-1]), sizes)):
            of_group = getattr(self, f"weight{group}")
            rows, weight, bias = in_autocast(rows, of_group, getattr(self, f"bias{group}") if self.use_bias else None)
            adds = self.fuse_wgrad_accumulation and hasattr(of_group, "main_grad")
            how = How(None, None, False, adds)
            results.append(Product.apply(rows, of_group if adds else weight, bias if self.apply_bias else None, how))
            biases.append(bias)
        y = torch.cat(results).reshape(*inp.shape[:-1], self.out_features)
        return (y, biases) if self.return_bias else y
