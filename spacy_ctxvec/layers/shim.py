"""The boundary between Thinc and the PyTorch encoder.

Thinc's own `PyTorchShim` replaces parameters at every step, which leaks; toggles train/eval mode
while other threads predict; never averages parameters; and keeps its id when it is copied, so
that the copies share the optimizer's moments. This one does not.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol, cast

import numpy as np
import safetensors.torch
import srsly
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from spacy.tokens import Doc
from thinc.api import Optimizer
from thinc.shims import Shim
from thinc.util import get_torch_default_device, torch2xp, xp2torch
from torch import Tensor

from .. import errors
from ..formats.native import EncoderModel, WordTable, load_weights
from ..formats.variants import fitted
from ..nn.architectures import AnyEncoder, new_encoder
from ..nn.bilm import BiLM
from ..types import IntArray
from .batching import WordBatch
from .cache import ProcessLock
from .fingerprint import fingerprint_of


class WordInputs(Protocol):
    """What an encoder reads of words: their spelling, or a static vector."""

    def batch(self, docs: Sequence[Doc], window: int) -> WordBatch:
        """The words of some docs, cut to windows of at most so many."""
        ...

    def vectors(self, module: Any, batch: WordBatch) -> tuple[Tensor, IntArray]:
        """`vectors` and `index` as the encoder's `forward` takes them."""
        ...

    def settle(self, docs: Sequence[Doc]) -> None:
        """Make sure, before training, that words will be found; `docs` are some of the data."""
        ...

    def adopt(self, vectors: WordTable | None) -> None:
        """Take the vectors that came with a model, if any did."""
        ...

    @property
    def table(self) -> WordTable | None:
        """What must be saved with the encoder's weights."""
        ...

    def changing(self, *parameters: str) -> AbstractContextManager[None]:
        """Around whatever writes these parameters of the encoder, or all of them."""
        ...

    def forget(self) -> None:
        """Read every word anew."""
        ...

    def digests(self, batch: WordBatch) -> NDArray[np.uint8]:
        """A hash of what is read of each word, (n_words, DIGEST_BYTES)."""
        ...


