"""`spacy-ctxvec.ScalarMix.v1`: one vector a token from all layers, weighted as a task likes best.

    y(k) = gamma * sum_j s_j * x_j(k)        s = softmax(w)        (Peters et al. 2018, equation 1)

where x_j is layer j, standardised or raw. The gradients are written out below.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, cast

import numpy as np
from thinc.api import Model
from thinc.util import get_array_module

from .. import errors
from ..types import Floats1d, Floats2d, Floats3d
from .settings import Unsaved

Mix = Model[Floats3d, Floats2d]

# The optimizer moves a parameter by about its learning rate a step, and a mix that has to go from
# 0 to 3 to prefer a layer would need thousands of steps. So w = STEP * (the parameter).
STEP = 10.0
LAYER_NORM_EPSILON = 1e-12  # bilm-tf's


@dataclass
class MixSettings(Unsaved):
    """See `ScalarMix_v1`."""

    mode: Literal["learned", "mean", "top"]
    fixed: list[float] | None
    standardize: bool
    l2: float
    layer_dropout: float
    layer_norm: bool


def ScalarMix_v1(
    mode: Literal["learned", "mean", "top"] = "learned",
    weights: list[float] | None = None,
    standardize: bool = True,
    l2: float = 0.0,
    layer_dropout: float = 0.0,
    layer_norm: bool = False,
) -> Mix:
    """A weighted sum of layers with weights of its own. gamma is always learned.

    mode (str): "learned" weights, their plain "mean", or the "top" layer alone.
    weights (Optional[List[float]]): Fixed weights before the softmax, one a layer, in place of
        learned ones; very negative ones leave a layer out.
    standardize (bool): Give every number of every layer mean 0 and deviation 1, by statistics
        that come with the encoder and stay constant, so that weights of layers can be compared.
    l2 (float): Penalty on sum(w ** 2), which draws the weights towards the mean.
    layer_dropout (float): Probability with which a layer is left out of a training batch.
    layer_norm (bool): Standardise each layer as a whole, over all words of a batch, in place of
        `standardize`: the option `do_layer_norm` of bilm-tf. A word's vector then depends on the
        other words of its batch; it is there for parity alone.
    RETURNS (Model[Floats3d, Floats2d]): (n_tokens, n_layers, width) -> (n_tokens, width).
    """
    if not 0 <= layer_dropout < 1:
        raise errors.CtxvecError(errors.BAD_LAYER_DROPOUT.format(found=layer_dropout))
    if weights is not None and mode != "learned":
        raise errors.CtxvecError(errors.FIXED_WEIGHTS_AND_MODE.format(mode=mode))
    settings = MixSettings(
        mode, weights, standardize and not layer_norm, l2, layer_dropout, layer_norm
    )
    params: dict[str, Any] = {"weights": None, "gamma": None, "mean": None, "deviation": None}
    return Model(
        "ctxvec_mix", forward, dims={"nO": None}, params=params, attrs={"settings": settings}
    )


def settings_of(model: Mix) -> MixSettings:
    return model.attrs["settings"]


def settle(model: Mix, mean: Floats2d, deviation: Floats2d) -> None:
    """Give a mix its start values. mean, deviation (n_layers, width): statistics of the layers."""
    n_layers = len(mean)
    settings = settings_of(model)
    fixed = settings.fixed
    if fixed is not None and len(fixed) != n_layers:
        raise errors.CtxvecError(
            errors.FIXED_WEIGHTS_COUNT.format(found=len(fixed), expected=n_layers)
        )
    ops = model.ops
    start = np.zeros(n_layers) if fixed is None else np.array(fixed) / STEP
    if settings.mode == "top":
        start[:-1] = -np.inf
    if not settings.standardize:
        mean, deviation = np.zeros_like(mean), np.ones_like(deviation)
    model.set_param("weights", ops.asarray1f(start.tolist()))
    model.set_param("gamma", ops.asarray1f([1.0]))
    model.set_param("mean", ops.asarray2f(mean))
    # A number that never varies, such as one that always sits on its clip, is only shifted.
    deviation = np.where(deviation > 1e-4, deviation, 1.0).astype("float32")
    model.set_param("deviation", cast(Any, ops.asarray(deviation)))


def layer_weights(model: Mix) -> Floats1d:
    """softmax(w), (n_layers,): the share of each layer, as learned so far."""
    return _softmax(model, _pre_softmax(model))


def gamma(model: Mix) -> float:
    return float(model.get_param("gamma")[0])


def is_rowwise(model: Mix) -> bool:
    """Whether a word's vector is a function of its own layers alone."""
    return not settings_of(model).layer_norm


