"""A training config to start from, for any components around one encoder.

spaCy says what a component of some kind needs; here its own `tok2vec` is exchanged for an encoder
that all components listen to, and the settings of training for those of the shipped configs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from spacy.cli.init_config import init_config
from spacy.util import CONFIG_SECTION_ORDER
from thinc.api import Config

from .. import errors

ENCODER = "ctxvec"
WIDTH = 96  # of what a component reads, and of its own layers
WINDOWED = ("parser", "ner")
"""Components that look at neighbouring words once more before they decide."""
COMPONENTS = (
    "tagger", "morphologizer", "trainable_lemmatizer", "parser", "senter", "ner", "spancat",
    "textcat", "textcat_multilabel",
)  # fmt: skip
OPTIMIZED = ("efficiency", "accuracy")
MIX = {"@architectures": "spacy-ctxvec.ScalarMix.v1"}

COMMENTS: dict[str, dict[str, tuple[str, ...]]] = {
    "components.ctxvec": {
        "efficiency": ("The encoder is not trained: it costs no graph. The mixes still learn.",),
        "accuracy": (
            "The callback under [training.before_update] sets frozen to false when its time has",
            "come. The encoder then moves more slowly than what is on top of it.",
        ),
    },
    "components.ctxvec.feature_cache": {
        "efficiency": (
            "What a frozen encoder says of a text is kept in memory, and later epochs need not ask",
            'it again: 4 bytes a number, 6 kB a token for en_sm. where = "disk" shares it with',
            "other runs.",
        )
    },
    "components.ctxvec.model": {
        "efficiency": (
            'precision = "bfloat16" is faster where the processor multiplies it, but not exact;',
            'so is "int8", for LSTMs.',
        )
    },
    "training.before_update": {
        "accuracy": (
            "Heads that have learned nothing yet would only spoil the encoder: it starts to learn",
            "after some steps, its top layer first, and one layer more every `layer_steps`.",
        )
    },
}
"""Lines above a section, by what a config is optimized for."""


def starter_config(
    *,
    lang: str,
    components: Sequence[str],
    optimize: str,
    encoder: Mapping[str, Any],
    weights: str | None,
    gpu: bool,
) -> Config:
    """A config that trains.

    encoder: the block [components.ctxvec.model]
    weights: model folder or file for its loader; None where the block says it all

    CtxvecError for components that cannot be trained on an encoder.
    """
    unknown = [name for name in components if name not in COMPONENTS]
    if unknown or not components:
        found, expected = ", ".join(unknown) or "none", ", ".join(COMPONENTS)
        raise errors.CtxvecError(errors.NO_SUCH_COMPONENTS.format(found=found, expected=expected))
    config = init_config(lang=lang, pipeline=list(components), gpu=False, silent=True)
    blocks = config["components"]
    for name in components:
        blocks[name]["model"] = _with_listener(name, blocks[name]["model"])
    learns = optimize == "accuracy"
    config["components"] = {
        ENCODER: _encoder(encoder, learns),
        **{n: blocks[n] for n in components},
    }
    config["nlp"]["pipeline"] = [ENCODER, *components]
    if gpu:
        config["system"]["gpu_allocator"] = "pytorch"
    _set_training(config["training"], learns)
    if weights is not None:
        loader = {"@misc": "spacy-ctxvec.load_model.v1", "path": weights}
        config["initialize"]["components"][ENCODER] = {"loader": loader}
    return config


def commented(config: Config, optimize: str) -> str:
    """The config as text: what belongs together stands together, and above some sections is what
    one needs to know."""
    text = config.to_str(interpolate=False)
    sections = {part.partition("]")[0]: part for part in f"\n{text}".split("\n[")[1:]}
    known = [
        *CONFIG_SECTION_ORDER,
        *(name for name in sections if name not in CONFIG_SECTION_ORDER),
    ]
    place = {name: i for i, name in enumerate(known)}
    parts = []
    for name in sorted(sections, key=lambda name: [place[outer] for outer in _outer(name)]):
        said = COMMENTS.get(name, {}).get(optimize, ())
        parts += [*(f"# {comment}" for comment in said), f"[{sections[name].rstrip()}\n"]
    return "\n".join(parts)


def _outer(name: str) -> list[str]:
    """a.b.c -> a, a.b, a.b.c"""
    words = name.split(".")
    return [".".join(words[: i + 1]) for i in range(len(words))]


def _encoder(block: Mapping[str, Any], learns: bool) -> dict[str, Any]:
    settings: dict[str, Any] = {"factory": ENCODER, "frozen": True, "store": "output"}
    if learns:
        settings["learn_rate_factor"] = 0.1
    else:
        settings["feature_cache"] = {"max_mb": 1000}
    return {**settings, "model": dict(block)}


def _listener() -> dict[str, Any]:
    return {
        "@architectures": "spacy-ctxvec.Listener.v1",
        "width": f"${{components.{ENCODER}.model.width}}",
        "upstream": ENCODER,
        "projection": WIDTH,
        "mix": dict(MIX),
    }


def _with_listener(name: str, model: dict[str, Any]) -> dict[str, Any]:
    """The model of a component, reading the encoder."""
    if name in WINDOWED:
        encode = {
            "@architectures": "spacy.MaxoutWindowEncoder.v2",
            "width": WIDTH, "window_size": 1, "maxout_pieces": 3, "depth": 1,
        }  # fmt: skip
        tok2vec = {"@architectures": "spacy.Tok2Vec.v2", "embed": _listener(), "encode": encode}
        return {**model, "tok2vec": tok2vec}
    if name.startswith("textcat"):
        exclusive = name == "textcat"
        words = {
            "@architectures": "spacy.TextCatBOW.v3",
            "exclusive_classes": exclusive, "ngram_size": 1, "no_output_layer": False,
        }  # fmt: skip
        ensemble = {"@architectures": "spacy.TextCatEnsemble.v2", "nO": None}
        return {**ensemble, "linear_model": words, "tok2vec": _listener()}
    return {**model, "tok2vec": _listener()}


def _set_training(training: dict[str, Any], learns: bool) -> None:
    """As in the shipped configs."""
    training |= {"dropout": 0.2, "patience": 2000, "eval_frequency": 200}
    training["optimizer"]["use_averages"] = True
    if learns:
        training["optimizer"]["learn_rate"] = {
            "@schedules": "warmup_linear.v1",
            "warmup_steps": 250, "total_steps": 20000, "initial_rate": 0.001,
        }  # fmt: skip
        training["before_update"] = {
            "@callbacks": "spacy-ctxvec.gradual_unfreezing.v1",
            "layer_steps": 300,
            "components": {ENCODER: 500},
        }
