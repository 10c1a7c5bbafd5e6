"""Memory over a long stream of docs, and over one very long doc; and whether time is linear."""

from __future__ import annotations

import json
import time
from itertools import cycle, islice
from pathlib import Path
from typing import Annotated

import spacy
import typer
from spacy.language import Language
from spacy.tokens import Doc

MEGABYTE = 2**20


def main(
    folder: Annotated[Path, typer.Argument(help="Where `prepare` put the sentences")],
    docs: Annotated[int, typer.Option(help="Docs of the stream")] = 100_000,
    tokens: Annotated[int, typer.Option(help="Tokens of the long doc")] = 1_000_000,
) -> None:
    """Print JSON. Linux only: elsewhere the most memory of a process cannot be set back."""
    sentences = json.loads((folder / "sentences.json").read_text("utf8"))
    nlp = spacy.blank("en")
    nlp.add_pipe("ctxvec", config={"store": "output", "store_dtype": "float16"})
    found = {"stream": stream(nlp, sentences, docs)}
    found["long_docs"] = [long_doc(nlp, sentences, n) for n in (tokens // 4, tokens // 2, tokens)]
    print(json.dumps(found))


def stream(nlp: Language, sentences: list[list[str]], n_docs: int) -> dict[str, object]:
    """Resident megabytes after each tenth of the docs, none of which is kept."""
    docs = (Doc(nlp.vocab, words=words) for words in islice(cycle(sentences), n_docs))
    megabytes = []
    for seen, _ in enumerate(nlp.pipe(docs, batch_size=256), start=1):
        if seen % (n_docs // 10) == 0:
            megabytes.append(resident("VmRSS"))
    return {"docs": n_docs, "resident_mb": megabytes}


def long_doc(nlp: Language, sentences: list[list[str]], n_tokens: int) -> dict[str, object]:
    """Seconds, and the most memory beyond what was there and what stays on the doc."""
    words = list(islice((word for words in cycle(sentences) for word in words), n_tokens))
    doc = Doc(nlp.vocab, words=words)
    Path("/proc/self/clear_refs").write_text("5")  # the most memory so far is forgotten
    before, start = resident("VmRSS"), time.perf_counter()
    doc = nlp.get_pipe("ctxvec")(doc)
    seconds, peak = time.perf_counter() - start, resident("VmHWM")
    stored = doc.tensor.nbytes + doc.user_data["ctxvec"]["ctxvec"]["output"].nbytes
    extra = peak - before - stored / MEGABYTE
    return {
        "tokens": n_tokens,
        "seconds": round(seconds, 1),
        "stored_mb": round(stored / MEGABYTE),
        "peak_beyond_stored_mb": round(extra),
    }


def resident(field: str) -> int:
    """A line of the process's status, in megabytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) // 1024
    raise KeyError(field)


if __name__ == "__main__":
    typer.run(main)
