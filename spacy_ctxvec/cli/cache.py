"""Layers of texts on disk, which trainings with a frozen encoder share: `spacy ctxvec cache`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import srsly
import typer
from rich.console import Console
from rich.progress import track
from rich.table import Table
from spacy.cli._util import setup_gpu
from spacy.language import Language
from spacy.tokens import Doc
from spacy.training import Corpus
from spacy.util import minibatch

from .. import errors
from ..layers.feature_upkeep import KeptLayers, kept_layers, prune
from ..layers.features import FeatureCache, FeatureSettings, default_root
from ..pipe.component import Ctxvec, encoders_of
from .opening import open_config, open_pipeline
from .options import GpuId, Json

DOCS_PER_BATCH = 64
DEFAULT_GB = 20.0
SHOWN_NAME = 12  # digits, and enough to tell models apart

Folder: TypeAlias = Annotated[
    Path | None, typer.Option("--folder", help="Of the cache; default: beside downloaded models")
]


def fill(
    pipeline: Annotated[
        str, typer.Argument(help="Pipeline, training config (.cfg) or model of the encoder")
    ],
    docs: Annotated[list[Path], typer.Argument(help=".spacy files or folders of training data")],
    folder: Folder = None,
    dtype: Annotated[
        str | None, typer.Option("--dtype", help="float32 or float16; default: as in the pipeline")
    ] = None,
    max_gb: Annotated[
        float | None, typer.Option("--max-gb", min=0, help="Bound of the whole cache")
    ] = None,
    gpu_id: GpuId = -1,
    json: Json = False,
) -> None:
    """Read texts before a training does, which then finds their layers in the cache.

    Texts are tokenised as spacy.Corpus.v1 does for a training with this pipeline.
    """
    setup_gpu(gpu_id, silent=json)
    nlp = open_config(Path(pipeline)) if pipeline.endswith(".cfg") else open_pipeline(pipeline)
    texts = [doc for path in docs for doc in _read_docs(path, nlp)]
    for name, pipe in encoders_of(nlp).items():
        settings = _on_disk(pipe.feature_cache, folder, dtype, max_gb)
        report = {"component": name, **_fill(pipe, settings, texts, quiet=json)}
        typer.echo(srsly.json_dumps(report) if json else _in_words(report))


def show(folder: Folder = None, json: Json = False) -> None:
    """Which encoders' layers are in the cache, those used last first."""
    root = folder or default_root()
    kept = kept_layers(root)
    if json:
        typer.echo(srsly.json_dumps({"folder": str(root), "models": list(map(_facts, kept))}))
        return
    console = Console(highlight=False)
    if kept:
        console.print(_table(kept))
    console.print(f"{_size(kept)} in {root}", soft_wrap=True)


def prune_layers(
    max_gb: Annotated[
        float | None, typer.Option("--max-gb", min=0, help="Keep so many GB, those used last")
    ] = None,
    model: Annotated[
        str | None, typer.Option("--model", help="Of this model alone, as `show` names it")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Remove all layers")] = False,
    folder: Folder = None,
    json: Json = False,
) -> None:
    """Remove layers from the cache. Trainings that are running go on."""
    if model is None and max_gb is None and not everything:
        raise errors.CtxvecError(errors.NOTHING_TO_PRUNE)
    root = folder or default_root()
    kept = kept_layers(root)
    chosen = kept if model is None else _of_model(kept, model, root)
    removed = prune(chosen, 0 if max_gb is None or everything else int(max_gb * 1e9))
    left = kept_layers(root)
    if json:
        typer.echo(srsly.json_dumps({"removed": removed, "models": list(map(_facts, left))}))
    else:
        typer.echo(f"Removed {removed / 1e6:,.1f} MB; {_size(left)} left in {root}")


cache_cli = {"fill": fill, "show": show, "prune": prune_layers}


def _read_docs(path: Path, nlp: Language) -> Iterator[Doc]:
    if not path.exists():
        raise errors.CtxvecError(errors.NO_DOCS_PATH.format(path=path))
    try:
        yield from (example.predicted for example in Corpus(path)(nlp))
    except Exception as error:  # what broken msgpack raises is anybody's guess
        raise errors.CtxvecError(errors.BAD_DOCBIN.format(path=path, error=error)) from error


def _on_disk(
    own: FeatureSettings, folder: Path | None, dtype: Any, max_gb: float | None
) -> FeatureSettings:
    """The component's settings, with those that were given."""
    max_mb = max_gb * 1000 if max_gb is not None else own.max_mb or DEFAULT_GB * 1000
    place = str(folder) if folder else own.folder
    return replace(own, where="disk", folder=place, dtype=dtype or own.dtype, max_mb=max_mb)


def _fill(
    pipe: Ctxvec, settings: FeatureSettings, texts: Sequence[Doc], *, quiet: bool
) -> dict[str, Any]:
    cache = FeatureCache(settings)
    batches = list(minibatch(texts, DOCS_PER_BATCH))
    for batch in track(batches, pipe.name, console=Console(stderr=True, quiet=quiet)):
        cache.layers(pipe.model, batch)
    return {
        "folder": str(settings.root),
        "known": cache.hits,
        "added": cache.misses - cache.refused,
        "no_room": cache.refused,
    }


def _in_words(report: dict[str, Any]) -> str:
    refused = f", no room for {report['no_room']:,}" if report["no_room"] else ""
    known = f"{report['added']:,} texts added, {report['known']:,} known{refused}"
    return f"{report['component']}: {known}, in {report['folder']}"


def _of_model(kept: list[KeptLayers], name: str, root: Path) -> list[KeptLayers]:
    found = [layers for layers in kept if layers.name.startswith(name)]
    if not found:
        names = ", ".join(layers.name[:SHOWN_NAME] for layers in kept) or "none"
        message = errors.FEATURES_OF_NO_MODEL.format(root=root, found=name, expected=names)
        raise errors.CtxvecError(message)
    return found


def _facts(layers: KeptLayers) -> dict[str, Any]:
    used = datetime.fromtimestamp(layers.used).isoformat(timespec="seconds")
    return {
        "name": layers.name, "source": layers.source, "dtype": layers.dtype,
        "texts": layers.n_texts, "bytes": layers.n_bytes, "used": used,
    }  # fmt: skip


def _table(kept: list[KeptLayers]) -> Table:
    table = Table("model", "from", "dtype", box=None)
    table.add_column("texts", justify="right")
    table.add_column("MB", justify="right")
    table.add_column("last used")
    for layers in kept:
        used = f"{datetime.fromtimestamp(layers.used):%Y-%m-%d %H:%M}"
        table.add_row(
            layers.name[:SHOWN_NAME], layers.source, layers.dtype,
            f"{layers.n_texts:,}", f"{layers.n_bytes / 1e6:,.1f}", used,
        )  # fmt: skip
    return table


def _size(kept: list[KeptLayers]) -> str:
    return f"{sum(layers.n_bytes for layers in kept) / 1e6:,.1f} MB"
