"""The model cards that go with trained encoders."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from ..formats.native import EncoderModel, n_parameters
from ..nn.bilm import BiLMConfig

if TYPE_CHECKING:
    from ..formats.translator import TranslationModel
    from ..text.corpus import Corpus
    from ..text.pair_corpus import PairCorpus
    from .pretrain import PretrainConfig
    from .train_nmt import NMTRunConfig

HEAD = """# {name}

A {direction} language model over {units} (ELMo; Peters et al. 2018) for `spacy-ctxvec`.

| | |
|---|---|
| language | {lang} |
| licence | {licence} |
| parameters | {n_parameters:,} |
| sizes | {sizes} |
| tokens seen | {tokens_seen:,} |
| tokenisation | {tokenization} |
| made with | {made_with} |
"""
TRAINING = """
## Training

Text: {files}; {corpus_tokens:,} tokens, read a document from each file in turn. Left out
since they share five or more 8-grams of words with held-out or evaluation texts: {n_excluded:,}
documents, {excluded_tokens:,} tokens. Sources and licences:

{sources}

Command: `spacy ctxvec pretrain CONFIG WORK_FOLDER`. Settings: {settings}

## Held-out perplexity

Full softmax over the {n_words:,} most frequent training forms, on {n_tokens:,} tokens of
{heldout}, a {unit} at a time from the zero state. Unknown words: {unknown_rate:.1%} of the tokens,
counted. Perplexities of different vocabularies do not compare.

| direction | words | sentence marks |
|---|---|---|
{rows}
"""
ADAPTATION = """
## Adaptation

The language-model training of `{source}` went on with {tokens:,} tokens of other text: {files};
{corpus_tokens:,} tokens. Words added to its softmax: {new_words:,}. The licence above is that of
`{source}`; that of the other text is not known here.

Command: `spacy ctxvec adapt MODEL WORK_FOLDER --text TEXT --heldout TEXT`

## Held-out perplexity

Full softmax, on {n_tokens:,} tokens of {heldout}, a {unit} at a time from the zero state. Unknown
words are counted. Before and after compare; one vocabulary does not compare with another.

| vocabulary | unknown words | direction | before | after |
|---|---|---|---|---|
{rows}
"""
HEAD_KEYS = ("name", "lang", "licence", "tokenization", "made_with", "tokens_seen")
SAMPLE_KEYS = ("source", "translation", "reference")
TRANSLATION_HEAD = """# {name}

The encoder of a translation model, an MT-LSTM (CoVe; McCann et al. 2017), for `spacy-ctxvec`. It
reads static vectors of width {input_width}; those of its training words are in the folder.

| | |
|---|---|
| translated | {source_lang} to {target_lang} |
| licence | {licence} |
| parameters of the encoder | {n_parameters:,} |
| sizes | {sizes} |
| target words seen, or pieces | {tokens_seen:,} |
| tokenisation | {tokenization} |
| made with | {made_with} |

## Training

Text: {files}; {n_pairs:,} pairs of at most {max_tokens} words. Sources and licences:

{sources}

Command: `spacy ctxvec train-nmt CONFIG WORK_FOLDER`. Settings: {settings}

## Held-out translation

BLEU **{bleu:.2f}** with a beam of 5 on {n_heldout:,} pairs, tokenised as in training (sacrebleu
`{signature}`); perplexity {perplexity:.2f} of target {units}, of which
{unknown_rate:.1%} are unknown.

