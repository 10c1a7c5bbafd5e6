"""Which format a path holds, found from content: file names are only a hint between candidates."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from .. import errors
from .allennlp import WEIGHTS as ALLENNLP_WEIGHTS
from .allennlp import is_allennlp, read_allennlp
from .bilm_hdf5 import holds_bilm, read_bilm_hdf5
from .cove import holds_keras_lstms, is_pickle, read_keras, read_pth
from .efml import FILES as EFML_FILES
from .efml import is_efml, read_efml
from .native import CONFIG_FILE, WEIGHTS_FILE, EncoderModel, load_native, read_json_object
from .tf_checkpoint import MODULE, find_checkpoint, read_tf_checkpoint
from .unpacking import is_archive, unpacked
from .vocabulary_file import find_vocabulary

HDF5_SIGNATURE = b"\x89HDF\r\n\x1a\n"
# What tells the two files of one model apart; the rest of their names should be the same.
ROLES = re.compile(r"(lm|model|options|weights)", re.IGNORECASE)
MAX_LISTED = 20


def load_model(path: Path) -> EncoderModel:
    """Read the encoder at `path`: a folder, one of its files, or an archive of either.

    An ELMo folder holds an options JSON and an HDF5 file of weights, whatever their names. Where
    it holds several, the two whose names match are taken; a path to one of the files chooses it.
    Of several checkpoints the latest is taken.
    """
    path = Path(path)
    if not path.exists() and find_checkpoint(path) is None:
        raise errors.CtxvecError(errors.NO_MODEL_PATH.format(path=path))
    if path.is_file() and is_archive(path):
        return _load_archive(path)
    folder = path if path.is_dir() else path.parent
    if _is_native(path):
        return load_native(folder)
    if is_allennlp(folder) and (path == folder or path.name == ALLENNLP_WEIGHTS):
        return read_allennlp(
            folder, next(filter(_is_options, sorted(folder.rglob("*.json"))), None)
        )
    if is_efml(folder) and (path == folder or path.name in EFML_FILES):
        return read_efml(folder)
    if is_pickle(path):
        return read_pth(path)
    if _is_hdf5(path) and holds_keras_lstms(path):
        return read_keras(path)
    return _load_elmo(path, folder)


def _load_archive(path: Path) -> EncoderModel:
    """What an archive holds, in a folder of its own or not."""
    with unpacked(path) as folder:
        inner = folder
        while len(entries := list(inner.iterdir())) == 1 and entries[0].is_dir():
            inner = entries[0]
        try:
            model = load_model(entries[0] if len(entries) == 1 else inner)
        except errors.CtxvecError as error:
            raise type(error)(str(error).replace(str(folder), str(path))) from error
    name = path.name.split(".")[0]
    return replace(model, info={**model.info, "name": name})


def _load_elmo(path: Path, folder: Path) -> EncoderModel:
    """HDF5 or, where there is none, a TensorFlow checkpoint."""
    files = sorted(file for file in folder.iterdir() if file.is_file())
    options = [file for file in files if _is_options(file)]
    weights = [file for file in files if _is_hdf5(file) and holds_bilm(file)]
    if path in options:
        options = [path]
    elif path in weights:
        weights = [path]
    elif path != folder or not weights:
        return _load_checkpoint(path, folder)
    if not options or not weights:
        raise _unknown(path, list(folder.iterdir()))
    return read_bilm_hdf5(*_pair(path, options, weights), find_vocabulary(folder))


def _load_checkpoint(path: Path, folder: Path) -> EncoderModel:
    index = find_checkpoint(path)
    if index is None:
        raise _unknown(path, list(folder.iterdir()) if path == folder else [path])
    home = index.parent.parent if index.parent.name == MODULE else index.parent
    options = [file for file in sorted(home.iterdir()) if _is_options(file)]
    if len(options) > 1:
        raise errors.CtxvecError(
            errors.AMBIGUOUS_MODEL.format(path=path, found=_listing([*options, index]))
        )
    return read_tf_checkpoint(index, options[0] if options else None, find_vocabulary(home))


def _is_native(path: Path) -> bool:
    if path.is_file():
        return path.name in (CONFIG_FILE, WEIGHTS_FILE) and _is_native(path.parent)
    if (path / WEIGHTS_FILE).is_file():
        return True
    return "architecture" in _object(path / CONFIG_FILE)


def _is_options(file: Path) -> bool:
    return file.suffix.lower() == ".json" and "lstm" in _object(file)


def _object(file: Path) -> dict[str, object]:
    try:
        return read_json_object(file)
    except errors.MalformedModelError:
        return {}


def _is_hdf5(file: Path) -> bool:
    try:
        with file.open("rb") as stream:
            return stream.read(len(HDF5_SIGNATURE)) == HDF5_SIGNATURE
    except OSError:
        return False


def _pair(path: Path, options: Sequence[Path], weights: Sequence[Path]) -> tuple[Path, Path]:
    """The only pair, or the only one with matching names."""
    pairs = [(o, w) for o in options for w in weights]
    if len(pairs) > 1:
        pairs = [(o, w) for o, w in pairs if _common_name(o) == _common_name(w)]
    if len(pairs) != 1:
        found = _listing([*options, *weights])
        raise errors.CtxvecError(errors.AMBIGUOUS_MODEL.format(path=path, found=found))
    return pairs[0]


def _common_name(file: Path) -> str:
    return re.sub(r"[\W_]+", "_", ROLES.sub("", file.stem)).strip("_")


def _unknown(path: Path, found: Sequence[Path]) -> errors.CtxvecError:
    return errors.CtxvecError(errors.UNKNOWN_MODEL.format(path=path, found=_listing(found)))


def _listing(files: Sequence[Path]) -> str:
    names = sorted(file.name + ("/" if file.is_dir() else "") for file in files)
    more = [f"and {len(names) - MAX_LISTED} more"] if len(names) > MAX_LISTED else []
    return ", ".join([*names[:MAX_LISTED], *more]) or "nothing"
