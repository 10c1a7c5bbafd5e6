"""The model card that goes with a trained encoder."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..formats.native import EncoderModel

if TYPE_CHECKING:
    from ..text.corpus import Corpus
    from .pretrain import PretrainConfig

CARD = """# {name}

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


def model_card(config: PretrainConfig, model: EncoderModel, corpus: Corpus) -> str:
    """Markdown: what the model is, what it was trained on, and how well it predicts words."""
    sizes = ", ".join(f"{key} {value}" for key, value in model.config.to_dict().items())
    buffers = ("layer_mean", "layer_deviation")
    n_parameters = sum(w.numel() for name, w in model.weights.items() if name not in buffers)
    return CARD.format(
        **{key: model.info[key] for key in ("name", "lang", "licence", "tokenization")},
        **{key: model.info[key] for key in ("made_with", "tokens_seen")},
        **model.info["perplexity"],
        rows="\n".join(perplexity_rows(model.info["perplexity"])),
        n_parameters=n_parameters,
        sizes=sizes,
        files=", ".join(f"`{pattern}`" for pattern in config.train),
        heldout=", ".join(f"`{pattern}`" for pattern in config.heldout),
        corpus_tokens=corpus.n_tokens,
        n_excluded=corpus.meta["excluded"]["documents"],
        excluded_tokens=corpus.meta["excluded"]["tokens"],
        unit=config.unit,
        n_words=config.n_words,
        sources="\n".join(f"- {source}" for source in config.sources),
        command=f"spacy ctxvec pretrain configs/pretrain_{config.name}.cfg WORK_FOLDER",
    )


def perplexity_rows(perplexity: dict[str, Any]) -> list[str]:
    """A row of the table for each direction that the model has."""
    return [
        f"| {name} | {perplexity[name]:.1f} | {perplexity[f'{name}_marks']:.2f} |"
        for name in ("forward", "backward")
        if perplexity[name] is not None
    ]
