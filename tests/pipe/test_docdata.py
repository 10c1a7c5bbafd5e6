"""What users read: vectors, layers, similarity, and what survives which kind of transport."""

from __future__ import annotations

import subprocess
import sys
import warnings

import numpy as np
import pytest
import spacy
from spacy.tokens import Doc, DocBin
from toys import ODD_TEXTS, blank_with_encoder, examples, layers_of, listener, trained

import spacy_ctxvec
from spacy_ctxvec.errors import CtxvecError
from spacy_ctxvec.pipe import storage

TEXT = "She sat on the bank of the river near the bank ."


@pytest.fixture(scope="module")
def nlp():
    nlp = blank_with_encoder()
    nlp.initialize()
    return nlp


def with_settings(**config):
    nlp = blank_with_encoder(**config)
    nlp.initialize()
    return nlp


def test_layers_by_index_and_by_name(nlp):
    data = nlp(TEXT)._.ctxvec
    assert data.layers.shape == (12, 3, 16) and data.layers.dtype == np.float32
    np.testing.assert_array_equal(data.layer("top"), data.layers[:, 2])
    np.testing.assert_array_equal(data.layer("token"), data.layer(0))
    np.testing.assert_array_equal(data.layer(-2), data.layer(1))
    np.testing.assert_allclose(data.output, data.layers.mean(axis=1), atol=1e-6)
    for wrong in (3, -4, "middle"):
        with pytest.raises(CtxvecError, match='Expected: "token", "top" or 0 to 2'):
            data.layer(wrong)


def test_spans_and_tokens_are_slices(nlp):
    doc = nlp(TEXT)
    np.testing.assert_array_equal(doc[2:5]._.ctxvec.layers, doc._.ctxvec.layers[2:5])
    np.testing.assert_array_equal(doc[4]._.ctxvec.layers, doc._.ctxvec.layers[4:5])


def test_vectors_mean_what_users_mean(nlp):
    doc = nlp(TEXT)
    first, second = doc[4], doc[10]
    assert first.text == second.text == "bank"
    assert first.has_vector and first.vector_norm == pytest.approx(np.linalg.norm(first.vector))
    assert first.similarity(second) < 0.99999
    assert first.similarity(first) == pytest.approx(1)
    np.testing.assert_array_equal(doc.tensor, doc._.ctxvec.output)
    np.testing.assert_allclose(doc.vector, doc.tensor.mean(axis=0), atol=1e-6)
    np.testing.assert_allclose(doc[2:4].vector, doc.tensor[2:4].mean(axis=0), atol=1e-6)
    assert -1 <= doc.similarity(nlp("Something else")) <= 1


def test_the_vector_of_one_word_is_that_word_s(nlp):
    doc = nlp("bank")
    np.testing.assert_allclose(doc.vector, doc[0].vector, atol=1e-7)
    np.testing.assert_allclose(doc[0:1].vector, doc[0].vector, atol=1e-7)


def test_white_space_has_no_part_in_a_vector(nlp):
    doc = nlp("a  b")
    assert doc[1].is_space and not doc[1].has_vector and doc[1].similarity(doc[0]) == 0.0
    np.testing.assert_allclose(doc.vector, doc.tensor[[0, 2]].mean(axis=0), atol=1e-6)


@pytest.mark.parametrize("text", ODD_TEXTS)
def test_odd_texts(nlp, text):
    doc = nlp(text)
    assert doc._.ctxvec.layers.shape == (len(doc), 3, 16)
    assert doc.vector.shape == (16,)
    assert np.isfinite(doc.vector).all()


@pytest.mark.parametrize(
    ("output", "expected"),
    [("top", [0, 0, 1]), ([0.5, 0.25, 0.25], [0.5, 0.25, 0.25]), ("mean", [1 / 3] * 3)],
)
def test_output_settings(output, expected):
    doc = with_settings(output=output)(TEXT)
    mixed = np.tensordot(np.array(expected), layers_of(doc), axes=(0, 1))
    np.testing.assert_allclose(doc.tensor, mixed, atol=1e-6)


def test_a_wrong_output_setting_is_named():
    with pytest.raises(CtxvecError, match="3 numbers"):
        with_settings(output=[1.0, 2.0])


def round_trips():
    def by_bytes(nlp, doc):
        return Doc(nlp.vocab).from_bytes(doc.to_bytes())

    def by_docbin(nlp, doc):
        box = DocBin(docs=[doc], store_user_data=True).to_bytes()
        return next(DocBin().from_bytes(box).get_docs(nlp.vocab))

    return [by_bytes, by_docbin]


@pytest.mark.parametrize("transport", round_trips())
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_data_survives_transport(transport, dtype):
    nlp = with_settings(store_dtype=dtype)
    doc = nlp(TEXT)
    other = transport(nlp, doc)
    assert layers_of(other).dtype == np.float32
    np.testing.assert_allclose(layers_of(other), layers_of(doc), atol=1e-3)
    expected = doc[4].similarity(doc[10])
    assert other[4].similarity(other[10]) == pytest.approx(expected, abs=1e-3)
    attached = spacy_ctxvec.attach(transport(nlp, doc))
    assert attached[4].similarity(attached[10]) == pytest.approx(expected, abs=1e-3)


