"""The component `ctxvec`: one encoder, read once, shared by all components that listen.

Annotations are real objects here, not text: spaCy builds a schema from those of `initialize`.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Any

import numpy as np
from spacy.language import Language
from spacy.pipeline.trainable_pipe import TrainablePipe
from spacy.tokens import Doc
from spacy.training import Example, validate_examples, validate_get_examples
from spacy.util import minibatch
from spacy.vocab import Vocab
from thinc.api import Model, Optimizer, set_dropout_rate
from thinc.util import to_numpy

from .. import errors
from ..formats.native import EncoderModel
from ..layers.batching import cut, in_parts, joined
from ..layers.encoder import (
    RANDOM,
    Encoder,
    ensure_weights,
    init_encoder,
    layer_statistics,
    predict_in_parts,
    settings_of,
    shim_of,
)
from ..layers.features import FeatureCache, FeatureSettings
from ..layers.listener import ListenerState, state_of
from ..layers.scalar_mix import weighted_sum
from ..layers.spelled_words import SpelledWords
from ..nn.parallel import gpu_was_forked
from ..types import FloatArray, Floats3d
from . import docdata, linking, storage
from .pending import PendingBatch
from .process_set import ProcessSet
from .replacing import replace_listener, standalone_config
from .storage import LayerReader, Store

logger = logging.getLogger("spacy")
NO_CACHE = FeatureSettings()
WORDS_AT_ONCE = 16_384
"""Tokens whose layers are computed in one go: 100 MB of the shipped model's."""


