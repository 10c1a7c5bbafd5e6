"""`spacy ctxvec debug`: how a pipeline hangs together, and what is likely to be wrong with it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import srsly
import typer
from rich.console import Console
from rich.text import Text
from spacy.language import Language

from ..analysis.checkup import Finding, check_up, cut_words
from ..analysis.facts import machine_facts
from ..layers.encoder import shim_of
from ..pipe.component import Ctxvec, encoders_of
from .demo import read_text
from .opening import open_config, open_pipeline
from .options import Json


def debug_cli(
    pipeline: Annotated[str, typer.Argument(help="Pipeline, or training config (.cfg)")],
    text: Annotated[
        str | None,
        typer.Option("--text", "-t", help="Plain text: which words are cut; - for stdin"),
    ] = None,
    json: Json = False,
) -> None:
    """Show who reads which encoder, and mistakes that would show in scores and times alone."""
    nlp = open_config(Path(pipeline)) if pipeline.endswith(".cfg") else open_pipeline(pipeline)
    found = about(nlp, None if text is None else read_text(text)[1])
    if json:
        typer.echo(srsly.json_dumps(found, indent=2))
        return
    console = Console(highlight=False)
    for line in in_words(found):
        console.print(line, soft_wrap=True)


def about(nlp: Language, text: str | None) -> dict[str, Any]:
    """Machine, encoders with their listeners, and findings."""
    findings = check_up(nlp)
    return {
        "machine": machine_facts(),
        "pipeline": nlp.pipe_names,
        "encoders": {name: _encoder(pipe, nlp, text) for name, pipe in encoders_of(nlp).items()},
        "findings": [asdict(finding) for finding in findings],
    }


def _encoder(pipe: Ctxvec, nlp: Language, text: str | None) -> dict[str, Any]:
    shim = shim_of(pipe.model)
    found: dict[str, Any] = {
        "weights": shim.source or "none yet",
        "device": str(shim.device),
        "precision": shim.module.precision,
        "width": pipe.model.get_dim("nO"),
        "layers": shim.module.config.n_outputs,
        "frozen": pipe.frozen,
        "store": pipe.store,
        "listeners": list(pipe.listener_map),
    }
    if text is not None:
        docs = [nlp.make_doc(line) for line in text.splitlines() if line.strip()]
        pipe.model.predict(docs)
        found["text"] = cut_words(pipe, docs)
        cache = getattr(shim.inputs, "cache", None)
        if cache is not None:
            found["cache_hit_rate"] = round(cache.hit_rate, 3)
    return found


def in_words(found: dict[str, Any]) -> list[Text]:
    machine = found["machine"]
    lines = [
        Text(f"Threads: {machine['threads']}; GPU: {machine['gpu']}", style="dim"),
        Text(f"Pipeline: {', '.join(found['pipeline'])}"),
    ]
    for name, encoder in found["encoders"].items():
        lines += _encoder_lines(name, encoder)
    findings = [Finding(**finding) for finding in found["findings"]]
    return [*lines, *_finding_lines(findings)]


def _encoder_lines(name: str, encoder: dict[str, Any]) -> list[Text]:
    learns = "frozen" if encoder["frozen"] else "learns"
    listeners = ", ".join(encoder["listeners"]) or "no component"
    lines = [
        Text(f"\n{name}", style="bold"),
        Text(
            f"weights: {encoder['weights']}; {encoder['layers']} layers of {encoder['width']}; "
            f"{learns}; {encoder['precision']} on {encoder['device']}; store = {encoder['store']}"
        ),
        Text(f"read by: {listeners}"),
    ]
    cut = encoder.get("text")
    if cut is not None:
        examples = f": {', '.join(cut['examples'])}" if cut["cut"] else ""
        lines.append(
            Text(
                f"{cut['cut']:,} of {cut['words']:,} words are longer than the "
                f"{cut['longest_read']} {cut['unit']} that are read of each{examples}"
            )
        )
    return lines


def _finding_lines(findings: Sequence[Finding]) -> list[Text]:
    if not findings:
        return [Text("\nNothing wrong that could be seen.", style="green")]
    lines = [Text(f"\n{len(findings)} to look at", style="bold")]
    for finding in findings:
        lines.append(Text(f"{finding.component}: {finding.problem}", style="yellow"))
        lines.append(Text(f"  change: {finding.change}"))
    return lines
