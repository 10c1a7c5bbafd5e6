"""Training and prediction on a GPU; skipped where there is none, or no CuPy."""

from __future__ import annotations

import numpy as np
import pytest
import spacy
import torch
from thinc.api import get_current_ops, prefer_gpu, set_current_ops
from thinc.compat import has_cupy
from toys import examples, trained

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(
        not (torch.cuda.is_available() and has_cupy),
        reason="no CUDA device, or CuPy is not installed",
    ),
]


@pytest.fixture(autouse=True)
def _on_gpu():
    before = get_current_ops()
    assert prefer_gpu()
    yield
    set_current_ops(before)


def test_trains_on_gpu_and_predicts_the_same_on_cpu(tmp_path):
    nlp, optimizer = trained()
    encoder = nlp.get_pipe("ctxvec").model.shims[0]
    assert encoder.device.type == "cuda"
    for _ in range(5):
        nlp.update(examples(nlp), sgd=optimizer)
    doc = nlp("Alice met Bob")
    assert isinstance(doc.user_data["ctxvec"]["ctxvec"]["layers"], np.ndarray)
    nlp.to_disk(tmp_path / "saved")
    from thinc.api import require_cpu

    require_cpu()
    again = spacy.load(tmp_path / "saved")("Alice met Bob")
    np.testing.assert_allclose(again._.ctxvec.layers, doc._.ctxvec.layers, atol=1e-4)
    assert [token.tag_ for token in again] == [token.tag_ for token in doc]


def test_workers_are_refused_with_the_reason():
    nlp, _ = trained()
    with pytest.raises(Exception, match="GPU"):
        list(nlp.pipe(["a b"] * 4, n_process=2))
