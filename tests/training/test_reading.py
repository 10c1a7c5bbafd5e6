"""Reading of a corpus: every pair once an epoch, in order, from any position on."""

from __future__ import annotations

from itertools import islice, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_ctxvec.text.corpus import SENTENCE_END_ID, SENTENCE_START_ID, Corpus
from spacy_ctxvec.training.position import Position
from spacy_ctxvec.training.reading import NO_TARGET, Group, Reader, reading_order

CARRIES = ["document", "stream"]


def corpus_of(lengths: list[int]) -> Corpus:
    """Pieces of these lengths, in which no word occurs twice."""
    return Corpus.in_memory([[f"{i}.{j}" for j in range(n)] for i, n in enumerate(lengths)])


def groups_of(reader: Reader, epoch: int) -> list[tuple[Group, list]]:
    """The groups of an epoch, each with what its steps read."""
    groups: list[tuple[Group, list]] = []
    for group, step, after in reader.steps(Position(epoch)):
        if step == 0:
            groups.append((group, []))
        groups[-1][1].append(group.read(step))
        if after == Position(epoch, len(reader.plan(epoch))):
            break
    return groups


def framed(corpus: Corpus, pieces: np.ndarray, direction: int) -> list[tuple[int, int]]:
    """The pairs of a row in one direction."""
    pairs = []
    for number in pieces[::-1] if direction else pieces:
        ids = [SENTENCE_START_ID, *corpus.piece(number).tolist(), SENTENCE_END_ID]
        pairs += list(pairwise(ids[::-1] if direction else ids))
    return pairs


def read_pairs(steps: list, direction: int, row: int) -> list[tuple[int, int]]:
    """What the steps of a group read in one of its rows; nothing may follow a row's end."""
    inputs = np.concatenate([inputs[direction][:, row] for inputs, _ in steps])
    targets = np.concatenate([targets[direction][:, row] for _, targets in steps])
    n = int((targets != NO_TARGET).sum())
    assert (targets[n:] == NO_TARGET).all()
    return list(zip(inputs[:n].tolist(), targets[:n].tolist()))


lengths = st.lists(st.one_of(st.integers(1, 4), st.integers(1, 40)), min_size=1, max_size=25)
readings = st.fixed_dictionaries(
    {
        "batch_tokens": st.integers(1, 80),
        "unroll": st.integers(1, 12),
        "carry": st.sampled_from(CARRIES),
        "seed": st.integers(0, 3),
    }
)


@given(lengths=lengths, settings=readings)
def test_an_epoch_reads_every_pair_once_in_both_directions(lengths, settings):
    corpus = corpus_of(lengths)
    reader = Reader(corpus, **settings)
    for epoch in (0, 2):
        plan = reader.plan(epoch)
        pieces = np.concatenate([row for rows in plan for row in rows])
        assert sorted(pieces.tolist()) == list(range(len(lengths)))
        groups = groups_of(reader, epoch)
        assert len(groups) == len(plan)
        for rows, (group, steps) in zip(plan, groups):
            assert len(steps) == group.n_steps
            for direction in (0, 1):
                for number, row in enumerate(rows):
                    want = framed(corpus, row, direction)
                    assert read_pairs(steps, direction, number) == want


@given(lengths=lengths, settings=readings)
def test_steps_are_no_larger_than_asked_for(lengths, settings):
    for group, steps in groups_of(Reader(corpus_of(lengths), **settings), 0):
        for inputs, targets in steps:
            assert len(inputs[0]) <= group.width <= settings["unroll"]
            for shape in (inputs[0].shape, inputs[1].shape, targets[0].shape, targets[1].shape):
                assert shape == inputs[0].shape
                assert np.prod(shape) <= settings["batch_tokens"] or shape[1] == 1


def test_rows_are_cut_into_steps_of_equal_width():
    reader = Reader(corpus_of([7] * 20), batch_tokens=40, unroll=6)
    shapes = [inputs[0].shape for _, steps in groups_of(reader, 0) for inputs, _ in steps]
    assert shapes == [(4, 10)] * 4  # 8 pairs a row, in 2 steps


@pytest.mark.parametrize("carry", CARRIES)
@pytest.mark.parametrize(("batch_tokens", "unroll"), [(500, 8), (500, 25), (1000, 100)])
def test_steps_are_full(carry, batch_tokens, unroll):
    random = np.random.default_rng(0)
    corpus = corpus_of(random.integers(1, 60, size=1500).tolist())
    reader = Reader(corpus, batch_tokens=batch_tokens, unroll=unroll, carry=carry)
    targets = [targets[0] for _, steps in groups_of(reader, 0) for _, targets in steps]
    assert np.mean([target.size for target in targets]) > 0.75 * batch_tokens
    padding = sum((target == NO_TARGET).sum() for target in targets)
    assert padding < 0.1 * sum(target.size for target in targets)


