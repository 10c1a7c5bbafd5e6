"""Small model folders of the library transformers, with random weights."""

from __future__ import annotations

from pathlib import Path

WORDS = ["the", "bank", "is", "old", "a", "b", "c", "##a", "##b", "##c", "un", "##seen", "."]
MARKS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
BYTES = ["low", "lower", "newest", "the bank", "Ångström"]


def write_bert(folder: Path) -> Path:
    """A BERT of 2 layers, 8 wide, with 40 positions; its tokenizer knows `WORDS`."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
    from transformers import BertConfig, BertModel

    vocabulary = {piece: i for i, piece in enumerate([*MARKS, *WORDS])}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    sizes = {"hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2}
    config = BertConfig(
        vocab_size=len(vocabulary), intermediate_size=12, max_position_embeddings=40, **sizes
    )
    return _write(folder, BertModel(config), tokenizer)


def write_roberta(folder: Path) -> Path:
    """A RoBERTa of 1 layer, 8 wide, whose pieces are of bytes and know where words begin."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
    from transformers import RobertaConfig, RobertaModel

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    marks = ["<s>", "<pad>", "</s>", "<unk>"]
    trainer = trainers.BpeTrainer(
        vocab_size=300, special_tokens=marks, initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(BYTES * 3, trainer)
    tokenizer.post_processor = processors.RobertaProcessing(
        ("</s>", 2), ("<s>", 0), add_prefix_space=False
    )
    config = RobertaConfig(
        vocab_size=tokenizer.get_vocab_size(), hidden_size=8, num_hidden_layers=1,
        num_attention_heads=2, intermediate_size=12, max_position_embeddings=40,
    )  # fmt: skip
    return _write(folder, RobertaModel(config), tokenizer)


def _write(folder: Path, model: object, tokenizer: object) -> Path:
    model.save_pretrained(folder)  # type: ignore[attr-defined]
    tokenizer.save(str(folder / "tokenizer.json"))  # type: ignore[attr-defined]
    return folder
