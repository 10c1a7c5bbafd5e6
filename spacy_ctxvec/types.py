"""The array signatures that everything else uses, named once."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

IntArray: TypeAlias = NDArray[np.int64]
FloatArray: TypeAlias = NDArray[np.float32]
