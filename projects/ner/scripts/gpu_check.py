"""Train 200 steps on a GPU, load the model on the CPU, and compare what both predict.

Where there is no GPU the check says that it did not run, and that is no failure.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import spacy
import srsly
import typer
from cells import SYSTEMS, Cell, Workdir, cell_config, read_json
from console import run_script
from spacy.cli.train import train
from spacy.tokens import Doc, DocBin
from thinc.api import prefer_gpu

from spacy_ctxvec.errors import CtxvecError

STEPS = {"max_steps": 200, "patience": 0, "eval_frequency": 100}


def main(
    workdir: Annotated[
        Path, typer.Option(help="Working folder", envvar="CTXVEC_NER_WORKDIR")
    ] = Path(),
    system: Annotated[str, typer.Option(help=f"One of {', '.join(SYSTEMS)}")] = "ctxvec",
    gpu_id: Annotated[int, typer.Option(help="Which GPU")] = 0,
    predict_on: Annotated[
        Path | None, typer.Option(help="Only predict with this model, on the CPU", hidden=True)
    ] = None,
) -> None:
    """Run the check, or say why it did not run."""
    where = Workdir(workdir.resolve())
    cell = Cell(seed=0, system=system, corpus="wikigold", fold=0)
    if predict_on is not None:
        srsly.write_json(predict_on.with_name("cpu.json"), predict(predict_on, where.corpus(cell)))
    elif not prefer_gpu(gpu_id):
        typer.echo("GPU check: DID NOT RUN: no GPU here that Thinc can use (it needs CuPy).")
    else:
        check(cell, where, gpu_id)


def check(cell: Cell, workdir: Workdir, gpu_id: int) -> None:
    """Train and predict on the GPU, then predict on the CPU in a process that never saw the GPU."""
    folder = workdir.root / "gpu_check"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    cell_config(cell, workdir, STEPS).to_disk(folder / "config.cfg", interpolate=False)
    train(folder / "config.cfg", folder, use_gpu=gpu_id)
    model = folder / "model-last"
    on_gpu = predict(model, workdir.corpus(cell))
    command = [sys.executable, __file__, "--workdir", str(workdir.root), "--predict-on", str(model)]
    subprocess.run(command, check=True)
    different = disagreements(on_gpu, read_json(folder / "cpu.json"))
    if different:
        raise CtxvecError(
            f"GPU check: {len(different)} of {len(on_gpu)} sentences are annotated differently on "
            f"GPU and CPU, the first is number {different[0]}. The model is in {model}."
        )
    entities = sum(map(len, on_gpu))
    typer.echo(f"GPU check: passed, {len(on_gpu)} sentences, {entities} entities, all the same.")


def predict(model: Path, corpus: Path) -> list[list[list[object]]]:
    """Entities of each dev sentence, as JSON keeps them."""
    nlp = spacy.load(model)
    docs = DocBin().from_disk(corpus / "dev.spacy").get_docs(nlp.vocab)
    plain = [Doc(nlp.vocab, [token.text for token in doc]) for doc in docs]
    return [[[e.start, e.end, e.label_] for e in doc.ents] for doc in nlp.pipe(plain)]


def disagreements(ours: Sequence[object], theirs: Sequence[object]) -> list[int]:
    """Numbers of the sentences that differ."""
    pairs = enumerate(zip(ours, theirs, strict=True))
    return [i for i, (a, b) in pairs if a != b]


if __name__ == "__main__":
    run_script(main)
