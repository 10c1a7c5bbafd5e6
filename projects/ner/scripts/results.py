"""Write the report of results.json into the README: table, differences, scores per type, plot."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from cells import CORPORA, PROJECT, read_json
from console import run_script
from plot import plot_scores

from spacy_ctxvec.errors import CtxvecError

START, END = "<!-- results:start -->", "<!-- results:end -->"
TITLES = {
    "hash": "`HashEmbedCNN`",
    "hash_glove": "`HashEmbedCNN` + GloVe",
    "ctxvec": "frozen `ctxvec`",
    "wikigold": "WikiGold",
    "wnut17": "WNUT-17",
}


def main(
    folder: Annotated[
        Path, typer.Option(help="Folder of results.json, README.md and results.png")
    ] = PROJECT,
) -> None:
    """Write the report and the plot."""
    source = folder / "results.json"
    if not source.is_file():
        raise CtxvecError(f"Expected scores in {source}, found none. Run `evaluate` first.")
    report = read_json(source)
    text = render(report)
    insert(folder / "README.md", text)
    plot_scores(report["scores"], TITLES, folder / "results.png")
    typer.echo(text)


def render(report: dict[str, Any]) -> str:
    """The report as Markdown."""
    lines = [_provenance(report["run"]), "", *_score_table(report["scores"]), ""]
    lines += ["Times are of a machine shared with other work: no benchmark of speed.", ""]
    lines += _comparison_table(report["comparisons"])
    for corpus in CORPORA:
        lines += _type_table([s for s in report["scores"] if s["corpus"] == corpus])
    return "\n".join([*lines, "![F per corpus and system](results.png)"])


def insert(readme: Path, text: str, first: str = START, last: str = END) -> None:
    """Put the text between two markers of the README."""
    content = readme.read_text(encoding="utf-8")
    before, start, rest = content.partition(first)
    _, end, after = rest.partition(last)
    if not start or not end:
        raise CtxvecError(
            f"{readme} needs the lines {first} and {last}: the results go between them."
        )
    readme.write_text(f"{before}{first}\n\n{text}\n\n{last}{after}", encoding="utf-8")


def _provenance(run: dict[str, Any]) -> str:
    versions = ", ".join(f"{name} {number}" for name, number in run["versions"].items())
    budget = ", ".join(f"{name} {value}" for name, value in run["budget"].items())
    return (
        f"`spacy project run all`, {run['date']}, {run['seeds']} seeds, {run['device']}; {budget}; "
        f"{versions}. WikiGold: all folds pooled; WNUT-17: its own test set."
    )


def _score_table(scores: Sequence[dict[str, Any]]) -> list[str]:
    rows = [
        f"| {TITLES[s['corpus']]} | {TITLES[s['system']]} | {_percent(s['mean'])} | "
        f"{_percent(s['spread'])} | {' '.join(map(_percent, s['seed_f']))} | "
        f"{s['train_seconds']:.0f} | {s['words_per_second']:,.0f} |"
        for s in scores
    ]
    return [
        "| corpus | tok2vec | mean F | spread | each seed | training, s | test, words/s |",
        "|---|---|---|---|---|---|---|",
        *rows,
    ]


def _comparison_table(comparisons: Sequence[dict[str, Any]]) -> list[str]:
    if not comparisons:
        return []
    rows = [
        f"| {TITLES[c['corpus']]} | {TITLES[c['ours']]} | {TITLES[c['theirs']]} | "
        f"{100 * c['difference']:+.1f} | {100 * c['low']:+.1f} to {100 * c['high']:+.1f} | "
        f"{100 * c['error_reduction']:.0f} % |"
        for c in comparisons
    ]
    return [
        "Differences, with the 95 % interval of a paired bootstrap over documents or messages:",
        "",
        "| corpus | tok2vec | against | difference in F | interval | errors removed |",
        "|---|---|---|---|---|---|",
        *rows,
        "",
    ]


def _type_table(scores: Sequence[dict[str, Any]]) -> list[str]:
    if not scores:
        return []
    labels = list(scores[0]["per_type"])
    rows = [
        f"| {TITLES[s['system']]} | {' | '.join(_percent(s['per_type'][n]) for n in labels)} |"
        for s in scores
    ]
    return [
        f"| {TITLES[scores[0]['corpus']]}, F per type | {' | '.join(labels)} |",
        f"|---|{'---|' * len(labels)}",
        *rows,
        "",
    ]


def _percent(share: float) -> str:
    return f"{100 * share:.1f}"


if __name__ == "__main__":
    run_script(main)
