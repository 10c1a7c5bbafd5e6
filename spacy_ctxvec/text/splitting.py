"""Parts of parallel text, such as for training and testing, that share no source sentence.

A sentence often stands in many pairs, with other translations. Parts by pair would show the
model sentences of the test in training; parts by source sentence cannot.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType

from .. import errors
from .parallel import Pair
from .tokenizing import hash64

FRACTIONS: Mapping[str, float] = MappingProxyType({"train": 0.98, "dev": 0.01, "test": 0.01})


def part_of(source: str, fractions: Mapping[str, float] = FRACTIONS) -> str:
    """The part of a text, such as "train" or "test", that a pair with this source belongs to.

    Depends on the hash of the source's text alone, apart from its case and the white space: all
    pairs with a source are in one part, whatever else the files hold and wherever this runs.
    `fractions` are the parts and how large they are, in this order; CtxvecError if they are not
    0 or more and together 1.
    """
    if min(fractions.values(), default=-1) < 0 or not math.isclose(sum(fractions.values()), 1):
        raise errors.CtxvecError(errors.BAD_FRACTIONS.format(found=dict(fractions)))
    text = " ".join(source.lower().split())
    position = hash64(text.encode("utf8")) / 2**64
    for part, fraction in fractions.items():
        if position < fraction:
            return part
        position -= fraction
    return max(fractions, key=lambda part: fractions[part])  # past the end, by rounding


def pairs_of_part(
    pairs: Iterable[Pair], part: str, fractions: Mapping[str, float] = FRACTIONS
) -> Iterator[Pair]:
    """The pairs whose source is in `part`; CtxvecError if `fractions` has no such part."""
    if part not in fractions:
        message = errors.UNKNOWN_PART.format(found=part, expected=", ".join(fractions))
        raise errors.CtxvecError(message)
    return (pair for pair in pairs if part_of(pair.source, fractions) == part)