def is_settled(model: Mix) -> bool:
    return bool(model.has_param("weights"))


def forward(
    model: Mix, X: Floats3d, is_train: bool
) -> tuple[Floats2d, Callable[[Floats2d], Floats3d]]:
    """X (n_tokens, n_layers, width) -> (n_tokens, width)."""
    if settings_of(model).layer_norm and len(X):
        normed, back = _layer_norm(model, X)
        Y, backprop = _mix(model, normed, is_train)
        return Y, lambda dY: back(backprop(dY))
    return _mix(model, X, is_train)


def _mix(
    model: Mix, X: Floats3d, is_train: bool
) -> tuple[Floats2d, Callable[[Floats2d], Floats3d]]:
    w = _pre_softmax(model)
    if is_train and settings_of(model).layer_dropout:
        w = _drop_layers(model, w)
    s = _softmax(model, w)
    mean, deviation = model.get_param("mean"), model.get_param("deviation")
    # Standardising is folded into a scale and a shift, since X is the largest array here.
    scale = model.get_param("gamma") * s[:, None] / deviation
    Y = weighted_sum(X, scale)
    Y -= (scale * mean).sum(axis=0)
    return Y, partial(_backprop, model, X, s, scale)


def _layer_norm(model: Mix, X: Floats3d) -> tuple[Floats3d, Callable[[Floats3d], Floats3d]]:
    """Each layer with mean 0 and variance 1 over all its numbers (Ba et al. 2016, over a batch)."""
    deviation = model.ops.xp.sqrt(X.var(axis=(0, 2), keepdims=True) + LAYER_NORM_EPSILON)
    Z = (X - X.mean(axis=(0, 2), keepdims=True)) / deviation

    def backprop(dZ: Floats3d) -> Floats3d:
        of_mean = dZ.mean(axis=(0, 2), keepdims=True)
        of_deviation = (dZ * Z).mean(axis=(0, 2), keepdims=True)
        return (dZ - of_mean - Z * of_deviation) / deviation

    return Z, backprop


def weighted_sum(X: Floats3d, scale: Floats1d | Floats2d) -> Floats2d:
    """sum_j scale_j X_j: X (n_tokens, n_layers, width), scale (n_layers,) or (n_layers, width)."""
    subscripts = "kjd,j->kd" if scale.ndim == 1 else "kjd,jd->kd"
    return get_array_module(X).einsum(subscripts, X, scale)


def _backprop(model: Mix, X: Floats3d, s: Floats1d, scale: Floats2d, dY: Floats2d) -> Floats3d:
    """With c_j = sum over tokens and width of dY * x_j:

    d gamma = sum_j s_j c_j
    d w_j   = gamma s_j (c_j - sum_k s_k c_k)
    d X_j   = gamma s_j dY / deviation_j
    """
    xp = model.ops.xp
    mean, deviation = model.get_param("mean"), model.get_param("deviation")
    products = xp.stack([(dY * X[:, j]).sum(axis=0) for j in range(len(s))])
    c = ((products - mean * dY.sum(axis=0)) / deviation).sum(axis=1)
    mixed = (s * c).sum()
    model.inc_grad("gamma", mixed.reshape(1))
    if _learns_weights(model):
        d_w = model.get_param("gamma") * s * (c - mixed)
        d_w += 2 * settings_of(model).l2 * _pre_softmax(model)
        model.inc_grad("weights", (STEP * d_w).astype("float32"))
    return dY[:, None, :] * scale


def _learns_weights(model: Mix) -> bool:
    return settings_of(model).mode == "learned" and settings_of(model).fixed is None


def _pre_softmax(model: Mix) -> Floats1d:
    return STEP * model.get_param("weights")


def _softmax(model: Mix, w: Floats1d) -> Floats1d:
    exponentials = model.ops.xp.exp(w - w.max())
    return exponentials / exponentials.sum()


def _drop_layers(model: Mix, w: Floats1d) -> Floats1d:
    """Weights with some layers at minus infinity; at least one layer is kept."""
    dropped = np.random.random(len(w)) < settings_of(model).layer_dropout
    dropped[np.random.randint(len(w))] = False
    return model.ops.xp.where(model.ops.xp.asarray(dropped), -np.inf, w).astype("float32")


def describe(model: Mix) -> dict[str, Any]:
    """What a report shows of a mix: plain numbers."""
    return {"weights": [float(s) for s in layer_weights(model)], "gamma": gamma(model)}
