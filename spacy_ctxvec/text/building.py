"""The building of a corpus from files: read, tokenised and written as a stream."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

from .corpus import Corpus
from .evaluation_texts import evaluation_text
from .exclusion import Exclusion
from .lines import Problems
from .settings import settings_of
from .sources import Document, find_files, mixed_documents
from .tokenizing import ChunkTokenizer
from .workers import tokenized_chunks
from .writing import SHARD_TOKENS, CorpusWriter, new_folder

CHUNK_CHARACTERS = 1_000_000


def build_corpus(
    paths: Sequence[Path | str],
    folder: Path,
    *,
    lang: str,
    unit: str = "paragraph",
    max_tokens: int,
    budget: int | None = None,
    exclude: Sequence[Path | str] = (),
    n_process: int = 1,
    meta: dict[str, Any] | None = None,
    progress: Callable[[int], None] = lambda n: None,
    shard_tokens: int = SHARD_TOKENS,
) -> Corpus:
    """Tokenise the text of `paths` with spaCy and write it to `folder`.

    paths: Files, globs and folders, or `-` for standard input; see `find_files`.
    unit: What a piece is: "paragraph", "sentence" or "document"; cut where longer than max_tokens.
    budget: Reading stops at the end of the document that reaches so many tokens.
    exclude: Evaluation texts; documents that share five 8-grams with them are left out.
    n_process: How many processes tokenise; the corpus does not depend on it.
    meta: More to keep in `Corpus.meta`.
    progress: Is told the number of tokens as they are added.

    A corpus that `folder` holds is replaced in the end. Raises CtxvecError for files that cannot
    be read, unknown settings, and where no text is left.
    """
    files, evaluation = find_files(paths), find_files(exclude, endings=None)
    settings = settings_of(
        files, lang=lang, unit=unit, max_tokens=max_tokens, budget=budget, exclude=evaluation
    )
    exclusion = Exclusion.of(map(evaluation_text, evaluation)) if evaluation else None
    make = partial(ChunkTokenizer, lang, unit, max_tokens, exclusion)
    problems = Problems()
    chunks = document_chunks(mixed_documents(files, problems), problems)
    with new_folder(folder) as new:
        writer = CorpusWriter(new, shard_tokens)
        with closing(tokenized_chunks(chunks, make, n_process)) as results:
            for tokenized, found in results:
                if budget is not None:
                    tokenized = tokenized.until(budget - writer.n_tokens)
                writer.add(tokenized, found)
                progress(len(tokenized.ids))
                if budget is not None and writer.n_tokens >= budget:
                    break
        writer.finish({**(meta or {}), "settings": settings}, evaluation)
    return Corpus.open(folder)


def document_chunks(
    documents: Iterable[Document], problems: Problems
) -> Iterator[tuple[list[Document], Problems]]:
    """Documents together, about a million characters; with the problems of reading just these.

    Handing on the problems with the documents keeps both independent of how far is read ahead.
    """
    chunk: list[Document] = []
    size = 0
    for document in documents:
        chunk.append(document)
        size += sum(len(p) if isinstance(p, str) else sum(map(len, p)) for p in document)
        if size >= CHUNK_CHARACTERS:
            yield chunk, problems.take()
            chunk, size = [], 0
    yield chunk, problems.take()
