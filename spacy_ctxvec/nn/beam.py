"""Translations of sentences: the most probable words one by one, or several guesses side by side.

Hypotheses are ranked by (Wu et al. 2016, section 7, without its coverage penalty)

    log p(words, EOS | source) / ((5 + n) / 6)^alpha,    n = number of words + 1, for EOS

where alpha, the length penalty, favours long ones; 0 ranks by probability alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ..checks import check, check_count, is_count
from ..types import FloatArray, IntArray
from .attention import Memory
from .nmt import BOS, EOS, PAD, UNK, DecoderState, Translator

UNKNOWN_WORD = "<unk>"


@dataclass(frozen=True)
class Hypothesis:
    """One translation of a sentence.

    words: ids, without BOS and EOS
    log_probability: of the words and the EOS after them, in nats
    score: what hypotheses are ranked by, the higher the better
    attention (n_words, n_source): how much each word looked at each source word; rows sum to 1
    """

    words: tuple[int, ...]
    log_probability: float
    score: float
    attention: FloatArray


@dataclass(frozen=True)
class SearchSettings:
    """What may be found, and how long the search for it may take.

    beam: hypotheses that are followed at the same time; 1 is greedy search
    max_length: words at most; a hypothesis as long as that has to end
    min_length: words at least
    length_penalty: alpha of the ranking, 0 or more
    unknown: whether the unknown word may be put out
    """

    beam: int = 5
    max_length: int = 100
    min_length: int = 0
    length_penalty: float = 0.0
    unknown: bool = True

    def __post_init__(self) -> None:
        for name in ("beam", "max_length"):
            check_count(self, name, 1)
        in_range = is_count(self.min_length, 0) and self.min_length <= self.max_length
        check(self, "min_length", in_range, f"0 to max_length = {self.max_length}")
        check(self, "length_penalty", 0 <= self.length_penalty < math.inf, "0 (none) or more")

    def penalty(self, n_predictions: int) -> float:
        return ((5 + n_predictions) / 6) ** self.length_penalty


@torch.no_grad()
def translate(
    model: Translator, vectors: Tensor, lengths: IntArray, settings: SearchSettings
) -> list[list[Hypothesis]]:
    """Up to `settings.beam` translations of each sentence, the best first.

    vectors (n_tokens, input_width): of the source words, sentence after sentence
    lengths (n_sentences,): source words of each sentence; one without words has the empty
        translation alone

    What greedy search would find is never lost to others, so that the best translation ranks at
    least as high. Of equal hypotheses, those with smaller ids come first. A sentence's translations
    depend on its batch by rounding alone.
    """
    nothing = Hypothesis((), 0.0, 0.0, np.zeros((0, 0), dtype=np.float32))
    found: list[list[Hypothesis]] = [[] if length else [nothing] for length in lengths]
    sentences = np.flatnonzero(lengths)
    if len(sentences):
        search = _Search(model, vectors, lengths[sentences], settings)
        for sentence, hypotheses in zip(sentences, search.run()):
            found[sentence] = hypotheses
    return found


def replace_unknown(
    words: Sequence[str],
    attention: FloatArray,
    source_words: Sequence[str],
    unknown: str = UNKNOWN_WORD,
) -> list[str]:
    """The words, with the source word that was looked at most in place of each unknown one.

    attention (n_words, n_source): of equal numbers, the first counts
    """
    return [
        source_words[int(row.argmax())] if word == unknown else word
        for word, row in zip(words, attention)
    ]


@dataclass
class _Live:
    """The hypotheses that go on, of the n sentences still searched; a beam of them for each.

    Those of sentence i are the rows i * beam .. of `state`.

    sentences (n,): their numbers
    scores (n, beam): log-probabilities in float64; minus infinity where there is no hypothesis
    words (n, beam, length), attention (n, beam, length, longest source)
    greedy (n,): whether the first hypothesis is the one of greedy search
    """

    sentences: Tensor
    state: DecoderState
    memory: Memory
    scores: Tensor
    words: Tensor
    attention: Tensor
    greedy: Tensor


@dataclass(frozen=True)
class _Candidates:
    """Ways to go on by a word, (n, n_candidates) each, the best first.

    scores: as in `_Live`, of all words together
    words: the new one
    parents: number of the hypothesis in the beam that it goes on
    """

    scores: Tensor
    words: Tensor
    parents: Tensor

    def select(self, places: Tensor) -> _Candidates:
        parts = (self.scores, self.words, self.parents)
        return _Candidates(*(part.gather(1, places) for part in parts))


class _Search:
    """A beam search over all sentences of a batch at once, each done when its own ends."""

    def __init__(
        self, model: Translator, vectors: Tensor, lengths: IntArray, settings: SearchSettings
    ):
        self.model = model
        self.settings = settings
        self.lengths = lengths
        self.ended: list[list[Hypothesis]] = [[] for _ in lengths]
        self.live = self._first(vectors)

    def _first(self, vectors: Tensor) -> _Live:
        n, beam, device = len(self.lengths), self.settings.beam, vectors.device
        state, memory = self.model.start(vectors, self.lengths)
        scores = torch.full((n, beam), -math.inf, dtype=torch.float64, device=device)
        scores[:, 0] = 0
        return _Live(
            sentences=torch.arange(n, device=device),
            state=state.select(torch.arange(n, device=device).repeat_interleave(beam)),
            memory=memory,
            scores=scores,
            words=torch.zeros((n, beam, 0), dtype=torch.long, device=device),
            attention=memory.values.new_zeros(n, beam, 0, memory.values.shape[1]),
            greedy=torch.ones(n, dtype=torch.bool, device=device),
        )

    def run(self) -> list[list[Hypothesis]]:
        """Of each sentence, the best hypotheses that ended, at most a beam of them."""
        for length in range(self.settings.max_length + 1):
            self._step(length)
            if not len(self.live.sentences):
                break
        beam = self.settings.beam
        return [sorted(ended, key=lambda h: (-h.score, h.words))[:beam] for ended in self.ended]

    def _step(self, length: int) -> None:
        """Go on from hypotheses of `length` words."""
        live, beam = self.live, self.settings.beam
        last = live.words[:, :, -1] if length else torch.full_like(live.scores, BOS).long()
        live.state, weights = self.model.step(last.flatten(), live.state, live.memory)
        candidates = self._candidates(length)
        ends = (candidates.words == EOS) & candidates.scores.isfinite()
        n_best = torch.arange(ends.shape[1], device=ends.device) < beam
        self._keep(candidates, ends & n_best, length + 1)
        live.greedy &= ~ends[:, 0]
        goes_on = ends.to(torch.uint8).argsort(dim=1, stable=True)[:, :beam]
        self._go_on(candidates.select(goes_on), weights.view(*live.scores.shape, -1))
        self._drop_done(length + 1)

    def _candidates(self, length: int) -> _Candidates:
        live, beam = self.live, self.settings.beam
        logits = self.model.logits(live.state.fed)
        log_sums = logits.logsumexp(dim=1, keepdim=True).double()
        self._forbid(logits, length)
        # One of them may be EOS, and a beam of others has to be left.
        values, words = largest(logits, min(beam + 1, logits.shape[1]))
        log_p = (values.double() - log_sums).view(*live.scores.shape, -1)
        scores = (live.scores[:, :, None] + log_p).flatten(1)
        # Where greedy search goes is the best by definition: no other can push it out of the beam.
        ranked_by = scores.clone()
        ranked_by[:, 0].masked_fill_(live.greedy, math.inf)
        order = ranked_by.argsort(dim=1, descending=True, stable=True)
        parents = torch.arange(beam, device=scores.device).repeat_interleave(values.shape[1])
        candidates = _Candidates(scores, words.reshape(scores.shape), parents.expand_as(scores))
        return candidates.select(order)

    def _forbid(self, logits: Tensor, length: int) -> None:
        settings = self.settings
        if length == settings.max_length:
            end = logits[:, EOS].clone()
            logits.fill_(-math.inf)[:, EOS] = end
        forbidden = [PAD, BOS]
        if not settings.unknown:
            forbidden.append(UNK)
        if length < settings.min_length:
            forbidden.append(EOS)
        logits[:, forbidden] = -math.inf

    def _keep(self, candidates: _Candidates, ends: Tensor, n_predictions: int) -> None:
        """Take the hypotheses of those candidates that end."""
        live = self.live
        rows, places = ends.nonzero(as_tuple=True)
        parents = candidates.parents[rows, places]
        parts = (
            live.sentences[rows],
            candidates.scores[rows, places],
            live.words[rows, parents],
            live.attention[rows, parents].float(),
        )
        penalty = self.settings.penalty(n_predictions)
        for sentence, score, words, attention in zip(*(part.cpu().numpy() for part in parts)):
            attention = attention[:, : self.lengths[sentence]]
            score = float(score)
            hypothesis = Hypothesis(tuple(words.tolist()), score, score / penalty, attention)
            self.ended[sentence].append(hypothesis)

    def _go_on(self, chosen: _Candidates, weights: Tensor) -> None:
        live = self.live
        n, beam = live.scores.shape
        rows = torch.arange(n, device=weights.device)[:, None]
        live.state = live.state.select((rows * beam + chosen.parents).flatten())
        live.scores = chosen.scores
        live.words = torch.cat([live.words[rows, chosen.parents], chosen.words[:, :, None]], dim=2)
        attention = torch.cat([live.attention, weights[:, :, None]], dim=2)
        live.attention = attention[rows, chosen.parents]

    def _drop_done(self, n_predictions: int) -> None:
        """Leave the sentences alone whose search is over."""
        live, beam = self.live, self.settings.beam
        done = self._done(n_predictions)
        if not done.any():
            return
        kept = (~done).nonzero()[:, 0]
        in_beam = torch.arange(beam, device=kept.device)
        self.live = _Live(
            sentences=live.sentences[kept],
            state=live.state.select((kept[:, None] * beam + in_beam).flatten()),
            memory=live.memory.select(kept),
            scores=live.scores[kept],
            words=live.words[kept],
            attention=live.attention[kept],
            greedy=live.greedy[kept],
        )

    def _done(self, n_predictions: int) -> Tensor:
        """Which sentences have a beam of ended hypotheses, the best of them ahead of all live ones
        as they stand, and of whatever may yet become of the greedy one."""
        live, settings = self.live, self.settings
        ended = [self.ended[sentence] for sentence in live.sentences.tolist()]
        best = live.scores.new_tensor([max((h.score for h in e), default=-math.inf) for e in ended])
        enough = torch.tensor([len(e) >= settings.beam for e in ended], device=best.device)
        highest = live.scores.amax(dim=1)
        behind = highest / settings.penalty(n_predictions) <= best
        greedy_bound = live.scores[:, 0] / settings.penalty(settings.max_length + 1)
        behind &= ~live.greedy | (greedy_bound <= best)
        return (enough & behind) | highest.isneginf()


def largest(x: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k largest numbers of each row of x (n, m), falling, and their places, (n, k) each; of
    equal ones, the first places. Where m is below k, there are m of them."""
    values, places = x.topk(min(k + 1, x.shape[1]))
    # The library takes any of equal numbers: those within are put in order, and where they may have
    # been cut apart, the whole row is sorted.
    places, order = places.sort(dim=1)
    values, order = values.gather(1, order).sort(dim=1, descending=True, stable=True)
    places = places.gather(1, order)
    cut = (values[:, k:] == values[:, k - 1 : k]).any(dim=1)
    if cut.any():
        in_order, all_places = x[cut].sort(dim=1, descending=True, stable=True)
        values[cut], places[cut] = (part[:, : values.shape[1]] for part in (in_order, all_places))
    return values[:, :k], places[:, :k]
