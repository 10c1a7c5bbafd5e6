"""Files of ELMo with random weights, for the tests of whatever reads them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import h5py
import numpy as np

SIZES = {"chars": 3, "filters": [[1, 3], [2, 4]], "dim": 6, "width": 5, "layers": 2, "highway": 1}


def make_options(**changes: Any) -> dict[str, Any]:
    sizes = {**SIZES, **changes}
    return {
        "lstm": {
            "dim": sizes["dim"],
            "projection_dim": sizes["width"],
            "n_layers": sizes["layers"],
            "cell_clip": 3,
            "proj_clip": 3,
            "use_skip_connections": True,
        },
        "char_cnn": {
            "embedding": {"dim": sizes["chars"]},
            "filters": sizes["filters"],
            "n_highway": sizes["highway"],
            "n_characters": 262,
            "max_characters_per_token": 20,
            "activation": "relu",
        },
    }


def make_arrays(n_rows: int = 261, **changes: Any) -> dict[str, np.ndarray]:
    sizes = {**SIZES, **changes}
    random = np.random.default_rng(0)
    dim, width, features = sizes["dim"], sizes["width"], sum(n for _, n in sizes["filters"])
    shapes: dict[str, tuple[int, ...]] = {"char_embed": (n_rows, sizes["chars"])}
    for i, (w, n) in enumerate(sizes["filters"]):
        shapes |= {f"CNN/W_cnn_{i}": (1, w, sizes["chars"], n), f"CNN/b_cnn_{i}": (n,)}
    for k in range(sizes["highway"]):
        for part in ("carry", "transform"):
            shapes[f"CNN_high_{k}/W_{part}"] = (features, features)
            shapes[f"CNN_high_{k}/b_{part}"] = (features,)
    if features != width:
        shapes |= {"CNN_proj/W_proj": (features, width), "CNN_proj/b_proj": (width,)}
    for d, layer in np.ndindex(2, sizes["layers"]):
        cell = f"RNN_{d}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"
        shapes |= {f"{cell}/W_0": (2 * width, 4 * dim), f"{cell}/B": (4 * dim,)}
        if width < dim:
            shapes[f"{cell}/W_P_0"] = (dim, width)
    return {name: random.normal(size=s).astype("float32") for name, s in shapes.items()}


def write(folder: Path, options: Any, arrays: dict[str, np.ndarray]) -> tuple[Path, Path]:
    paths = folder / "options.json", folder / "weights.hdf5"
    paths[0].write_text(options if isinstance(options, str) else json.dumps(options), "utf8")
    with h5py.File(paths[1], "w") as file:
        for name, array in arrays.items():
            file[name] = array
    return paths
