"""A transformer behind the same listeners: saved, frozen, tuned, sent to other processes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import spacy
import torch
from printing import printed
from safetensors.torch import load_file, save_file
from spacy.cli._util import app
from spacy.cli.train import train
from spacy.language import Language
from spacy.tokens import DocBin
from thinc.util import fix_random_seed
from toys import ODD_TEXTS, component_model, encoder_weights, examples, layers_of, listener, mix_of
from transformer_files import write_bert
from typer.testing import CliRunner

from spacy_ctxvec.cli.opening import open_pipeline, pipeline_around
from spacy_ctxvec.errors import CtxvecError
from spacy_ctxvec.formats.detect import load_model
from spacy_ctxvec.formats.native import load_native, save_native
from spacy_ctxvec.formats.transformer import is_transformer
from spacy_ctxvec.formats.variants import fitted
from spacy_ctxvec.layers.scalar_mix import layer_weights

pytest.importorskip("transformers", reason="needs the package transformers")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(0)
    return write_bert(tmp_path_factory.mktemp("bert"))


def trained(folder: Path, steps: int = 4, **config) -> Language:
    """A tagger and a NER that listen to a transformer, after some updates."""
    fix_random_seed(0)
    nlp = pipeline_around(load_model(folder))
    for name, value in config.items():
        setattr(nlp.get_pipe("ctxvec"), name, value)
    for component in ("tagger", "ner"):
        model = component_model(component, listener(width=8))
        nlp.add_pipe(component, config={"model": model})
    optimizer = nlp.initialize(lambda: examples(nlp))
    optimizer.learn_rate = 0.01
    for _ in range(steps):
        nlp.update(examples(nlp), sgd=optimizer)
    return nlp


def test_a_row_for_every_token_of_any_text(folder: Path) -> None:
    nlp = pipeline_around(load_model(folder))
    texts = [*ODD_TEXTS, "unseen " * 300]
    together = [layers_of(doc) for doc in nlp.pipe(texts)]
    for text, layers in zip(texts, together):
        doc = nlp(text)
        assert layers.shape == (len(doc), 3, 8) and np.isfinite(layers).all()
        np.testing.assert_allclose(layers_of(doc), layers, atol=1e-5)
        assert not layers[[token.is_space for token in doc]].any()


def test_every_task_learns_a_mix_of_its_own(folder: Path) -> None:
    nlp = trained(folder)
    weights = [layer_weights(mix_of(nlp, name)) for name in ("tagger", "ner")]
    assert all(len(shares) == 3 and shares.sum() == pytest.approx(1) for shares in weights)
    assert np.abs(weights[0] - weights[1]).max() > 1e-3
    frozen = trained(folder, steps=0)
    assert torch.equal(encoder_weights(nlp), encoder_weights(frozen))


def test_it_can_be_tuned(folder: Path) -> None:
    before, after = trained(folder, steps=0), trained(folder, frozen=False)
    changed = (encoder_weights(before) != encoder_weights(after)).float().mean()
    assert changed > 0.5


@pytest.mark.parametrize("way", ["disk", "bytes", "processes", "replaced", "native"])
def test_the_same_after_every_kind_of_transport(folder: Path, way: str, tmp_path: Path) -> None:
    nlp = trained(folder, frozen=False)
    texts = ["The bank is old .", "", "An unseen a bank"]
    expected = [layers_of(doc) for doc in nlp.pipe(texts)]
    tags = [[token.tag_ for token in doc] for doc in nlp.pipe(texts)]
    if way == "processes":
        found = list(nlp.pipe(texts, n_process=2))
    elif way == "bytes":
        data = nlp.to_bytes()
        found = list(trained(folder, steps=0).from_bytes(data).pipe(texts))
    elif way == "native":
        save_native(load_model(folder), tmp_path / "native")
        config = load_native(tmp_path / "native").config
        assert config == load_model(folder).config
        one, other = (open_pipeline(str(p))(texts[0]) for p in (folder, tmp_path / "native"))
        np.testing.assert_array_equal(layers_of(one), layers_of(other))
        return
    else:
        if way == "replaced":
            nlp.replace_listeners("ctxvec", "tagger", ["model.tok2vec"])
        nlp.to_disk(tmp_path / "saved")
        found = list(spacy.load(tmp_path / "saved").pipe(texts))
    assert [[token.tag_ for token in doc] for doc in found] == tags
    for doc, layers in zip(found, expected):
        np.testing.assert_allclose(layers_of(doc), layers, atol=1e-6)


def test_a_config_that_trains(folder: Path, tmp_path: Path) -> None:
    """With what `init-config` writes; a folder that is read is not changed."""
    before = sorted((path.name, path.stat().st_mtime_ns) for path in folder.iterdir())
    config = tmp_path / "my.cfg"
    arguments = ["--lang", "en", "--pipeline", "tagger", "--optimize", "accuracy", "--cpu"]
    command = ["ctxvec", "init-config", str(config), *arguments, "--encoder", str(folder)]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, printed(result)
    docs = [example.reference for example in examples(spacy.blank("en"))]
    DocBin(docs=docs).to_disk(tmp_path / "docs.spacy")
    data = str(tmp_path / "docs.spacy")
    budget = {"training.max_steps": 4, "training.eval_frequency": 2}
    train(config, tmp_path / "out", overrides={"paths.train": data, "paths.dev": data, **budget})
    found = spacy.load(tmp_path / "out" / "model-last")
    assert found("The bank").tensor.shape == (2, 8)
    assert sorted((path.name, path.stat().st_mtime_ns) for path in folder.iterdir()) == before
    saved = (tmp_path / "out" / "model-last" / "ctxvec" / "model").read_bytes()
    assert str(folder).encode() not in saved


def test_a_folder_without_a_fast_tokenizer(folder: Path, tmp_path: Path) -> None:
    for name in ("config.json", "model.safetensors"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    with pytest.raises(CtxvecError, match=r"tokenizer\.json"):
        load_model(tmp_path)
    (tmp_path / "tokenizer.json").write_bytes((folder / "tokenizer.json").read_bytes())
    (tmp_path / "model.safetensors").write_bytes(b"nothing")
    with pytest.raises(CtxvecError, match="transformers can open"):
        load_model(tmp_path)


def test_a_copy_in_the_packages_own_format_checks_itself(folder: Path, tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["ctxvec", "convert", str(folder), str(tmp_path / "native")])
    assert result.exit_code == 0, printed(result)
    assert (tmp_path / "native" / "model.safetensors").is_file()
    info = CliRunner().invoke(app, ["ctxvec", "info", str(tmp_path / "native")])
    assert info.exit_code == 0 and "parameters" in printed(info)
    refused = CliRunner().invoke(app, ["ctxvec", "benchmark", str(tmp_path / "native")])
    assert refused.exit_code == 1 and "transformer" in printed(refused)


def test_missing_weights_and_other_settings_are_named(folder: Path, tmp_path: Path) -> None:
    for path in folder.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    weights = load_file(tmp_path / "model.safetensors")
    (name,) = [name for name in weights if name.endswith("layer.1.output.dense.weight")]
    missing = {key: value for key, value in weights.items() if key != name}
    save_file(missing, tmp_path / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(CtxvecError, match=r"layer\.1\.output\.dense\.weight"):
        load_model(tmp_path)
    model = load_model(folder)
    other = replace(model.config, settings={**model.config.settings, "num_attention_heads": 4})
    with pytest.raises(CtxvecError, match=r"settings\.num_attention_heads = 2"):
        fitted(model, other)


def test_a_file_beside_a_transformer_is_not_taken_for_it(folder: Path, tmp_path: Path) -> None:
    assert is_transformer(folder) and is_transformer(folder / "model.safetensors")
    (tmp_path / "config.json").write_bytes((folder / "config.json").read_bytes())
    (tmp_path / "other.pth").write_bytes(b"nothing")
    assert not is_transformer(tmp_path / "other.pth")
