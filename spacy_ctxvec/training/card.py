"""The model card that goes with a trained encoder."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..formats.native import EncoderModel

if TYPE_CHECKING:
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

Text: {files}. The first {corpus_tokens:,} tokens, read a paragraph from each file in turn.
Sources and licences:

{sources}

Command, with the config beside it: `{command}`

## Held-out perplexity

Full softmax over the {n_words:,} most frequent training forms, on {n_tokens:,} tokens of
{heldout}, read in pieces of at most {max_tokens} tokens that start from the zero state. Unknown
words: {unknown_rate:.1%} of the tokens, counted. Perplexities of different vocabularies do not
compare.

| direction | words | sentence marks |
|---|---|---|
| forward | {forward:.1f} | {forward_marks:.2f} |
| backward | {backward:.1f} | {backward_marks:.2f} |
"""


def model_card(config: PretrainConfig, model: EncoderModel) -> str:
    sizes = ", ".join(f"{key} {value}" for key, value in model.config.to_dict().items())
    buffers = ("layer_mean", "layer_deviation")
    n_parameters = sum(w.numel() for name, w in model.weights.items() if name not in buffers)
    return CARD.format(
        **{key: model.info[key] for key in ("name", "lang", "licence", "tokenization")},
        **{key: model.info[key] for key in ("made_with", "tokens_seen")},
        **model.info["perplexity"],
        n_parameters=n_parameters,
        sizes=sizes,
        files=", ".join(f"`{pattern}`" for pattern in config.train),
        heldout=", ".join(f"`{pattern}`" for pattern in config.heldout),
        corpus_tokens=config.corpus_tokens,
        max_tokens=config.max_tokens,
        n_words=config.n_words,
        sources="\n".join(f"- {source}" for source in config.sources),
        command=f"spacy ctxvec pretrain configs/pretrain_{config.name}.cfg WORK_FOLDER",
    )
