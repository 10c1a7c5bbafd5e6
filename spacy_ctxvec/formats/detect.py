"""Which format a path holds, found from content: file names are only a hint between candidates."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from .. import errors
from .allennlp import WEIGHTS as ALLENNLP_WEIGHTS
from .allennlp import is_allennlp, read_allennlp
from .cove import holds_keras_lstms, is_pickle, read_keras, read_pth
from .efml.reading import FILES as EFML_FILES
from .efml.reading import is_efml, read_efml
from .elmo.hdf5_pair import holds_bilm, read_bilm_hdf5
from .elmo.vocabulary import find_vocabulary
from .native import CONFIG_FILE, WEIGHTS_FILE, EncoderModel, load_native, read_json_object
from .tensorflow.checkpoint import MODULE, find_checkpoint, read_tf_checkpoint
from .transformer import is_transformer, read_transformer
from .unpacking import is_archive, unpacked

HDF5_SIGNATURE = b"\x89HDF\r\n\x1a\n"
# What tells the two files of one model apart; the rest of their names should be the same.
ROLES = re.compile(r"(lm|model|options|weights)", re.IGNORECASE)
MAX_LISTED = 20
CLUTTER = ("__MACOSX", ".DS_Store")  # in archives


def load_model(path: Path) -> EncoderModel:
    """Read the encoder at `path`: a folder, one of its files, or an archive of either.

    An ELMo folder holds an options JSON and an HDF5 file of weights, whatever their names. Where
    it holds several, the two whose names match are taken; a path to one of the files chooses it.
    Of several checkpoints the latest is taken.
    """
    path = Path(path)
    if path.is_file() and is_archive(path):
        return _load_archive(path)
    return _load(path)


def _load_archive(path: Path) -> EncoderModel:
    """What an archive holds, in folders of its own or not."""
    with unpacked(path) as folder:
        inner = folder
        while len(entries := [p for p in inner.iterdir() if p.name not in CLUTTER]) == 1:
            inner = entries[0]
            if inner.is_file():
                break
        try:
            model = _load(inner)
        except errors.CtxvecError as error:
            raise type(error)(str(error).replace(str(folder), str(path))) from error
    return replace(model, info={**model.info, "name": path.name.split(".")[0]})


def _load(path: Path) -> EncoderModel:
    if not path.exists() and find_checkpoint(path) is None:
        raise errors.CtxvecError(errors.NO_MODEL_PATH.format(path=path))
    folder = path if path.is_dir() else path.parent
    if is_transformer(path):
        return read_transformer(folder)
    if is_native(path):
        return load_native(folder)
    if is_allennlp(folder) and (path == folder or path.name == ALLENNLP_WEIGHTS):
        return read_allennlp(folder, _archived_options(folder))
    if is_efml(folder) and (path == folder or path.name in EFML_FILES):
        return read_efml(folder)
    if is_pickle(path):
        return read_pth(path)
    if _is_hdf5(path) and holds_keras_lstms(path):
        return read_keras(path)
    return _load_elmo(path, folder)


def _archived_options(folder: Path) -> Path | None:
    """AllenNLP keeps files that a config named below `fta`, without their endings."""
    named = sorted(folder.rglob("*options_file*"))
    found = [path for path in [*named, *sorted(folder.rglob("*.json"))] if path.is_file()]
    return next((path for path in found if "lstm" in _object(path)), None)


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


def is_native(path: Path) -> bool:
    """Whether it is the package's own folder, or a file of one."""
    if path.is_file():
        return path.name in (CONFIG_FILE, WEIGHTS_FILE) and is_native(path.parent)
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
