"""The mix against its formula, its gradients against finite differences, its learning."""

from __future__ import annotations

import numpy as np
import pytest
from thinc.api import Adam

from spacy_ctxvec.errors import CtxvecError
from spacy_ctxvec.layers import scalar_mix
from spacy_ctxvec.layers.scalar_mix import STEP, ScalarMix_v1, layer_weights, settle

N_TOKENS, N_LAYERS, WIDTH = 7, 3, 5


def layers(seed: int = 0) -> np.ndarray:
    random = np.random.default_rng(seed)
    scales = np.array([1.0, 0.3, 4.0])[:, None]
    return (random.normal(size=(N_TOKENS, N_LAYERS, WIDTH)) * scales + scales).astype("float32")


def settled(X: np.ndarray, **settings):
    model = ScalarMix_v1(**settings)
    settle(model, X.mean(axis=0), X.std(axis=0))
    return model


def set_weights(model, w) -> None:
    model.set_param("weights", (np.array(w) / STEP).astype("float32"))


def softmax(w: np.ndarray) -> np.ndarray:
    return np.exp(w) / np.exp(w).sum()


def test_raw_mix_is_the_formula_of_the_paper():
    X = layers()
    model = settled(X, standardize=False)
    w = np.array([0.1, 0.3, 0.5])
    set_weights(model, w)
    model.set_param("gamma", np.array([1.1], dtype="float32"))
    expected = 1.1 * np.tensordot(softmax(w), X, axes=(0, 1))
    np.testing.assert_allclose(model.predict(X), expected, rtol=1e-5, atol=1e-6)


def test_standardised_mix_weighs_layers_of_mean_0_and_deviation_1():
    X = layers()
    model = settled(X)
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    np.testing.assert_allclose(model.predict(X), Z.mean(axis=1), rtol=1e-4, atol=1e-5)


def test_layer_norm_is_over_a_whole_batch():
    X = layers()
    model = settled(X, layer_norm=True)
    Z = (X - X.mean(axis=(0, 2), keepdims=True)) / X.std(axis=(0, 2), keepdims=True)
    np.testing.assert_allclose(model.predict(X), Z.mean(axis=1), rtol=1e-4, atol=1e-5)
    assert model.predict(X[:0]).shape == (0, WIDTH)


def test_starts_at_the_mean_and_gamma_at_one():
    model = settled(layers())
    np.testing.assert_allclose(layer_weights(model), np.full(N_LAYERS, 1 / N_LAYERS), rtol=1e-6)
    assert scalar_mix.gamma(model) == 1.0


@pytest.mark.parametrize("way", [{}, {"standardize": False}, {"layer_norm": True}])
@pytest.mark.parametrize("l2", [0.0, 0.1])
def test_gradients_against_finite_differences(way: dict[str, bool], l2: float):
    X = layers().astype("float64")
    model = settled(X, **way, l2=l2)
    w = np.array([0.4, -0.2, 0.3])
    set_weights(model, w)
    for name in ("weights", "gamma", "mean", "deviation"):
        model.set_param(name, model.get_param(name).astype("float64"))
    direction = np.random.default_rng(1).normal(size=(N_TOKENS, WIDTH))

    def loss() -> float:
        penalty = l2 * ((STEP * model.get_param("weights")) ** 2).sum()
        return float((model.predict(X) * direction).sum() + penalty)

    _, backprop = model.begin_update(X)
    d_X = backprop(direction)
    for name in ("weights", "gamma"):
        numeric = finite_differences(loss, model.get_param(name))
        np.testing.assert_allclose(model.get_grad(name), numeric, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(d_X, finite_differences(loss, X), rtol=1e-5, atol=1e-6)


def finite_differences(loss, array: np.ndarray, step: float = 1e-5) -> np.ndarray:
    gradient = np.zeros_like(array)
    for place in np.ndindex(array.shape):
        before = array[place]
        array[place] = before + step
        above = loss()
        array[place] = before - step
        gradient[place] = (above - loss()) / (2 * step)
        array[place] = before
    return gradient


def test_weights_move_within_a_normal_training_run():
    """A layer that alone carries the signal gets most of the weight, at Adam's usual rate."""
    random = np.random.default_rng(0)
    X = random.normal(size=(200, N_LAYERS, WIDTH)).astype("float32")
    target = X[:, 1].copy()
    model = settled(X, standardize=False)
    optimizer = Adam(0.001)
    for _ in range(500):
        Y, backprop = model.begin_update(X)
        backprop((Y - target) / len(X))
        model.finish_update(optimizer)
    assert layer_weights(model)[1] > 0.9


def test_modes_and_fixed_weights():
    X = layers()
    top = settled(X, mode="top", standardize=False)
    np.testing.assert_allclose(top.predict(X), X[:, -1], rtol=1e-6)
    fixed = settled(X, weights=[-9e10, 1.0, -9e10], standardize=False)
    np.testing.assert_allclose(fixed.predict(X), X[:, 1], rtol=1e-6)
    for model in (top, fixed, settled(X, mode="mean")):
        before = layer_weights(model).copy()
        Y, backprop = model.begin_update(X)
        backprop(np.ones_like(Y))
        model.finish_update(Adam(0.1))
        np.testing.assert_array_equal(layer_weights(model), before)
        assert scalar_mix.gamma(model) != 1.0


def test_l2_draws_weights_to_the_mean():
    X = layers()
    model = settled(X, l2=10.0)
    set_weights(model, [2.0, 0.0, -1.0])
    for _ in range(300):
        Y, backprop = model.begin_update(X)
        backprop(np.zeros_like(Y))
        model.finish_update(Adam(0.01))
    assert np.ptp(layer_weights(model)) < 0.05


def test_layer_dropout_leaves_out_layers_while_training_only():
    X = layers()
    model = settled(X, layer_dropout=0.5, standardize=False)
    np.random.seed(0)
    seen = [model.begin_update(X)[0] for _ in range(30)]
    kept = {tuple(np.round(Y[0], 4)) for Y in seen}
    assert len(kept) > 3
    np.testing.assert_array_equal(model.predict(X), model.predict(X))
    assert all(np.isfinite(Y).all() for Y in seen)


def test_empty_input():
    X = layers()
    model = settled(X)
    Y, backprop = model.begin_update(X[:0])
    assert Y.shape == (0, WIDTH)
    assert backprop(Y).shape == (0, N_LAYERS, WIDTH)


def test_bad_settings_are_named():
    with pytest.raises(CtxvecError, match=r"layer_dropout = 1\.5"):
        ScalarMix_v1(layer_dropout=1.5)
    with pytest.raises(CtxvecError, match="fixed weights"):
        ScalarMix_v1(mode="top", weights=[1.0])
    with pytest.raises(CtxvecError, match="2 fixed weights, and the encoder has 3"):
        settled(layers(), weights=[1.0, 2.0])