class EncoderShim(Shim):
    """Holds the encoder, where its weights come from, and what it reads of words.

    `source` says where the weights are from; it is empty until there are weights.
    """

    _model: AnyEncoder

    def __init__(self, module: AnyEncoder, inputs: WordInputs):
        super().__init__(module.to(get_torch_default_device()))
        module.keep_kernels()
        self.inputs = inputs
        self.loading = ProcessLock()
        self._fingerprint: list[str] = []  # another list for other weights

    @property
    def module(self) -> Any:
        return self._model

    @property
    def device(self) -> torch.device:
        return self._model.device

    @property
    def source(self) -> str:
        return self.cfg.get("source", "")

    @property
    def loaded(self) -> bool:
        """Whether the weights were brought by a pipeline or a loader, and not by `init`."""
        return self.cfg.get("loaded", False)

    @property
    def info(self) -> dict[str, Any]:
        """What the model folder or file said of itself: language, tokenisation, perplexity."""
        return self.cfg.get("info", {})

    @property
    def fingerprint(self) -> str:
        """Stands for all of the encoder that decides which layers a text has, weights included."""
        known = self._fingerprint  # weights may change while they are read
        if not known:
            known.append(fingerprint_of(self._model))
        return known[0]

    @contextmanager
    def changing(self, *parameters: str) -> Iterator[None]:
        """Around whatever writes these parameters, or all of them: nothing outlives it that was
        made of the old ones."""
        with self.inputs.changing(*parameters):
            try:
                yield
            finally:
                self._fingerprint = []
                self._model.forget_kernels()

    def adopt(self, source: str, model: EncoderModel | None, *, loaded: bool = False) -> None:
        """Take the weights of `model`, or keep the random ones, as coming from `source`."""
        with self.changing():
            if model is not None:
                load_weights(self._model, fitted(model, self._model.config).weights)
                self.inputs.adopt(model.vectors)
        self.cfg = {"source": source, "info": model.info if model else {}, "loaded": loaded}

    def finish_update(self, optimizer: Optimizer) -> None:
        """Step every parameter that has a gradient, writing into its own memory."""
        for name, parameter in self._model.named_parameters():
            if parameter.grad is None:
                continue
            value, gradient = torch2xp(parameter.data), torch2xp(parameter.grad)
            with self.changing(name):  # some of Thinc's kernels write the parameter themselves
                new, _ = optimizer((self.id, name), cast(Any, value), cast(Any, gradient))
                written = xp2torch(new, device=parameter.device)
                if written.data_ptr() != parameter.data_ptr():
                    parameter.data.copy_(written)
            parameter.grad = None

    @contextmanager
    def use_params(self, params: dict[Any, Any]) -> Iterator[None]:
        """Work with other parameters, such as the optimizer's averages, for a while."""
        named = dict(self._model.named_parameters())
        others = {name: params[self.id, name] for name in named if (self.id, name) in params}
        backup = {name: named[name].data.clone() for name in others}
        try:
            self._write(named, {name: xp2torch(new) for name, new in others.items()})
            yield
        finally:
            self._write(named, backup)

    def _write(self, named: dict[str, torch.nn.Parameter], values: dict[str, Tensor]) -> None:
        for name, value in values.items():
            with self.changing(name):
                named[name].data.copy_(value)

    def copy(self) -> EncoderShim:
        """A deep copy with an id of its own, since optimizers keep their moments by id."""
        copied = copy.deepcopy(self)
        with Shim.global_id_lock:
            Shim.global_id += 1
            copied.id = Shim.global_id
        return copied

    def to_device(self, device_type: str, device_id: int) -> None:
        table = self.inputs.table
        with self.changing():
            self.inputs.adopt(table)  # the weights stay the same
            self._model.to("cpu" if device_type == "cpu" else f"cuda:{device_id}")

    def to_bytes(self) -> bytes:
        message = {"config": self.cfg, "weights": self._weights()}
        if self.inputs.table is not None:
            message["vectors"] = self.inputs.table.to_bytes()
        return srsly.msgpack_dumps(message)

    def from_bytes(self, bytes_data: bytes) -> EncoderShim:
        message = cast(dict[str, Any], srsly.msgpack_loads(bytes_data))
        try:
            weights = safetensors.torch.load(message["weights"])
            vectors = WordTable.from_bytes(message["vectors"]) if "vectors" in message else None
        except (KeyError, TypeError, ValueError, SafetensorError) as error:
            problem = errors.BAD_PIPELINE_WEIGHTS.format(error=error)
            raise errors.MalformedModelError(problem) from error
        with self.changing():
            load_weights(self._model, weights)
            self.inputs.adopt(vectors)
            self._model.to(get_torch_default_device())
        # One that was saved before it had weights still waits for those of a loader.
        self.cfg = {**message["config"], "loaded": bool(message["config"].get("source"))}
        return self

    def _weights(self) -> bytes:
        state = self._model.state_dict()
        return safetensors.torch.save(
            {name: _compact(tensor.cpu()) for name, tensor in state.items()}
        )

    def __getstate__(self) -> dict[str, Any]:
        """Weights as bytes: tensors would be sent to workers as shared memory, which is scarce in
        containers and moves the storage under the arrays that look into it."""
        state = {key: value for key, value in self.__dict__.items() if key != "_model"}
        carries = isinstance(self._model, BiLM) and self._model.state is not None
        module = (self._model.config, carries, self._model.precision, self._weights())
        return {**state, "_fingerprint": [], "module": module}  # another device, perhaps

    def __setstate__(self, state: dict[str, Any]) -> None:
        config, carries, precision, weights = state.pop("module")
        self.__dict__.update(state)
        module = new_encoder(config)
        if isinstance(module, BiLM) and carries:
            module.carry_state("carry")
        module.set_precision(precision)
        module.keep_kernels()
        load_weights(module, safetensors.torch.load(weights))
        self._model = module.to(get_torch_default_device())


def _compact(tensor: Tensor) -> Tensor:
    """In half precision where that loses nothing: an encoder that came so and never learned."""
    if not tensor.is_floating_point():
        return tensor
    half = tensor.half()
    return half if torch.equal(half.to(tensor.dtype), tensor) else tensor
