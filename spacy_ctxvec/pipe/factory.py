"""The component factories and their settings.

spaCy imports this module in every process that uses spaCy at all, so the components themselves
are imported when one is made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from spacy.language import Language
from thinc.api import Config, Model

if TYPE_CHECKING:
    from .cleaner import CtxvecCleaner
    from .component import Ctxvec

DEFAULT_MODEL = Config().from_str("""
[model]
@architectures = "spacy-ctxvec.BiLM.v1"
width = 512
hidden_width = 256
n_layers = 2
skip = true
cell_clip = 0.0
output_clip = 0.0
char_width = 16
filters = [[1,32],[2,32],[3,64],[4,128],[5,128]]
activation = "relu"
n_highway = 1
max_characters = 50
init = "en_sm"
state = "reset"
window = 128
max_batch_items = 4096
cache_size = 50000
""")["model"]

DEFAULT_CACHE = {"max_mb": 0, "where": "memory", "folder": None, "dtype": "float32"}


@Language.factory(
    "ctxvec",
    assigns=["doc.tensor", "doc._.ctxvec"],
    default_config={
        "model": DEFAULT_MODEL,
        "frozen": True,
        "learn_rate_factor": 1.0,
        "output": "mean",
        "store": "layers",
        "store_dtype": "float32",
        "feature_cache": DEFAULT_CACHE,
        "read_ahead": 128,
    },
)
def make_ctxvec(
    nlp: Language,
    name: str,
    model: Model,
    frozen: bool,
    learn_rate_factor: float,
    output: Literal["mean", "top"] | list[float],
    store: Literal["output", "layers", "none"],
    store_dtype: Literal["float32", "float16"],
    feature_cache: dict[str, Any],
    read_ahead: int,
) -> Ctxvec:
    """Contextual word vectors, read once and shared by all components that listen.

    model (Model[List[Doc], List[Floats3d]]): The encoder: an array (tokens, layers, width) a doc.
    frozen (bool): Never train the encoder. Costs no graph; the mixes of the listeners still learn.
    learn_rate_factor (float): Factor on the learning rate of the encoder, where it is trained.
    output (Union[str, List[float]]): The one vector a token of `doc.tensor`, `token.vector` and
        `similarity`: the mean of the layers, the top layer, or fixed weights, one a layer.
    store (str): What stays on a Doc once every listener has read it: all layers, the output alone,
        or nothing but `doc.tensor`. A component that is disabled reads nothing: for its sake all
        layers stay.
    store_dtype (str): Precision of what stays.
    feature_cache (Dict[str, Any]): How layers of texts are kept from one epoch to the next, while
        the encoder is frozen and the pipeline is trained, evaluation included: `max_mb` is the
        bound of the cache (0, the default: none), `where` it is ("memory", or "disk", which other
        runs share), `folder` its place on disk (by default one beside downloaded models), and
        `dtype` "float32" or "float16" (half the room; every number is rounded to 11 bits).
    read_ahead (int): Docs that `nlp.pipe` takes in at a time where its own batches are smaller, for
        speed; they come out in their order. Where each doc is to come out before the next one is
        there, as in a conversation, `batch_size = 1` asks for that.
    """
    from ..layers.features import FeatureSettings
    from .component import Ctxvec

    return Ctxvec(
        nlp.vocab,
        model,
        name,
        frozen=frozen,
        learn_rate_factor=learn_rate_factor,
        output=output,
        store=store,
        store_dtype=store_dtype,
        feature_cache=FeatureSettings.of(feature_cache),
        read_ahead=read_ahead,
    )


@Language.factory("ctxvec_cleaner", default_config={"tensor": False})
def make_ctxvec_cleaner(nlp: Language, name: str, tensor: bool) -> CtxvecCleaner:
    """Takes the data of every `ctxvec` component off the Docs that pass; place it last.

    tensor (bool): Empty `doc.tensor` as well.
    """
    from .cleaner import CtxvecCleaner

    return CtxvecCleaner(tensor=tensor)
