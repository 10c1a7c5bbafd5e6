"""The boundary between Thinc and the PyTorch encoder.

Thinc's own `PyTorchShim` replaces parameters at every step, which leaks; toggles train/eval mode
while other threads predict; never averages parameters; and keeps its id when it is copied, so
that the copies share the optimizer's moments. This one does not.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator
from typing import Any, cast

import safetensors.torch
import srsly
import torch
from safetensors import SafetensorError
from thinc.api import Optimizer
from thinc.shims import Shim
from thinc.util import get_torch_default_device, torch2xp, xp2torch
from torch import Tensor

from .. import errors
from ..formats.native import EncoderModel, load_weights
from ..nn.bilm import BiLM
from .cache import ProcessLock, WordVectorCache


class EncoderShim(Shim):
    """Holds the encoder, where its weights come from, and the cache of its word vectors.

    `source` says where the weights are from; it is empty until there are weights.
    """

    _model: BiLM

    def __init__(self, module: BiLM, *, cache_size: int):
        super().__init__(module.to(get_torch_default_device()))
        self.cache = WordVectorCache(cache_size)
        self.loading = ProcessLock()

    @property
    def module(self) -> BiLM:
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

    def adopt(self, source: str, model: EncoderModel | None, *, loaded: bool = False) -> None:
        """Take the weights of `model`, or keep the random ones, as coming from `source`."""
        if model is not None:
            load_weights(self._model, model.weights)
        self.cfg = {"source": source, "info": model.info if model else {}, "loaded": loaded}
        self.cache.clear()

    def finish_update(self, optimizer: Optimizer) -> None:
        """Step every parameter that has a gradient, writing into its own memory."""
        for name, parameter in self._model.named_parameters():
            if parameter.grad is None:
                continue
            value, gradient = torch2xp(parameter.data), torch2xp(parameter.grad)
            new, _ = optimizer((self.id, name), cast(Any, value), cast(Any, gradient))
            written = xp2torch(new, device=parameter.device)
            if written.data_ptr() != parameter.data_ptr():
                parameter.data.copy_(written)
            parameter.grad = None
            if name.startswith("char_encoder."):
                self.cache.clear()

    @contextlib.contextmanager
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
            named[name].data.copy_(value)
        if values:
            self.cache.clear()

    def copy(self) -> EncoderShim:
        """A deep copy with an id of its own, since optimizers keep their moments by id."""
        copied = copy.deepcopy(self)
        with Shim.global_id_lock:
            Shim.global_id += 1
            copied.id = Shim.global_id
        return copied

    def to_device(self, device_type: str, device_id: int) -> None:
        self._model.to("cpu" if device_type == "cpu" else f"cuda:{device_id}")
        self.cache.clear()

    def to_bytes(self) -> bytes:
        return srsly.msgpack_dumps({"config": self.cfg, "weights": self._weights()})

    def from_bytes(self, bytes_data: bytes) -> EncoderShim:
        message = cast(dict[str, Any], srsly.msgpack_loads(bytes_data))
        try:
            weights = safetensors.torch.load(message["weights"])
        except (KeyError, TypeError, SafetensorError) as error:
            problem = errors.BAD_PIPELINE_WEIGHTS.format(error=error)
            raise errors.MalformedModelError(problem) from error
        load_weights(self._model, weights)
        self._model.to(get_torch_default_device())
        self.cfg = {**message["config"], "loaded": True}
        self.cache.clear()
        return self

    def _weights(self) -> bytes:
        state = self._model.state_dict()
        return safetensors.torch.save({name: tensor.cpu() for name, tensor in state.items()})

    def __getstate__(self) -> dict[str, Any]:
        """Weights as bytes: tensors would be sent to workers as shared memory, which is scarce in
        containers and moves the storage under the arrays that look into it."""
        state = {key: value for key, value in self.__dict__.items() if key != "_model"}
        carries = self._model.state is not None
        return {**state, "module": (self._model.config, carries, self._weights())}

    def __setstate__(self, state: dict[str, Any]) -> None:
        config, carries, weights = state.pop("module")
        self.__dict__.update(state)
        module = BiLM(config)
        module.carry_state("carry" if carries else "reset")
        load_weights(module, safetensors.torch.load(weights))
        self._model = module.to(get_torch_default_device())
