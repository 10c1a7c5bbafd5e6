"""Choose dropout and learning rate on dev: one grid of four points, the same for every system.

Only dev is read, with seed 0; the test part stays unread until `parse.py`.
"""

from __future__ import annotations

from functools import partial
from itertools import product
from pathlib import Path
from typing import Annotated

import neighbours  # noqa: F401
import typer

# isort: split
from cells import read_json
from console import run_script
from parsing import HASH, by_seed, named_encoders, parse_trainings
from trainings import train_all, train_in_process

DROPOUT = (0.2, 0.4)
LEARN_RATE = (0.001, 0.002)


def main(
    corpus: Annotated[Path, typer.Argument(help="Folder with {train,dev,test}.spacy")],
    name: Annotated[str, typer.Option(help="Name of the treebank")],
    lang: Annotated[str, typer.Option(help="spaCy's code of the language")] = "xx",
    encoder: Annotated[list[str] | None, typer.Option(help="NAME=FOLDER")] = None,
    workdir: Annotated[Path, typer.Option(help="Working folder")] = Path(),
    setting: Annotated[
        list[str] | None, typer.Option("--set", help="NAME=VALUE of [training]")
    ] = None,
    jobs: Annotated[int, typer.Option(help="Trainings at the same time")] = 1,
    gpu_id: Annotated[int, typer.Option(help="GPU, or -1 for the CPU")] = -1,
) -> None:
    """Train each system at each point and list the dev scores."""
    systems = {HASH: None, **named_encoders(encoder or [])}
    trainer = partial(train_in_process, gpu_id=gpu_id, test=False)
    lines = ["| dropout | rate | system | dev LAS | dev tag |", "|---|---|---|---|---|"]
    for dropout, rate in product(DROPOUT, LEARN_RATE):
        point = [f"dropout={dropout}", f"optimizer.learn_rate={rate}"]
        folder = workdir.resolve() / "choose" / f"{dropout}-{rate}"
        trainings = parse_trainings(
            name, corpus, lang, systems, [0], [*(setting or []), *point], folder
        )
        train_all(by_seed(trainings), trainer, jobs)
        for system, (training,) in trainings.items():
            if training.is_done:
                dev = read_json(training.result)["dev"]
                scores = f"{100 * dev['dep_las']:.1f} | {100 * dev['tag_acc']:.1f}"
                lines.append(f"| {dropout} | {rate} | {system} | {scores} |")
    typer.echo("\n".join(lines))


if __name__ == "__main__":
    run_script(main)
