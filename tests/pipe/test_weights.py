"""Which weights, when: loaded ones, the loader's, the shipped model, random ones, in that order."""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np
import pytest
import spacy
from toys import TINY, blank_with_encoder, encoder_weights, examples, pipeline, trained

from spacy_ctxvec import assets
from spacy_ctxvec.errors import CtxvecError
from spacy_ctxvec.formats.native import EncoderModel, save_native
from spacy_ctxvec.layers.encoder import shim_of
from spacy_ctxvec.nn.bilm import BiLM, BiLMConfig
from spacy_ctxvec.pipe.callbacks import load_model_v1
from spacy_ctxvec.pipe.encoder_config import encoder_block

CONFIG = BiLMConfig(**{key: value for key, value in TINY.items() if key != "init"})


@pytest.fixture
def native(tmp_path) -> Path:
    model = EncoderModel(CONFIG, BiLM(CONFIG).state_dict(), {"name": "toy", "lang": "en"})
    save_native(model, tmp_path / "native")
    return tmp_path / "native"


def loader_config(path: Path) -> dict:
    return {"@misc": "spacy-ctxvec.load_model.v1", "path": str(path)}


def source(nlp) -> str:
    return shim_of(nlp.get_pipe("ctxvec").model).source


def test_add_pipe_alone_means_the_shipped_model_frozen_and_lazily():
    nlp = spacy.blank("en")
    pipe = nlp.add_pipe("ctxvec")
    assert pipe.frozen
    assert not source(nlp)
    assert nlp("bank")[0].has_vector
    assert source(nlp) == "en_sm"


def test_the_loader_of_the_initialize_block(native):
    nlp = pipeline()
    nlp.config["initialize"]["components"]["ctxvec"] = {"loader": loader_config(native)}
    nlp.initialize(lambda: examples(nlp))
    assert source(nlp) == "toy"


def test_the_loader_of_a_pipeline_that_was_saved_before_it_had_weights(native, tmp_path):
    nlp = pipeline()
    nlp.config["initialize"]["components"]["ctxvec"] = {"loader": loader_config(native)}
    nlp.to_disk(tmp_path / "saved")
    again = spacy.load(tmp_path / "saved")
    again.initialize(lambda: examples(again))
    assert source(again) == "toy"


def test_the_loader_reads_nothing_before_the_component_runs_it(tmp_path):
    load = load_model_v1(tmp_path / "absent")
    with pytest.raises(CtxvecError, match="absent"):
        load()


def test_initialize_keeps_loaded_weights(tmp_path, native):
    nlp, _ = trained()
    nlp.to_disk(tmp_path / "saved")
    loaded = spacy.load(tmp_path / "saved")
    before = encoder_weights(loaded)
    loaded.config["initialize"]["components"]["ctxvec"] = {"loader": loader_config(native)}
    loaded.initialize(lambda: examples(loaded))
    assert (encoder_weights(loaded) == before).all()


def test_the_loader_goes_before_a_shipped_model_that_was_used_already(native):
    sizes = encoder_block(CONFIG)
    nlp = spacy.blank("en")
    nlp.add_pipe("ctxvec", config={"model": sizes})
    shim = shim_of(nlp.get_pipe("ctxvec").model)
    shim.adopt("en_sm", None)  # as the lazy first use would
    nlp.config["initialize"]["components"]["ctxvec"] = {"loader": loader_config(native)}
    nlp.initialize()
    assert source(nlp) == "toy"


def test_loading_a_pipeline_never_touches_the_shipped_model(tmp_path, monkeypatch):
    nlp, _ = trained()
    nlp.to_disk(tmp_path / "saved")

    def refuse(name: str) -> None:
        raise AssertionError(f"read {name}")

    monkeypatch.setattr("spacy_ctxvec.layers.encoder.shipped_model", refuse)
    loaded = spacy.load(tmp_path / "saved")
    assert loaded("Alice met Bob")[0].has_vector


def test_a_pipeline_saved_unused_carries_the_shipped_weights(tmp_path, monkeypatch):
    nlp = spacy.blank("en")
    nlp.add_pipe("ctxvec")
    nlp.to_disk(tmp_path / "saved")
    expected = nlp("A river bank")[2].vector
    monkeypatch.setattr(assets, "FOLDER", tmp_path / "no assets")
    assets.shipped_model.cache_clear()
    loaded = spacy.load(tmp_path / "saved")
    np.testing.assert_array_equal(loaded("A river bank")[2].vector, expected)
    assets.shipped_model.cache_clear()


def test_random_and_never_initialised_is_an_error():
    nlp = blank_with_encoder()
    with pytest.raises(CtxvecError, match="has no weights"):
        nlp("text")


def test_other_sizes_than_those_of_the_shipped_model():
    nlp = spacy.blank("en")
    nlp.add_pipe("ctxvec", config={"model": {"hidden_width": 300}})
    with pytest.raises(CtxvecError, match=r"does not fit the encoder of 'ctxvec'.*shape"):
        nlp("text")


def test_other_sizes_than_those_of_the_loaded_model(native):
    nlp = pipeline(model={"hidden_width": 12})
    nlp.config["initialize"]["components"]["ctxvec"] = {"loader": loader_config(native)}
    with pytest.raises(CtxvecError, match="settings ask for"):
        nlp.initialize(lambda: examples(nlp))


def test_weights_of_another_language_are_a_warning(caplog, native):
    logging.getLogger("spacy").propagate = True
    nlp = blank_with_encoder(lang="de")
    shim = shim_of(nlp.get_pipe("ctxvec").model)
    shim.adopt("toy", load_model_v1(native)())
    for _ in range(2):
        nlp("ein Wort")
    assert sum('trained on language "en"' in record.message for record in caplog.records) == 1


def test_a_saved_pipeline_is_safe_and_whole(tmp_path):
    """Nothing in it is a pickle, and it gives the same rows when loaded."""
    nlp, _ = trained()
    nlp.to_disk(tmp_path / "saved")
    for path in (tmp_path / "saved" / "ctxvec").iterdir():
        if path.is_file():
            data = path.read_bytes()
            assert not data.startswith(b"\x80") or path.name == "model"
            assert b"torch" not in data and b"cbuiltins" not in data
    loaded = spacy.load(tmp_path / "saved")
    text = "Alice met Bob"
    np.testing.assert_array_equal(loaded(text)._.ctxvec.layers, nlp(text)._.ctxvec.layers)
    assert [t.tag_ for t in loaded(text)] == [t.tag_ for t in nlp(text)]
