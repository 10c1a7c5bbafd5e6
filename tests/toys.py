"""Small pipelines and documents that the tests of layers and components share."""

from __future__ import annotations

from typing import Any

import numpy as np
import spacy
import torch
from spacy.language import Language
from spacy.tokens import Doc
from spacy.training import Example
from thinc.api import Model, Optimizer
from thinc.util import fix_random_seed

WIDTH = 16
TINY = {
    "width": WIDTH,
    "hidden_width": 8,
    "filters": [[1, 6], [2, 6]],
    "char_width": 4,
    "init": "random",
}
TEXTS = ["Alice met Bob in town .", "Alice saw a bank", "Carol  went home ."]
ODD_TEXTS = [
    "",
    "   ",
    "\n\t\r\n",
    "one",
    "<S> and </S> are text here",
    "a  b\n\nc",
    "naïve Ångström 東京都 🎉🎉 e\u0301",
    "x" * 3000,
    "...!?",
    " leading and trailing ",
]


def listener(**settings: Any) -> dict[str, Any]:
    """The config block of a listener; `mix` settings under the key `mix`."""
    mix = {"@architectures": "spacy-ctxvec.ScalarMix.v1", **settings.pop("mix", {})}
    block = {"@architectures": "spacy-ctxvec.Listener.v1", "width": WIDTH, "mix": mix}
    return {**block, **settings}


def component_model(component: str, tok2vec: dict[str, Any]) -> dict[str, Any]:
    """The config block of a tagger's, parser's or NER's model on the given tok2vec."""
    if component in ("tagger", "morphologizer"):
        return {"@architectures": "spacy.Tagger.v2", "tok2vec": tok2vec}
    return {
        "@architectures": "spacy.TransitionBasedParser.v2",
        "state_type": {"ner": "ner", "parser": "parser"}[component],
        "extra_state_tokens": False,
        "hidden_width": 8,
        "maxout_pieces": 2,
        "use_upper": True,
        "tok2vec": tok2vec,
    }


def blank_with_encoder(*, name: str = "ctxvec", lang: str = "en", **config: Any) -> Language:
    nlp = spacy.blank(lang)
    add_encoder(nlp, name=name, **config)
    return nlp


def add_encoder(nlp: Language, *, name: str = "ctxvec", **config: Any) -> None:
    model = {**TINY, **config.pop("model", {})}
    nlp.add_pipe("ctxvec", name=name, config={"model": model, **config})


def pipeline(
    components: tuple[str, ...] = ("tagger", "ner"),
    *,
    frozen: bool = False,
    tok2vec: dict[str, Any] | None = None,
    **config: Any,
) -> Language:
    """A pipeline of a tiny random encoder and components that listen to it, not initialised."""
    fix_random_seed(0)
    nlp = blank_with_encoder(frozen=frozen, **config)
    for component in components:
        model = component_model(component, tok2vec or listener())
        nlp.add_pipe(component, config={"model": model})
    return nlp


def examples(nlp: Language, *, entities: bool = True) -> list[Example]:
    made = []
    for text in TEXTS:
        doc = nlp.make_doc(text)
        annotation: dict[str, Any] = {"tags": ["N" if token.i % 2 else "V" for token in doc]}
        if entities:
            annotation["entities"] = [(0, 5, "PER")]
        made.append(Example.from_dict(doc, annotation))
    return made


def trained(
    components: tuple[str, ...] = ("tagger", "ner"), *, steps: int = 3, **config: Any
) -> tuple[Language, Optimizer]:
    """A `pipeline` after a few updates, in which every head has left its zero start."""
    nlp = pipeline(components, **config)
    optimizer = nlp.initialize(lambda: examples(nlp))
    for _ in range(steps):
        nlp.update(examples(nlp), sgd=optimizer)
    return nlp, optimizer


def encoder_weights(nlp: Language, name: str = "ctxvec") -> torch.Tensor:
    """All weights of the encoder as one vector, copied."""
    module = nlp.get_pipe(name).model.shims[0].module
    return torch.cat([parameter.detach().flatten().clone() for parameter in module.parameters()])


def mix_of(nlp: Language, component: str) -> Model[Any, Any]:
    nodes = nlp.get_pipe(component).model.walk()
    return next(node for node in nodes if node.name == "ctxvec_mix")


def layers_of(doc: Doc) -> np.ndarray:
    return doc._.ctxvec.layers


def word_docs(nlp: Language, n_docs: int, seed: int = 0) -> list[str]:
    """Texts of mixed length from few words: some empty, some white space, some long."""
    random = np.random.default_rng(seed)
    words = ["river", "bank", "money", "the", "a", "of", ".", "Zürich", "I", "ran", "  "]
    lengths = random.integers(0, 40, size=n_docs)
    lengths[::17] = 0
    lengths[5::29] = 300
    return [" ".join(random.choice(words, size=length)) for length in lengths]
