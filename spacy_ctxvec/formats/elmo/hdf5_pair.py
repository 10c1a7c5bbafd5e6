"""The public weights of ELMo: an options JSON and an HDF5 file, as bilm-tf and AllenNLP write them.

Both programs read one file layout. The file is data from elsewhere: shapes are checked against the
options before a number is read, and nothing in it may point to another file.
"""

from __future__ import annotations

from pathlib import Path

from ... import errors
from ..hdf5 import Datasets, opened
from ..native import EncoderModel
from .options import read_options, reads_words
from .vocabulary import NO_VOCABULARY, read_vocabulary
from .weights import read_model


def read_bilm_hdf5(options: Path, weights: Path, vocabulary: Path | None = None) -> EncoderModel:
    """The encoder of an options JSON and its HDF5 file, as float32 weights of `nn.bilm.BiLM`.

    vocabulary: file with the words of a biLM that reads words; others need none
    """
    words = NO_VOCABULARY
    if vocabulary is not None and reads_words(options):
        words = read_vocabulary(vocabulary)
    config = read_options(options, len(words.words))
    info = {"name": weights.stem, "family": "elmo"}
    with opened(weights) as file:
        return read_model(Datasets(file, weights), config, words, info)


def holds_bilm(path: Path) -> bool:
    """Whether an HDF5 file holds biLM weights, and not, say, embeddings that were made with them.

    A file that cannot be read counts, so that reading it can tell what is wrong with it.
    """
    try:
        with opened(path) as file:
            return file.id.links.exists(b"RNN_0")
    except errors.MalformedModelError:
        return True
