"""The reference files, cut off and changed: a clear error or a model, and nothing else."""

from __future__ import annotations

import random
import resource
import shutil
from pathlib import Path

import pytest
import torch
from efml_files import write_efml

from spacy_ctxvec.errors import CtxvecError
from spacy_ctxvec.formats.detect import load_model

# What is damaged, and what is loaded of its folder.
FILES = {
    "allennlp/elmo/lm_weights.hdf5": "lm_weights.hdf5",
    "allennlp/elmo/options.json": "lm_weights.hdf5",
    "allennlp/elmo_multilingual/it/weights.hdf5": "weights.hdf5",
    "generated/tf_tiny/ckpt/model.ckpt-300.index": "",
    "generated/tf_tiny/ckpt/model.ckpt-300.data-00000-of-00001": "",
    "generated/tf_tiny/ckpt/options.json": "",
    "generated/efml_tiny/token_embedder.pkl": "",
    "generated/efml_tiny/encoder.pkl": "",
    "generated/efml_tiny/char.dic": "",
    "generated/efml_tiny/word.dic": "",
    "generated/efml_tiny/config.json": "",
}
N_TIMES = 200  # of each kind
MEGABYTE = 1 << 20


def damage(path: Path, model: Path) -> None:
    """Cut the file at random places, and change random bytes of it."""
    whole = path.read_bytes()
    draw = random.Random(0)
    for i in range(2 * N_TIMES):
        data = bytearray(whole)
        place = draw.randrange(len(data))
        if i % 2:
            data[place] ^= draw.randrange(1, 256)
        else:
            del data[place:]
        path.write_bytes(data)
        try:
            load_model(model).build()
        except CtxvecError as error:
            assert len(str(error)) > 40


@pytest.mark.parametrize("name", FILES)
def test_damaged_files(reference, tmp_path, name):
    folder = (reference / name).parent
    own = tmp_path / folder.name
    own.mkdir()
    for path in filter(Path.is_file, folder.iterdir()):
        shutil.copyfile(path, own / path.name)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    damage(own / Path(name).name, own / FILES[name])
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown * 1024 < 1000 * MEGABYTE


@pytest.mark.parametrize("zipped", [True, False])
def test_damaged_weights_of_cove(tmp_path, zipped):
    lstm = torch.nn.LSTM(3, 4, num_layers=2, bidirectional=True)
    path = tmp_path / "weights.pth"
    torch.save(lstm.state_dict(), path, _use_new_zipfile_serialization=zipped)
    damage(path, path)


class Payload:
    """Unpickled by the usual way, it would leave a file behind."""

    def __init__(self, path: Path):
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize("name", ["weights.pth", "encoder.pkl", "token_embedder.pkl", "weights.th"])
def test_no_code_of_a_pickle_runs(tmp_path, name, zipped):
    folder = write_efml(tmp_path / "model")
    run = tmp_path / "it_ran"
    torch.save({"a": Payload(run)}, folder / name, _use_new_zipfile_serialization=zipped)
    with pytest.raises(CtxvecError):
        load_model(folder / name)
    assert not run.exists()
