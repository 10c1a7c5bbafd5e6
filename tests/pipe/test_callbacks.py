"""Gradual unfreezing: by component name and by "*", all layers or top-down."""

from __future__ import annotations

import pytest
from toys import encoder_weights, examples, trained

from spacy_ctxvec.errors import CtxvecError
from spacy_ctxvec.pipe.callbacks import gradual_unfreezing_v1


@pytest.mark.parametrize("key", ["ctxvec", "*"])
def test_the_encoder_starts_to_learn_at_its_step(key):
    nlp, optimizer = trained(frozen=True)
    callback = gradual_unfreezing_v1({key: 2})
    changes = []
    for step in range(4):
        callback(nlp, {"step": step, "epoch": 0})
        before = encoder_weights(nlp)
        nlp.update(examples(nlp), sgd=optimizer)
        changes.append(bool((encoder_weights(nlp) != before).any()))
    assert changes == [False, False, True, True]


def test_a_name_goes_before_the_star():
    nlp, _ = trained(frozen=True)
    gradual_unfreezing_v1({"*": 0, "ctxvec": 5})(nlp, {"step": 1, "epoch": 0})
    assert nlp.get_pipe("ctxvec").frozen


def test_layers_learn_from_the_top_down():
    nlp, optimizer = trained(frozen=True)
    module = nlp.get_pipe("ctxvec").model.shims[0].module
    callback = gradual_unfreezing_v1({"*": 1}, layer_steps=1)
    learned = []
    for step in range(5):
        callback(nlp, {"step": step, "epoch": 0})
        before = {name: p.detach().clone() for name, p in module.named_parameters()}
        nlp.update(examples(nlp), sgd=optimizer)
        names = {name for name, p in module.named_parameters() if (p != before[name]).any()}
        learned.append(sorted({kind for kind in ("lstms.1", "lstms.0", "char")
                               if any(kind in name for name in names)}))  # fmt: skip
    assert learned[:2] == [[], ["lstms.1"]]
    assert learned[2] == ["lstms.0", "lstms.1"]
    assert learned[3] == learned[4] == ["char", "lstms.0", "lstms.1"]


def test_an_unknown_component_is_named():
    nlp, _ = trained()
    with pytest.raises(CtxvecError, match=r"names 'transformer'.*It has: ctxvec"):
        gradual_unfreezing_v1({"transformer": 5})(nlp, {"step": 0, "epoch": 0})
