"""The array signatures that everything else uses, named once."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

IntArray: TypeAlias = NDArray[np.int64]
FloatArray: TypeAlias = NDArray[np.float32]

# Arrays of the device that a Thinc model runs on, numpy's or CuPy's. Thinc's own types for them
# declare few of their operations, so to a type checker these names are documentation.
Floats1d: TypeAlias = Any
Floats2d: TypeAlias = Any
Floats3d: TypeAlias = Any