| source | translation | reference |
|---|---|---|
{samples}
"""


def translation_card(
    config: NMTRunConfig, model: TranslationModel, pairs: PairCorpus, samples: list[dict[str, str]]
) -> str:
    """The card of an MT-LSTM, with the quality of the translation model that it comes from."""
    info = model.encoder.info
    rows = [" | ".join(_cell(sample[key]) for key in SAMPLE_KEYS) for sample in samples]
    return TRANSLATION_HEAD.format(
        **{key: info[key] for key in HEAD_KEYS if key != "lang"},
        **{key: info["translation"][key] for key in ("bleu", "signature", "perplexity")},
        **model.settings,
        input_width=model.encoder.config.to_dict()["input_width"],
        n_parameters=n_parameters(model.encoder.weights),
        sizes=_sizes(model.encoder),
        files=", ".join(f"`{_file_names(name)}`" for name in config.train),
        n_pairs=len(pairs),
        max_tokens=config.max_tokens,
        sources="\n".join(f"- {source}" for source in config.sources),
        n_heldout=info["translation"]["n_pairs"],
        unknown_rate=info["translation"]["unknown_rate"],
        units="pieces of words" if config.subwords else "words",
        samples="\n".join(f"| {row} |" for row in rows),
        settings=_listed(asdict(config.training)),
    )


def _file_names(name: str | list[str]) -> str:
    return name if isinstance(name, str) else " and ".join(name)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def model_card(config: PretrainConfig, model: EncoderModel, corpus: Corpus) -> str:
    """Markdown: what the model is, what it was trained on, and how well it predicts words."""
    return _head(model) + TRAINING.format(
        **model.info["perplexity"],
        rows="\n".join(perplexity_rows(model.info["perplexity"])),
        files=_names(config.train),
        heldout=_names(config.heldout),
        corpus_tokens=corpus.n_tokens,
        n_excluded=corpus.meta["excluded"]["documents"],
        excluded_tokens=corpus.meta["excluded"]["tokens"],
        unit=config.unit,
        n_words=config.n_words,
        sources="\n".join(f"- {source}" for source in config.sources),
        settings=_listed(asdict(config.training)),
    )


def adapted_card(config: PretrainConfig, model: EncoderModel, corpus: Corpus) -> str:
    """The same for a model whose training was continued on other text (`training.adapting`).

    That text is the user's own, so of its paths only the last part is told.
    """
    adaptation = model.info["adaptation"]
    rows = [f"| {' | '.join(row)} |" for row in comparison_rows(adaptation["vocabularies"])]
    return _head(model) + ADAPTATION.format(
        **{key: adaptation[key] for key in ("source", "tokens", "new_words")},
        rows="\n".join(rows),
        n_tokens=model.info["perplexity"]["n_tokens"],
        files=_names([Path(pattern).name for pattern in config.train]),
        heldout=_names([Path(pattern).name for pattern in config.heldout]),
        corpus_tokens=corpus.n_tokens,
        unit=config.unit,
    )


def _head(model: EncoderModel) -> str:
    config = cast(BiLMConfig, model.config)
    units = ["words"] * bool(config.n_words) + ["characters"] * bool(config.reads_spellings)
    return HEAD.format(
        **{key: model.info[key] for key in HEAD_KEYS},
        n_parameters=n_parameters(model.weights),
        sizes=_sizes(model),
        direction="bidirectional" if config.directions == "both" else config.directions,
        units=" and ".join(units),
    )


def _sizes(model: EncoderModel) -> str:
    return _listed(model.config.to_dict())


def _listed(settings: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in settings.items())


def _names(patterns: list[str]) -> str:
    return ", ".join(f"`{pattern}`" for pattern in patterns)


def perplexity_rows(perplexity: dict[str, Any]) -> list[str]:
    """A row of the table for each direction that the model has."""
    return [
        f"| {name} | {perplexity[name]:.1f} | {perplexity[f'{name}_marks']:.2f} |"
        for name in ("forward", "backward")
        if perplexity[name] is not None
    ]


def comparison_rows(vocabularies: dict[str, dict[str, Any]]) -> list[tuple[str, ...]]:
    """Vocabulary, unknown rate, direction, and perplexity before and after, of each direction."""
    return [
        (
            f"{name}, {found['n_words']:,} words",
            f"{found['after']['unknown_rate']:.1%}",
            direction,
            f"{found['before'][direction]:.1f}" if found["before"] else "-",
            f"{found['after'][direction]:.1f}",
        )
        for name, found in vocabularies.items()
        for direction in ("forward", "backward")
        if found["after"][direction] is not None
    ]
