"""`spacy ctxvec adapt`: the training of a biLM goes on with text of a domain."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from .. import errors
from ..formats.native import load_native
from ..training.adapting import TRAINING, Adaptation, AdaptConfig
from ..training.card import comparison_rows
from ..training.lm_config import LMTrainingConfig
from ..training.running import CHECKPOINT
from .options import Exclude, GpuId, Hours, JsonRecords, Processes, Restart
from .pretrain import shown

COLUMNS = "{:<36}{:>9}  {:<10}{:>9}{:>9}"
COMPARED = (
    "Before and after compare, the two vocabularies do not: a new word is harder to",
    "predict than the unknown word that it was.",
)
NOT_COMPARED = ("There is no perplexity before: the softmax was not trained then.",)


def adapt_cli(
    model: Annotated[Path, typer.Argument(help="Model folder with a softmax, or working folder")],
    work: Annotated[
        Path, typer.Argument(file_okay=False, help="Folder for corpus, checkpoints and model")
    ],
    text: Annotated[
        list[str], typer.Option("--text", "-t", help="File, pattern or folder; may be repeated")
    ],
    heldout: Annotated[
        list[str], typer.Option("--heldout", help="Text to measure on; may be repeated")
    ],
    exclude: Exclude = None,
    epochs: Annotated[
        float | None,
        typer.Option(
            "--epochs", min=0.01, help=f"Passes over the text; default: {TRAINING.epochs:g}"
        ),
    ] = None,
    tokens: Annotated[
        int | None, typer.Option("--tokens", min=1, help="Tokens to read, instead of epochs")
    ] = None,
    hours: Hours = 0.0,
    learn_rate: Annotated[
        float, typer.Option("--learn-rate", help="The greatest of the run")
    ] = TRAINING.learn_rate,
    new_words: Annotated[
        int, typer.Option("--new-words", min=0, help="Most words of the text to add to the softmax")
    ] = AdaptConfig.new_words,
    new_softmax: Annotated[
        bool, typer.Option("--new-softmax", help="For a model without softmax: begin one")
    ] = False,
    unit: Annotated[
        str, typer.Option("--unit", "-u", help="Read on its own: paragraph, sentence, document")
    ] = AdaptConfig.unit,
    max_tokens: Annotated[
        int, typer.Option("--max-tokens", min=1, help="Cut longer pieces of training text")
    ] = AdaptConfig.max_tokens,
    lang: Annotated[
        str | None, typer.Option("--lang", "-l", help="Language; default: that of the model")
    ] = None,
    name: Annotated[
        str | None, typer.Option("--name", help="Of the new model; default: the old and _adapted")
    ] = None,
    n_process: Processes = 1,
    gpu_id: GpuId = -1,
    restart: Restart = False,
    json: JsonRecords = False,
) -> None:
    """Adapt a biLM to your own text. Run the same command again to resume after a stop."""
    config = AdaptConfig(
        model=model, text=text, heldout=heldout, exclude=exclude or [], lang=lang, name=name,
        unit=unit, max_tokens=max_tokens, new_words=new_words, new_softmax=new_softmax,
        training=training_config(epochs, tokens, hours, learn_rate),
    )  # fmt: skip
    adaptation = Adaptation(config, work)
    if restart:
        (work / CHECKPOINT).unlink(missing_ok=True)
    show = shown(adaptation.pretraining, json=json)
    with show as progress:
        folder = adaptation.run(progress, n_process=n_process, gpu_id=gpu_id)
    if folder is None:
        show.end_run(work, None)
        return
    found = load_native(folder).info["adaptation"]
    show.end({"model": str(folder), **found}, [*in_words(found), f"Model: {folder}"])


def training_config(
    epochs: float | None, tokens: int | None, hours: float, learn_rate: float
) -> LMTrainingConfig:
    """The settings of adaptation, with those that were given."""
    if epochs is not None and tokens is not None:
        raise errors.CtxvecError(errors.TWO_LENGTHS.format(tokens=tokens, epochs=epochs))
    config = replace(TRAINING, hours=hours, learn_rate=learn_rate)
    if tokens is not None:
        return replace(config, epochs=0.0, tokens=tokens)
    return config if epochs is None else replace(config, epochs=epochs)


def in_words(adaptation: dict[str, Any]) -> list[str]:
    """What was learned, for the terminal, line by line."""
    vocabularies = adaptation["vocabularies"]
    is_new = any(found["before"] is None for found in vocabularies.values())
    return [
        f"Trained on {adaptation['tokens']:,} tokens; {adaptation['new_words']:,} new words in the "
        "softmax",
        COLUMNS.format("held-out perplexity", "unknown", "", "before", "after"),
        *(COLUMNS.format(*row) for row in comparison_rows(vocabularies)),
        *(NOT_COMPARED if is_new else COMPARED if len(vocabularies) > 1 else ()),
    ]
