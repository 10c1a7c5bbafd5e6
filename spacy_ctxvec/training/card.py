"""The model card that goes with a trained encoder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..formats.native import EncoderModel

if TYPE_CHECKING:
    from ..text.corpus import Corpus
    from .pretrain import PretrainConfig

HEAD = """# {name}

A bidirectional language model over characters (ELMo; Peters et al. 2018) for `spacy-ctxvec`.

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

Command, with the config beside it: `{command}`

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
        command=f"spacy ctxvec pretrain configs/pretrain_{config.name}.cfg WORK_FOLDER",
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
    buffers = ("layer_mean", "layer_deviation")
    keys = ("name", "lang", "licence", "tokenization", "made_with", "tokens_seen")
    return HEAD.format(
        **{key: model.info[key] for key in keys},
        n_parameters=sum(w.numel() for name, w in model.weights.items() if name not in buffers),
        sizes=", ".join(f"{key} {value}" for key, value in model.config.to_dict().items()),
    )


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
