"""What a precision setting means on each device."""

from __future__ import annotations

import pytest
import torch

from spacy_ctxvec.errors import CtxvecError
from spacy_ctxvec.nn.precision import autocast, compute_dtype

CPU, GPU = torch.device("cpu"), torch.device("cuda")


@pytest.mark.parametrize("device", [CPU, GPU])
def test_a_type_that_is_asked_for(device):
    assert compute_dtype("float32", device) == torch.float32
    assert compute_dtype("bfloat16", device) == torch.bfloat16


@pytest.mark.parametrize("has_units", [False, True])
@pytest.mark.parametrize("device", [CPU, GPU])
def test_auto_is_what_the_hardware_multiplies(monkeypatch, device, has_units):
    """The other device has the opposite, so that it is not the one that is asked."""
    on_cpu = has_units if device == CPU else not has_units
    on_gpu = has_units if device == GPU else not has_units
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: on_cpu)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: on_gpu)
    want = torch.bfloat16 if has_units else torch.float32
    assert compute_dtype("auto", device) == want


def test_an_unknown_precision_is_named():
    with pytest.raises(CtxvecError, match=r"precision = float8 .*auto, float32, bfloat16"):
        compute_dtype("float8", CPU)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_products_in_that_type(dtype):
    x, weight = torch.randn(3, 4), torch.randn(4, 2)
    with autocast(CPU, dtype):
        assert (x @ weight).dtype == dtype
    assert (x @ weight).dtype == torch.float32
