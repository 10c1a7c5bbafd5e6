"""From the memory of the processor to that of a GPU, without waiting for it.

A copy out of ordinary memory ends when the GPU has done all that it was told before. Out of
page-locked memory it is one more thing to do, and the processor prepares the next meanwhile.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


def placed_on(values: NDArray[Any] | Tensor, device: torch.device) -> Tensor:
    """`values` as a tensor on `device`; itself, or on the memory of the array, if it is there."""
    tensor = torch.from_numpy(values) if isinstance(values, np.ndarray) else values
    if device.type != "cuda" or tensor.device.type != "cpu":
        return tensor.to(device)
    return tensor.pin_memory().to(device, non_blocking=True)
