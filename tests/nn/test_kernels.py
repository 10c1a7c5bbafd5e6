"""Weights in the forms that products want: exactness, bytes, and nothing stale."""

from __future__ import annotations

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from spacy_ctxvec.nn import kernels
from spacy_ctxvec.nn.kernels import (
    KeptKernels,
    can_lay_out,
    has_int8,
    int8_product,
    laid_out,
    laid_out_lstm,
    packed,
    turned,
)


def test_a_turned_matrix_is_the_transpose_in_memory_order():
    w = torch.randn(5, 3)
    assert torch.equal(turned(w), w.t()) and turned(w).is_contiguous()


def test_what_is_kept_is_made_once_and_again_after_every_change():
    kept, w = KeptKernels(), torch.nn.Parameter(torch.randn(5, 3))
    first = kept.get(turned, torch.float32, w)
    assert kept.get(turned, torch.float32, w) is first
    with torch.no_grad():
        w.mul_(2)
    assert torch.equal(kept.get(turned, torch.float32, w), w.t())
    assert kept.get(turned, torch.bfloat16, w).dtype == torch.bfloat16
    w.data = torch.randn(5, 3)
    assert torch.equal(kept.get(turned, torch.float32, w), w.t())
    other = torch.nn.Parameter(torch.randn(5, 3))
    assert torch.equal(kept.get(turned, torch.float32, other), other.t())


def test_nothing_is_kept_that_was_begun_before_a_change():
    kept, w = KeptKernels(), torch.ones(2)

    def made_while_another_thread_writes(weight):
        old = weight.clone()
        w.data.fill_(5)  # as a fused optimizer: the version stays the same
        kept.clear()
        return old

    kept.get(made_while_another_thread_writes, torch.float32, w)
    assert kept.get(torch.clone, torch.float32, w).tolist() == [5, 5]
    assert kept.get(made_while_another_thread_writes, torch.float32, w).tolist() == [5, 5]


@pytest.mark.skipif(not can_lay_out(torch.float32), reason="no such kernel in this PyTorch")
@pytest.mark.parametrize("n_steps, n_rows", [(1, 1), (7, 1), (5, 4)])
def test_laid_out_weights_make_the_same_lstm(n_steps, n_rows):
    lstm = torch.nn.LSTM(3, 6)
    w_ih, w_hh, *biases = lstm.parameters()
    x, h, c = torch.randn(n_steps, n_rows, 3), torch.randn(1, n_rows, 6), torch.randn(1, n_rows, 6)
    with torch.no_grad():
        want, (h_want, c_want) = lstm(x, (h, c))
        got = laid_out_lstm(x, laid_out(w_ih, w_hh), biases, h, c)
    for one, other in zip(got, (want, h_want, c_want)):
        torch.testing.assert_close(one, other, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("problem", [AttributeError, RuntimeError, TypeError])
def test_a_pytorch_without_that_kernel_is_noticed(monkeypatch, problem):
    def missing(*args):
        raise problem

    monkeypatch.setattr(kernels, "laid_out", missing)
    can_lay_out.cache_clear()
    assert not can_lay_out(torch.float32)
    can_lay_out.cache_clear()


@pytest.mark.parametrize("transport", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_copies_start_empty(transport):
    kept, w = KeptKernels(), torch.randn(5, 3)
    kept.get(packed, torch.float32, w)
    assert not transport(kept)._kept


@pytest.mark.skipif(not has_int8(torch.device("cpu")), reason="no int8 in this PyTorch")
@pytest.mark.parametrize("vnni", [None, False])
def test_products_of_bytes_are_near(monkeypatch, vnni):
    if vnni is False:
        monkeypatch.setattr(torch.cpu, "_is_vnni_supported", lambda: False)
    x, w = torch.randn(7, 64), torch.randn(33, 64)
    w[3] = 0  # a row without a scale
    engine = torch.backends.quantized.engine
    got, want = int8_product(x, packed(w)), x @ w.t()
    assert torch.backends.quantized.engine == engine
    assert (got - want).norm() / want.norm() < 0.03
    assert not got[:, 3].any()


@pytest.mark.skipif(not has_int8(torch.device("cpu")), reason="no int8 in this PyTorch")
def test_packing_on_several_threads_leaves_the_engine_of_the_process():
    engine = torch.backends.quantized.engine
    w = torch.randn(256, 256)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: packed(w), range(64)))
    assert torch.backends.quantized.engine == engine