@given(lengths=lengths, settings=readings, skipped=st.integers(0, 60))
def test_reading_goes_on_from_any_position(lengths, settings, skipped):
    corpus = corpus_of(lengths)
    steps = Reader(corpus, **settings).steps(Position())
    for _ in range(skipped):
        _, _, position = next(steps)
    start = position if skipped else Position()
    again = Reader(corpus, **settings).steps(start)
    for (group, step, after), (other, other_step, other_after) in islice(zip(steps, again), 6):
        assert (step, after) == (other_step, other_after)
        assert (group.n_steps, group.width) == (other.n_steps, other.width)
        for mine, others in zip(group.read(step), other.read(step)):
            assert all(np.array_equal(a, b) for a, b in zip(mine, others))


def order(reader: Reader, epoch: int) -> list[int]:
    return np.concatenate([row for rows in reader.plan(epoch) for row in rows]).tolist()


@pytest.mark.parametrize("carry", CARRIES)
def test_the_order_depends_on_seed_and_epoch_alone(carry):
    corpus = corpus_of(np.random.default_rng(0).integers(1, 30, size=200).tolist())

    def reader(seed: int) -> Reader:
        return Reader(corpus, batch_tokens=60, unroll=8, carry=carry, seed=seed)

    forth, back = reader(1), reader(1)
    orders = [order(forth, epoch) for epoch in range(3)]
    np.random.seed(9)
    assert [order(back, epoch) for epoch in (2, 1, 0)] == orders[::-1]
    assert len({*map(tuple, orders), tuple(order(reader(2), 0)), tuple(range(200))}) == 5


def test_documents_of_like_length_are_read_together_in_a_random_order():
    corpus = corpus_of(np.random.default_rng(0).integers(1, 60, size=3000).tolist())
    plan = Reader(corpus, batch_tokens=400, unroll=20).plan(0)
    spread = [np.ptp(corpus.lengths[np.concatenate(rows)]) for rows in plan]
    assert np.mean(spread) < 3
    means = [corpus.lengths[np.concatenate(rows)].mean() for rows in plan]
    assert abs(np.corrcoef(means, np.arange(len(means)))[0, 1]) < 0.3


@given(lengths=lengths, settings=readings)
def test_streams_are_of_like_length(lengths, settings):
    corpus = corpus_of(lengths)
    ((rows),) = Reader(corpus, **{**settings, "carry": "stream"}).plan(0)
    assert len(rows) <= max(1, settings["batch_tokens"] // settings["unroll"])
    pairs = [int((corpus.lengths[row] + 1).sum()) for row in rows]
    assert max(pairs) <= (corpus.n_tokens + len(lengths)) / len(rows) + max(lengths) + 1


@given(lengths=lengths, settings=readings, n_ranks=st.integers(2, 4))
def test_processes_share_the_rows_of_each_step(lengths, settings, n_ranks):
    corpus = corpus_of(lengths)
    alone = Reader(corpus, **settings).steps(Position())
    readers = [Reader(corpus, **settings, rank=i, n_ranks=n_ranks) for i in range(n_ranks)]
    together = [reader.steps(Position()) for reader in readers]
    for (group, step, after), *shares in islice(zip(alone, *together), 5):
        assert all(share[1:] == (step, after) for share in shares)
        for direction in (0, 1):
            targets = [share[0].read(step)[1][direction] for share in shares]
            found = np.concatenate([ids[ids != NO_TARGET] for ids in targets])
            whole = group.read(step)[1][direction]
            assert sorted(found.tolist()) == sorted(whole[whole != NO_TARGET].tolist())


def test_each_epoch_has_an_order_of_groups_of_its_own():
    """Not only of the pieces: groups by falling length come in another order as well."""
    reader = Reader(corpus_of(list(range(1, 60))), batch_tokens=60, unroll=128)
    longest = [[len(rows) for rows in reader.plan(epoch)] for epoch in (0, 1)]
    assert sorted(longest[0]) == sorted(longest[1]) and longest[0] != longest[1]


@given(lengths=lengths, batch_tokens=st.integers(1, 60), limit=st.integers(0, 100))
def test_reading_once_takes_the_pieces_that_begin_within_the_limit(lengths, batch_tokens, limit):
    corpus = corpus_of(lengths)
    every = np.concatenate(np.concatenate(reading_order(corpus, batch_tokens, 10**6, None)))
    assert sorted(every.tolist()) == list(range(len(lengths)))
    groups = reading_order(corpus, batch_tokens, 10**6, limit)
    numbers = np.concatenate(np.concatenate(groups))
    starts = np.cumsum([0, *lengths[:-1]])
    assert sorted(numbers.tolist()) == [
        i for i, start in enumerate(starts) if start < limit or not i
    ]
    for rows in groups:
        longest = max(lengths[row[0]] for row in rows)
        assert len(rows) == 1 or len(rows) * (longest + 1) <= batch_tokens
