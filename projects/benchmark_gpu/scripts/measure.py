"""Words a second of encoding, of training NER and of pretraining on a GPU, beside plain LSTMs.

python scripts/measure.py [--gpu-id 0] [--words 20000] [--rounds 5] [--minutes 8]
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Annotated, Any

import neighbours  # noqa: F401
import srsly
import torch
import typer
from wasabi import msg

# isort: split
from console import run_script
from device import chosen_device, name_of, peak_megabytes
from encoding import encoding, original_elmo
from group import Group
from ner_training import ner_training
from pretraining import pretraining

from spacy_ctxvec.analysis.benchmark import processor, seconds_in_turns, words_per_second
from spacy_ctxvec.analysis.facts import machine_facts
from spacy_ctxvec.cli.benchmark import sentences_of
from spacy_ctxvec.cli.opening import open_pipeline


def main(
    gpu_id: Annotated[int, typer.Option(help="Number of the GPU; -1: the CPU")] = 0,
    words: Annotated[int, typer.Option(min=100, help="Words in each pass")] = 20_000,
    rounds: Annotated[int, typer.Option(min=1, help="Timed passes, each system, at most")] = 5,
    minutes: Annotated[float, typer.Option(min=0, help="Fewer rounds where this is over")] = 8,
    output: Annotated[Path, typer.Option(help="Results to write")] = Path("results.json"),
) -> None:
    """Measure group by group, and write down each at once; say how many rounds there was time for.

    What time is left is shared by the groups that are left. Each has a warm-up and one round in
    any case.
    """
    end = time.perf_counter() + 60 * minutes
    device = chosen_device(gpu_id)
    record: dict[str, Any] = {
        "date": date.today().isoformat(),
        "device": name_of(device),
        "machine": {"processor": processor(), **machine_facts()},
        "groups": {},
    }
    builders = groups(sentences_of(None), words, device)
    for done, (name, build) in enumerate(builders.items()):
        now = time.perf_counter()
        share = (end - now) / (len(builders) - done)
        record["groups"][name] = found = measure_group(build(), rounds, device, now + share)
        srsly.write_json(output, record)
        msg.good(f"{name}: {found['rounds']} of {rounds} rounds")


def groups(
    sentences: Sequence[Sequence[str]], n_words: int, device: torch.device
) -> Mapping[str, Callable[[], Group]]:
    """What makes each group, when its turn comes: its memory is free again after it."""
    return {
        "encode": lambda: encoding(open_pipeline(None), sentences, n_words),
        "encode_original": lambda: encoding(original_elmo(), sentences, n_words),
        "ner": lambda: ner_training(sentences, n_words),
        "pretrain": lambda: pretraining("en_sm", n_words, device),
        "pretrain_original": lambda: pretraining("original", n_words, device),
    }


def measure_group(group: Group, rounds: int, device: torch.device, end: float) -> dict[str, Any]:
    """Speeds and memory, in as many rounds as should end by `end`, on the clock of `timed`."""
    memory, failed = first_passes(group, device)
    passes = {name: group.passes[name] for name in memory}
    seconds = seconds_in_turns(passes, rounds, device, within=end - time.perf_counter())
    speeds = []
    for name, of_one in seconds.items():
        speed = words_per_second(of_one, group.n_words)
        speeds.append(
            {"system": name, "batch_size": group.batch_size,
             "words_per_second": speed["median"], "least": speed["least"], "most": speed["most"],
             "memory_mb": memory[name]}
        )  # fmt: skip
    n_rounds = min(map(len, seconds.values()), default=0)
    return {"words": group.n_words, "rounds": n_rounds, "speeds": speeds, "failed": failed}


def first_passes(
    group: Group, device: torch.device
) -> tuple[dict[str, int | None], dict[str, str]]:
    """Megabytes that the first pass of each system took, with all that it keeps for later ones;
    and what those said that fail on this device, which shall not cost the others their figures."""
    memory: dict[str, int | None] = {}
    failed: dict[str, str] = {}
    for name, run in group.passes.items():
        try:
            memory[name] = peak_megabytes(run, device)
        except RuntimeError as error:
            failed[name] = str(error).splitlines()[0]
            msg.warn(f"{name}: {failed[name]}")
    return memory, failed


if __name__ == "__main__":
    run_script(main)