def test_a_docbin_without_user_data_loses_it_and_says_so(nlp):
    box = DocBin(docs=[nlp(TEXT)]).to_bytes()
    doc = next(DocBin().from_bytes(box).get_docs(nlp.vocab))
    with pytest.raises(CtxvecError, match="store_user_data=True"):
        doc._.ctxvec  # noqa: B018
    with pytest.raises(CtxvecError, match="store_user_data=True"):
        spacy_ctxvec.attach(doc)


def test_store_output_keeps_one_vector_a_token():
    nlp = with_settings(store="output")
    doc = nlp(TEXT)
    for other in (doc, Doc(nlp.vocab).from_bytes(doc.to_bytes())):
        np.testing.assert_array_equal(other._.ctxvec.output, doc.tensor)
        with pytest.raises(CtxvecError, match='store = "layers"'):
            layers_of(other)


def test_store_none_keeps_the_tensor_alone():
    nlp = with_settings(store="none")
    doc = nlp(TEXT)
    other = Doc(nlp.vocab).from_bytes(doc.to_bytes())
    np.testing.assert_array_equal(other[4].vector if other.tensor is None else other.tensor[4],
                                  doc.tensor[4])  # fmt: skip
    assert doc[4].similarity(doc[10]) < 0.99999


def test_layers_shrink_when_the_last_listener_has_read_them():
    nlp, _ = trained(store="output")
    doc = nlp(TEXT)
    with pytest.raises(CtxvecError, match='store = "layers"'):
        layers_of(doc)
    assert doc[4].similarity(doc[10]) < 0.99999


def test_a_disabled_listener_finds_its_layers_when_it_is_enabled_again(tmp_path):
    nlp, _ = trained(store="output", steps=8)
    expected = [ent.text for ent in nlp(TEXT).ents], [t.tag_ for t in nlp(TEXT)]
    scores = nlp.get_pipe("tagger").model.predict([nlp.get_pipe("ctxvec")(nlp.make_doc(TEXT))])
    nlp.to_disk(tmp_path / "saved")
    loaded = spacy.load(tmp_path / "saved", disable=["tagger"])
    loaded.enable_pipe("tagger")
    assert ([ent.text for ent in loaded(TEXT).ents], [t.tag_ for t in loaded(TEXT)]) == expected
    nlp.disable_pipe("tagger")
    doc = nlp(TEXT)
    np.testing.assert_allclose(nlp.get_pipe("tagger").model.predict([doc])[0], scores[0], atol=1e-5)


def test_vectors_outlive_spacy_s_doc_cleaner(nlp):
    doc = nlp(TEXT)
    before = doc[4].vector
    doc.tensor = None
    np.testing.assert_array_equal(doc[4].vector, before)


def test_vectors_of_different_widths_do_not_compare(nlp):
    other = with_settings(model={"width": 24})
    with pytest.raises(CtxvecError, match="16 numbers and the other 24"):
        nlp(TEXT).similarity(other(TEXT))


def test_the_user_s_own_warnings_stay_as_they_were(nlp):
    nlp(TEXT)
    code = "import warnings; warnings.warn('mine')"
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        for _ in range(3):
            exec(compile(code, "user.py", "exec"), {"__name__": "user", "__warningregistry__": R})
            nlp(TEXT)
    assert len(caught) == 1


R: dict = {}