class Ctxvec(TrainablePipe):
    """Contextual word vectors for `token.vector`, `doc._.ctxvec` and every `Listener.v1`.

    The loss that training shows for it is the squared gradient of its listeners: 0 means that no
    gradient came.
    """

    def __init__(
        self,
        vocab: Vocab,
        model: Encoder,
        name: str = "ctxvec",
        *,
        frozen: bool = True,
        learn_rate_factor: float = 1.0,
        output: str | list[float] = "mean",
        store: Store = "layers",
        store_dtype: str = "float32",
        feature_cache: FeatureSettings = NO_CACHE,
        read_ahead: int = 128,
    ):
        """See `factory.make_ctxvec` for the settings."""
        self.vocab = vocab
        self.model = model
        self.name = name
        self.cfg: dict[str, Any] = {}
        self.learn_rate_factor = learn_rate_factor
        self.output = output
        self.store: Store = store
        self.store_dtype = store_dtype
        self.feature_cache = feature_cache
        self.read_ahead = read_ahead
        self.features: FeatureCache | None = None
        self.listener_map = {}
        self._linked = ProcessSet[ListenerState]()
        self._waiting: storage.Waiting = ProcessSet()
        self._tensor_user = ""
        self.rehearses = False
        self.frozen = frozen
        self._batch: PendingBatch | None = None
        self._losses: dict[str, float] = {}
        self._checked_language = False
        self._output_weights = _output_weights(output, shim_of(model).module.config.n_outputs)
        docdata.install_extensions()

    # Settings and state

    @property
    def frozen(self) -> bool:
        """Whether the encoder is left as it is; may be changed between updates."""
        return self._frozen

    @frozen.setter
    def frozen(self, frozen: bool) -> None:
        self._frozen = frozen
        self.model.attrs["replace_listener"] = replace_listener
        self.model.attrs["replace_listener_cfg"] = partial(standalone_config, frozen=frozen)

    def reset_state(self) -> None:
        """With state = "carry": start from zero again."""
        if settings_of(self.model).state == "carry":
            shim_of(self.model).module.carry_state("carry")

    def layer_statistics(self) -> tuple[FloatArray, FloatArray]:
        """Mean and deviation of the encoder's layers, each (n_layers + 1, width)."""
        return layer_statistics(self.model, ())

    # Listeners (spaCy's protocol ListenedToComponent)

    @property
    def listener_map(self) -> dict[str, list[Model[Any, Any]]]:
        return self._listener_map

    @listener_map.setter
    def listener_map(self, value: dict[str, list[Model[Any, Any]]]) -> None:
        """spaCy sets this to {} before it links a pipeline anew."""
        self._listener_map = value
        self._encoders_after: list[str] = []
        self._leaves_tensor = False

    @property
    def listeners(self) -> list[Model[Any, Any]]:
        return [node for nodes in self.listener_map.values() for node in nodes]

    @property
    def listening_components(self) -> list[str]:
        return list(self.listener_map)

    def add_listener(self, listener: Model[Any, Any], component_name: str) -> None:
        linking.check_width(listener, component_name, self.model.get_dim("nO"), self.name)
        nodes = self.listener_map.setdefault(component_name, [])
        if not any(node is listener for node in nodes):
            nodes.append(listener)
        state = state_of(listener)
        state.upstream, state.read = self, LayerReader(self.name)
        state.listener_id = listener.id
        self._linked.add(state)

    def remove_listener(self, listener: Model[Any, Any], component_name: str) -> bool:
        self._linked.discard(state_of(listener))
        nodes = self.listener_map.get(component_name, [])
        kept = [node for node in nodes if node is not listener]
        if kept:  # a new list: spaCy removes listeners while it goes over the old one
            self.listener_map[component_name] = kept
        else:
            self.listener_map.pop(component_name, None)
        return len(kept) < len(nodes)

    def find_listeners(self, component: Any) -> None:
        """Link the listeners of a component that stands later in the pipeline."""
        if isinstance(component, Ctxvec):
            self._encoders_after.append(component.name)
        for listener in linking.listeners_in(component, self.name, self._encoders_after):
            self.add_listener(listener, component.name)
        if linking.uses_tensor(component, self.name):
            self._leaves_tensor = True
            if not self._tensor_user:
                self._tensor_user = component.name
                logger.warning(errors.TENSOR_TAKEN.format(name=self.name, user=component.name))

    def _listener_states(self) -> dict[int, ListenerState]:
        """Of every listener by its id, those of disabled components too.

        spaCy's map has only the enabled ones, and would have them take the layers from the rest.
        """
        states = {state.listener_id: state for state in self._linked if state.upstream is self}
        return states | {listener.id: state_of(listener) for listener in self.listeners}

    # Prediction

    def __call__(self, doc: Doc) -> Doc:
        """Annotate one doc, of any length."""
        return next(self.pipe([doc]), doc)

    def pipe(self, stream: Iterable[Doc], *, batch_size: int = 128) -> Iterator[Doc]:
        """Annotate docs, and yield them in their order.

        Small batches are read together, up to `read_ahead` docs, unless a doc is asked for at a
        time. Long docs are read a few at a time, whatever the batch size: the layers of many of
        them might not fit into memory.
        """
        carries = settings_of(self.model).state == "carry"  # a doc goes on from its batch
        size = batch_size if carries or batch_size == 1 else max(batch_size, self.read_ahead)
        for docs in minibatch(stream, size=size):
            yield from self._annotated(docs, batch_size)

    def _annotated(self, docs: list[Doc], batch_size: int) -> Iterator[Doc]:
        """The docs with their vectors; a fault costs no more of them than one batch."""
        try:
            self._annotate(docs)
        except Exception as error:
            if len(docs) <= batch_size:
                self.get_error_handler()(self.name, self, docs, error)
                return
            for batch in minibatch(docs, size=batch_size):
                yield from self._annotated(batch, batch_size)
        else:
            yield from docs

    def _annotate(self, docs: list[Doc]) -> None:
        storage.leave_batches(self._waiting)
        if settings_of(self.model).state == "carry":  # what a doc goes on from is its batch
            self.set_annotations(docs, self.predict(docs))
            return
        for part in in_parts(docs, WORDS_AT_ONCE):
            if len(part[0]) > WORDS_AT_ONCE and not self._wants_layers():
                self._annotate_in_parts(part[0])
            else:
                self.set_annotations(part, self.predict(part))

    def _wants_layers(self) -> bool:
        """Whether somebody is to read the layers of a doc, and not its output alone."""
        return self.store == "layers" or bool(self._listener_states())

    def _annotate_in_parts(self, doc: Doc) -> None:
        """Without ever holding all layers of the doc."""
        self._prepare([doc])
        output = np.zeros((len(doc), self.model.get_dim("nO")), dtype="float32")
        for tokens, layers in predict_in_parts(self.model, doc, WORDS_AT_ONCE):
            output[tokens] = weighted_sum(to_numpy(layers), self._output_weights)
        self._put(doc, None, output, listeners=())

    def predict(self, docs: Iterable[Doc]) -> list[Floats3d]:
        """Every layer of every token, (n_tokens, n_layers + 1, width) for each doc."""
        docs = list(docs)
        self._prepare(docs)
        return self._layers_of(docs)

    def _prepare(self, docs: list[Doc]) -> None:
        self._refuse_gpu_after_fork()
        self._end_round(docs)
        docdata.install_extensions()
        self._settle_weights()

    def _layers_of(self, docs: list[Doc]) -> list[Floats3d]:
        """Of an encoder that does not learn, from the cache where there is one."""
        if self.frozen and self.features is not None:
            return self.features.layers(self.model, docs)
        return self.model.predict(docs) if docs else []

    def set_annotations(self, docs: Sequence[Doc], layers: Sequence[Floats3d]) -> None:
        """Put layers and output on the docs, as `store` and `store_dtype` say."""
        if not layers:
            return
        listeners = list(self._listener_states())
        lengths = [len(doc_layers) for doc_layers in layers]
        on_host = to_numpy(joined(layers))
        output = weighted_sum(on_host, self._output_weights)
        for doc, doc_layers, rows in zip(docs, cut(on_host, lengths), cut(output, lengths)):
            # A Doc that is kept must not keep its batch; for layers, see `leave_batches`.
            self._put(doc, doc_layers, rows.copy(), listeners=listeners)

    def _put(
        self, doc: Doc, layers: FloatArray | None, output: FloatArray, *, listeners: Iterable[int]
    ) -> None:
        docdata.annotate(
            doc,
            self.name,
            layers,
            output,
            listeners=listeners,
            store=self.store,
            dtype=self.store_dtype,
            tensor=not self._leaves_tensor,
            waiting=self._waiting,
        )

    def _settle_weights(self) -> None:
        shim = ensure_weights(self.model, self.name)
        if self._checked_language:
            return
        self._checked_language = True
        lang = shim.info.get("lang")
        if lang and lang != self.vocab.lang:
            logger.warning(
                errors.OTHER_LANGUAGE.format(
                    name=self.name, source=shim.source, found=lang, expected=self.vocab.lang
                )
            )

    def _refuse_gpu_after_fork(self) -> None:
        if shim_of(self.model).device.type == "cuda" and gpu_was_forked():
            raise errors.CtxvecError(errors.GPU_IN_CHILD)

    # Training

    def update(
        self,
        examples: Iterable[Example],
        *,
        drop: float = 0.0,
        sgd: Optimizer | None = None,
        losses: dict[str, float] | None = None,
    ) -> dict[str, float]:
        """Run the encoder on a batch and offer the result to the listeners.

        Where the encoder is trained, its backward pass follows when they have reported.
        """
        examples = list(examples)
        validate_examples(examples, "Ctxvec.update")
        losses = {} if losses is None else losses
        losses.setdefault(self.name, 0.0)
        self._losses = losses
        docs = [example.predicted for example in examples]
        self._end_round()  # its step comes before these docs are read
        self._settle_weights()
        self._settle_cache()
        if self.frozen:
            return self._open_batch(docs, self._layers_of(docs), None, sgd)
        set_dropout_rate(self.model, drop)
        outputs, backprop = self.model(docs, is_train=True)
        return self._open_batch(docs, outputs, backprop, sgd)

    def _settle_cache(self) -> None:
        """Training has begun, and so has its cache; one that only predicts sees no text twice."""
        if not self.frozen or not self.feature_cache.max_mb:
            self.features = None
        elif self.features is None:
            self.features = FeatureCache(self.feature_cache)

    def rehearse(
        self,
        examples: Iterable[Example],
        *,
        sgd: Optimizer | None = None,
        losses: dict[str, float] | None = None,
        **config: Any,
    ) -> dict[str, float]:
        """Give the listeners their vectors while they rehearse; the encoder does not learn."""
        self._losses = {} if losses is None else losses
        self.offer([example.predicted for example in examples])
        return self._losses

    def offer(self, docs: Sequence[Doc]) -> None:
        """Let the listeners train on `docs` with an encoder that does not learn.

        The docs are annotated too, for the copies of the listeners that spaCy holds as tutors.
        """
        if self._batch is not None and self._batch.holds_any(docs):
            return
        outputs = self.predict(docs)
        self.set_annotations(docs, outputs)
        self._open_batch(docs, outputs, None, None)

    @property
    def _rehearsal_model(self) -> None:
        return None

    @_rehearsal_model.setter
    def _rehearsal_model(self, tutor: Any) -> None:
        """spaCy sets this on every component that is to rehearse; an encoder needs no tutor."""
        self.rehearses = True

    def _open_batch(
        self,
        docs: Sequence[Doc],
        outputs: Sequence[Floats3d],
        backprop: Callable[[Sequence[Floats3d]], Any] | None,
        sgd: Optimizer | None,
    ) -> dict[str, float]:
        states = self._listener_states()
        self._batch = PendingBatch(self, docs, outputs, backprop, states)
        self._batch.sgd = sgd
        for state in states.values():
            state.batch = self._batch
        return self._losses

    def _end_round(self, docs: Sequence[Doc] = ()) -> None:
        """Flush a batch that nobody will report to any more, since its last listener was frozen or
        had no gold annotation: another round has begun.

        Annotating the docs of the batch itself belongs to its own round, and what other threads
        read to none.
        """
        batch = self._batch
        if batch is not None and batch.is_of_this_thread and not batch.holds_any(docs):
            batch.flush()

    def finish_update(self, sgd: Optimizer) -> None:
        """Step the encoder: now, or, where its listeners are still to run, after them."""
        if self.frozen:
            return
        if self._batch is None:
            self.step(sgd)
        elif self._batch.has_reports:
            self._batch.sgd = sgd
            self._batch.flush()
        else:
            self._batch.sgd = sgd

    def use_params(self, params: Any) -> Any:
        """Compute with these parameters for a while; a step that waits is taken before."""
        self._end_round()
        return super().use_params(params)

    def step(self, sgd: Optimizer) -> None:
        """Apply the gradients of the encoder at its own learning rate."""
        learn_rate = sgd.learn_rate
        sgd.learn_rate = learn_rate * self.learn_rate_factor
        try:
            self.model.finish_update(sgd)
        finally:
            sgd.learn_rate = learn_rate

    def forget(self, batch: PendingBatch) -> None:
        """Drop every reference to a batch that has been through."""
        if self._batch is batch:
            self._batch = None
        for state in self._listener_states().values():
            if state.batch is batch:
                state.batch = None

    def record_loss(self, loss: float) -> None:
        self._losses[self.name] = self._losses.get(self.name, 0.0) + loss

    def get_loss(self, examples: Iterable[Example], scores: Any) -> Any:
        """The encoder has no loss of its own: its gradients come from its listeners."""

    def add_label(self, label: str) -> int:
        raise errors.CtxvecError(errors.NO_LABELS.format(name=self.name))

    # Initialisation and saving

    def keep_words(self, words: Iterable[str]) -> None:
        """Compute the token layer of these words and save it with the pipeline, which then need not
        do so when it meets them first. Vectors stay the same; training the token layer, or loading
        other weights, drops what was kept.

        words (Iterable[str]): As they stand in texts; they replace those kept before.
        """
        shim = ensure_weights(self.model, self.name)
        if not isinstance(shim.inputs, SpelledWords):
            raise errors.CtxvecError(errors.NO_WORDS_TO_KEEP)
        shim.inputs.keep(shim.module, words)

    def initialize(
        self,
        get_examples: Callable[[], Iterable[Example]],
        *,
        nlp: Language | None = None,
        loader: Callable[[], EncoderModel] | None = None,
    ) -> None:
        """Settle the weights: those loaded with the pipeline, else the loader's, else `init`'s.

        get_examples (Callable[[], Iterable[Example]]): A sample of the training data.
        nlp (Optional[Language]): The pipeline.
        loader (Optional[Callable]): `spacy-ctxvec.load_model.v1`, from
            [initialize.components.NAME.loader].
        """
        validate_get_examples(get_examples, "Ctxvec.initialize")
        shim = shim_of(self.model)
        if loader is not None and shim.loaded:
            logger.info(errors.LOADER_NOT_USED.format(name=self.name, source=shim.source))
        elif loader is not None:
            model = loader()
            shim.adopt(model.info.get("name", "a loaded model"), model, loaded=True)
        docs = [example.x for example in islice(get_examples(), 200)]
        init_encoder(self.model, docs)
        self._settle_weights()
        layer_statistics(self.model, docs)
        self._settle_cache()
        logger.info(errors.WEIGHTS_FROM.format(name=self.name, source=shim.source))

    def to_bytes(self, *, exclude: Iterable[str] = ()) -> bytes:
        self._settle_before_saving()
        return super().to_bytes(exclude=exclude)

    def to_disk(self, path: Any, *, exclude: Iterable[str] = ()) -> None:
        self._settle_before_saving()
        super().to_disk(path, exclude=exclude)

    def _settle_before_saving(self) -> None:
        """A saved pipeline has taken its last step, and carries its weights though never used."""
        self._end_round()
        if settings_of(self.model).init != RANDOM:
            ensure_weights(self.model, self.name)


def encoders_of(nlp: Language) -> dict[str, Ctxvec]:
    """The `ctxvec` components of a pipeline by name, in order."""
    return {name: pipe for name, pipe in nlp.pipeline if isinstance(pipe, Ctxvec)}


def _output_weights(output: str | list[float], n_layers: int) -> FloatArray:
    """The share of each layer in the component's output, (n_layers,)."""
    weights = np.zeros(n_layers, dtype="float32")
    if output == "mean":
        weights[:] = 1 / n_layers
    elif output == "top":
        weights[-1] = 1
    elif isinstance(output, list) and len(output) == n_layers:
        weights[:] = output
    else:
        raise errors.CtxvecError(errors.BAD_OUTPUT.format(found=output, n_layers=n_layers))
    return weights
