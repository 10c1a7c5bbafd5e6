"""Facts of models, pipelines and the machine."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from toys import blank_with_encoder, examples, mix_of, trained

from spacy_ctxvec.analysis.facts import (
    file_facts,
    gpu_in_words,
    machine_facts,
    model_facts,
    pipeline_facts,
)
from spacy_ctxvec.formats.native import EncoderModel
from spacy_ctxvec.layers.scalar_mix import describe
from spacy_ctxvec.nn.bilm import BiLM, BiLMConfig


def test_a_model_counts_its_parameters_without_its_statistics(tiny_config: BiLMConfig) -> None:
    module = BiLM(tiny_config)
    facts = model_facts(EncoderModel(tiny_config, module.state_dict(), {"lang": "sv"}))
    assert facts["n_parameters"] == sum(p.numel() for p in module.parameters())
    assert facts["sizes"]["width"] == tiny_config.width
    assert facts["lang"] == "sv"


def test_a_pipeline_tells_the_layer_weights_of_each_listener() -> None:
    nlp, _ = trained(("tagger", "ner"))
    facts = json.loads(json.dumps(pipeline_facts(nlp)))
    listeners = facts["encoders"]["ctxvec"]["listeners"]
    assert list(listeners) == ["tagger", "ner"]
    assert listeners["ner"]["weights"] == describe(mix_of(nlp, "ner"))["weights"]
    assert facts["encoders"]["ctxvec"]["model"]["source"] == "random"
    assert facts["own_encoders"] == {}


def test_replaced_listeners_are_told_too() -> None:
    nlp, _ = trained(("tagger",))
    nlp.replace_listeners("ctxvec", "tagger", ["model.tok2vec"])
    facts = pipeline_facts(nlp)
    assert facts["encoders"]["ctxvec"]["listeners"] == {}
    assert len(facts["own_encoders"]["tagger"]["weights"]) == 3


def test_a_pipeline_without_listeners() -> None:
    nlp = blank_with_encoder(output="top")
    nlp.initialize(lambda: examples(nlp))
    facts = pipeline_facts(nlp)
    assert facts["encoders"]["ctxvec"]["settings"]["output"] == "top"
    assert facts["encoders"]["ctxvec"]["listeners"] == {}


def test_file_and_machine(tmp_path: Path) -> None:
    (tmp_path / "w").write_bytes(b"abc")
    facts = file_facts(tmp_path / "w")
    assert facts["bytes"] == 3
    assert facts["sha256"].startswith("ba7816bf")
    machine = machine_facts()
    assert machine["torch"].startswith(torch.__version__.split("+")[0])
    assert gpu_in_words()