def test_attach_in_a_process_that_never_made_the_component(nlp, tmp_path):
    DocBin(docs=[nlp(TEXT)], store_user_data=True).to_disk(tmp_path / "docs.spacy")
    code = (
        "import spacy, spacy_ctxvec; from spacy.tokens import DocBin\n"
        f"box = DocBin().from_disk({str(tmp_path / 'docs.spacy')!r})\n"
        "doc = spacy_ctxvec.attach(next(box.get_docs(spacy.blank('en').vocab)))\n"
        "print(doc._.ctxvec.layers.shape, doc[4].similarity(doc[10]) < 0.9999)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.stdout.strip() == "(12, 3, 16) True", result.stderr


def test_retokenising_is_noticed(nlp):
    doc = nlp(TEXT)
    with doc.retokenize() as retokenizer:
        retokenizer.merge(doc[3:5])
    with pytest.raises(CtxvecError, match="retokenised"):
        layers_of(doc)
    assert doc[3].has_vector and doc.vector.shape == (16,)  # spaCy keeps doc.tensor right


def test_retokenising_before_a_listener_is_noticed():
    nlp, _ = trained(("tagger",), tok2vec=listener())
    doc = nlp.get_pipe("ctxvec")(nlp.make_doc(TEXT))
    with doc.retokenize() as retokenizer:
        retokenizer.merge(doc[3:5])
    with pytest.raises(CtxvecError, match="retokenised"):
        nlp.get_pipe("tagger")(doc)


def retokenised_to_as_many(doc: Doc) -> Doc:
    """One pair of tokens merged, another token split."""
    with doc.retokenize() as retokenizer:
        retokenizer.merge(doc[3:5])
        retokenizer.split(doc[7], ["ri", "ver"], heads=[(doc[7], 1), doc[7]])
    return doc


def test_retokenising_to_as_many_tokens(nlp):
    doc = retokenised_to_as_many(nlp(TEXT))
    assert len(doc) == 12
    for read in (lambda: doc[2].vector, lambda: doc.vector, lambda: doc._.ctxvec.output):
        with pytest.raises(CtxvecError, match="retokenised"):
            read()


@pytest.mark.parametrize("store", ["layers", "none"])
def test_retokenising_to_as_many_tokens_before_a_listener_is_noticed(store):
    nlp, _ = trained(("tagger", "ner"), store=store)
    doc = nlp.get_pipe("ctxvec")(nlp.make_doc(TEXT))
    nlp.get_pipe("ner")(doc)
    retokenised_to_as_many(doc)
    with pytest.raises(CtxvecError, match="retokenised"):
        nlp.get_pipe("tagger")(doc)


@pytest.mark.parametrize("store", ["layers", "output", "none"])
def test_a_doc_that_comes_twice_in_a_batch(store):
    nlp, _ = trained(("tagger",), store=store, steps=8)
    tagger = nlp.get_pipe("tagger")
    doc = nlp.get_pipe("ctxvec")(nlp.make_doc(TEXT))
    first, second = tagger.model.predict([doc, doc])
    np.testing.assert_allclose(first, second, atol=1e-6)
    again = tagger.model.predict([nlp.get_pipe("ctxvec")(nlp.make_doc(TEXT))])[0]
    np.testing.assert_allclose(first, again, atol=1e-6)


@pytest.mark.parametrize("store, dtype", [("output", "float32"), ("layers", "float32"),
                                          ("layers", "float16")])  # fmt: skip
def test_a_doc_that_is_kept_does_not_keep_its_batch(store, dtype):
    """Whether its listeners have read it or not."""
    nlp, _ = trained(("tagger", "ner"), store=store, store_dtype=dtype)
    kept = next(iter(nlp.pipe([TEXT] * 50, disable=["ner"])))
    assert transient_of(kept).layers.base is not None
    nlp(TEXT)  # the next batch
    layers = transient_of(kept).layers
    assert layers.base is None and len(layers) == len(kept)
    if store == "layers" and dtype == "float32":
        assert layers is kept.user_data["ctxvec"]["ctxvec"]["layers"]
    nlp.get_pipe("ner")(kept)
    assert [str(ent) for ent in kept.ents] == [str(ent) for ent in nlp(TEXT).ents]
    assert not storage._transient.get(kept)


def transient_of(doc: Doc) -> storage.Transient:
    return storage._transient[doc]["ctxvec"]


def test_hooks_of_others_stay_when_vectors_are_read(nlp):
    doc = nlp(TEXT)
    doc.user_hooks["similarity"] = lambda one, other: 42.0
    assert doc._.ctxvec.layers.any() and doc.similarity(doc) == 42.0
    assert doc[0].similarity(doc[0]) == pytest.approx(1)


def test_a_processed_doc_can_be_processed_again(nlp):
    doc = nlp(TEXT)
    before = layers_of(doc).copy()
    np.testing.assert_allclose(layers_of(nlp(doc)), before, atol=1e-6)


def test_the_cleaner_takes_everything_off():
    nlp, _ = trained(("tagger",))
    nlp.add_pipe("ctxvec_cleaner", config={"tensor": True})
    doc = nlp(TEXT)
    assert not doc.user_data and not doc.user_hooks and not doc.user_token_hooks
    assert doc.tensor.size == 0
    assert doc[0].tag_


def test_evaluation_with_the_cleaner_keeps_no_vectors():
    """`nlp.evaluate` keeps all its Docs until the end, whatever the size of the dev set."""
    nlp, _ = trained(store="layers")
    nlp.add_pipe("ctxvec_cleaner", config={"tensor": True})
    batch = examples(nlp)
    nlp.evaluate(batch)
    assert all(not e.predicted.user_data and not e.predicted.tensor.size for e in batch)


def test_stored_arrays_do_not_hold_their_batch():
    nlp = with_settings()
    docs = list(nlp.pipe([TEXT] * 3, batch_size=3))
    for doc in docs:
        assert doc.user_data["ctxvec"]["ctxvec"]["layers"].base is None


def test_memory_zone(nlp):
    with nlp.memory_zone():
        assert nlp(TEXT)._.ctxvec.layers.shape == (12, 3, 16)


def test_a_doc_without_vectors_says_so():
    blank_with_encoder()
    with pytest.raises(CtxvecError, match="no contextual vectors"):
        spacy.blank("en")("text")._.ctxvec  # noqa: B018
