"""Every message a user can see, in one place: what was found, what was expected, what to change.

Messages are format strings; raise them as `CtxvecError(errors.NAME.format(...))`. Keeping them
together makes their tone one tone, and lets tests name the message instead of quoting it.
"""


class CtxvecError(ValueError):
    """A fault that the user can mend: a setting, a file, an order of components."""


class MalformedModelError(CtxvecError):
    """A model that cannot be read: names the file, the field and what was expected."""


UNREADABLE_TEXT = (
    "Cannot read {path} as UTF-8 text: {error}. Expected plain text, or text compressed as .gz, "
    ".bz2, .xz or .zst; convert the file or leave it out of the corpus."
)
NEEDS_ZSTANDARD = (
    "Reading {path} needs the package zstandard, which is not installed. Install it with "
    "`pip install zstandard`, or compress the file in another way."
)
BAD_LINES = (
    "{path} does not look like what its ending says: {found} of {lines} lines cannot be read, the "
    "first in line {first}. Expected UTF-8 text (in .jsonl, one JSON record a line, with "
    'running text under "text"); convert the file to UTF-8, for instance with `iconv -t utf8`, or '
    "leave it out."
)
NOT_PAIRS = (
    "{path} does not hold pairs: {found} of {lines} lines lack a side, the first in line {first}. "
    "Expected in each line: {expected}. Set `{setting}` to where they are; two line-aligned files "
    "are given together, as (source, target)."
)
BAD_COLUMNS = (
    "columns = {found} cannot work. Expected the columns of the source and of the target, counted "
    "from 0."
)
UNEVEN_SOURCES = (
    "{source} matches {n_source} file(s), and {target} matches {n_target}. Expected two "
    "line-aligned files, or as many of the target as of the source; name them one by one."
)
UNEVEN_LINES = (
    "{source} has {n_source} lines, and {target} has {n_target}. Expected the translation of each "
    "line in the same line of the other file, blank lines included. Find where they part, or give "
    "one file with both sides."
)
BAD_FRACTIONS = (
    "fractions = {found} cannot work. Expected the name of each part and how large it is, 0 or "
    "more, together 1."
)
UNKNOWN_PART = 'part = "{found}" is not known. Expected one of: {expected}.'
BAD_DOCBIN = (
    "Cannot read {path} as a DocBin: {error}. Expected what DocBin.to_disk() wrote; convert the "
    "file again or leave it out of the corpus."
)
BAD_EXCLUDED = (
    "Cannot read the evaluation text {path} as JSON: {error}. Mend the file, or leave it out of "
    "the texts to exclude."
)
BAD_UNIT = 'unit = "{found}" is not known. Expected one of: {expected}.'
NO_LANGUAGE = (
    'There is no tokeniser for lang = "{found}": {error} Give one of spaCy\'s language codes, or '
    '"xx" for none in particular.'
)
WORKER_FAILED = (
    "Tokenising failed: {error}. If a process was killed, memory ran out: use fewer processes."
)
EMPTY_CORPUS = (
    "The corpus holds no words. Documents left out as evaluation text: {excluded}; files without "
    "text: {empty_files}. Check the paths."
)
NO_PAIRS = (
    "No pairs are left. Left out, by reason: {problems}; files without pairs: {empty_files}. Check "
    "the paths, or raise max_tokens. Without files under `heldout`, one pair in a hundred is held "
    "out, which may be none of a few: name files there."
)
NO_CORPUS = "There is no corpus in {folder}: no file {name}. Build it first, or check the path."
BAD_CORPUS = (
    "{path} is not what was written when the corpus was built. Expected: {what} {expected}; found: "
    "{found}. Remove the folder and build the corpus again."
)
FOLDER_IN_USE = (
    "{folder} is or holds something else than a corpus, which would be lost. Name a folder that is "
    "new or empty."
)
NO_FILES = (
    "No file in {folder} matches {patterns}. Expected the path of a file, a pattern like *.txt, or "
    "a folder that holds such files; check the path."
)
BAD_SETTING = "The setting {field} = {found} cannot work. Expected: {expected}."
BAD_CHECKPOINT = (
    "Cannot read the checkpoint {path}: {error}. It may be cut off or come from another program; "
    "remove it to start again, or name another one."
)
CHECKPOINT_NOT_WRITTEN = (
    "Cannot write the checkpoint {path}: {error}. Its disk has {free:,.0f} MB left. An earlier "
    "checkpoint there is whole: make room and run again, and training goes on from it."
)
ONE_PROCESS = (
    "Translation models are trained in one process, and {found} were started. Start the command "
    "without torchrun."
)
LOSS_NOT_FINITE = (
    "The loss became {loss}, its gradient's norm {norm}, at step {step}. The weights from before "
    "that step are in the checkpoint, the words that it read in failed_batch.json beside it. Look "
    'at them, or continue with a lower learn_rate or grad_clip, or with precision = "float32".'
)
NO_SOFTMAX = (
    "{folder} holds no {name}, the softmax that its language model was trained with, which this "
    "needs. Models that come from `spacy ctxvec pretrain` or `adapt` have it; files of encoders "
    "alone, such as the shipped model, do not: `spacy ctxvec adapt --new-softmax` starts one anew."
)
UNFINISHED_WORK = (
    "{path} is the working folder of a training that has not come to its end: it has a checkpoint "
    "and no {name}. Run the command that began it again, or name another model."
)
NO_MODEL_LANGUAGE = (
    "The model {path} does not say what language it is for, so its text cannot be tokenised. Give "
    "the code of its language with --lang, such as --lang en."
)
OTHER_START = (
    "The training in {folder} began with {field} = {found}; now it is {expected}. Name another "
    "working folder, or begin anew with --restart."
)
ADAPTIVE_WORDS = (
    "{path} was trained with an adaptive softmax, to which no words can be added. Keep its words "
    "with --new-words 0, or start a softmax anew with --new-softmax."
)
TWO_LENGTHS = (
    "Found --tokens {tokens} and --epochs {epochs}, which both say how long to train. Give one of "
    "them; --hours may come on top."
)
OTHER_OPTION = "{option} is for {expected}, and not for {found}. Leave one of them out."
NOT_AN_MTLSTM = (
    "{path} holds {found}. Expected the encoder of a translation model (CoVe): only that has the "
    "layout of a .pth file; see --format."
)
NO_WORDS_FILE = "--format tokens needs a file with the words, one a line: --words FILE."
FILE_IN_USE = (
    "{path} is there already. Name a file that is not, or replace a file (never a folder) with "
    "--force."
)
NO_SOFTMAX_IN_PIPELINE = (
    "The pipeline {path} holds encoders alone. To export a softmax, name the model folder that "
    "`spacy ctxvec pretrain` or `adapt` wrote."
)
OUT_IN_USE = (
    "{path} is not empty; found: {found}. Name a folder that is new or empty, or replace a model "
    "or pipeline with --force."
)
OUT_IS_OTHER = (
    "--force replaces model folders and pipelines alone, and {path} has other content: {found}. "
    "Name another folder, or empty this one yourself."
)
MALFORMED_MODEL = "Cannot read {path}: its {field} should be {expected}; found: {found}."
WRONG_SIZES = (
    "The weights do not fit the encoder: {name} has shape {found}, and the settings ask for "
    "{expected}. Change the sizes under [components.<name>.model] to those of the weights, or "
    "load other weights."
)
NO_TEXT_FILES = (
    "No file in {folder} matches {patterns}. Check the path; `pretrain` takes the folder with the "
    "text from --text, and `train` and `heldout` from the [pretrain] block of its config."
)
NO_TEXT_FOLDER = (
    "Where is the text? Name its folder with --text, or set the environment variable CTXVEC_DATA "
    "to a folder that holds it under `text`."
)
BAD_TRAINING_CONFIG = "The block [{block}] of the config {path} cannot be used: {error}."
NEEDS_EXTRA = (
    "Reading {path} needs the package {package}, which is not installed. Install it with "
    "`pip install 'spacy-ctxvec[{extra}]'`."
)
WORD_INPUT_BILM = (
    "{path} describes a biLM over a fixed vocabulary of words, not over characters, and the words "
    "are missing. Put them beside it as vocab.txt, one a line, <S>, </S> and <UNK> among them."
)
BAD_ADDRESS = (
    "{found} is no address of a model. Expected https://HOST/PATH, hf://OWNER/NAME, or the name of "
    "a public model; `spacy ctxvec convert --list` prints them."
)
OPEN_CONNECTION = (
    "{address} is sent over an open connection, on which anybody may change it. Use an https "
    "address, or say which checksum the file must have: --sha256."
)
DOWNLOAD_FAILED = (
    "Cannot download {address}: {error}. If it broke off, the same command goes on from there."
)
WRONG_CHECKSUM = (
    "{address} has the sha256 {found}. Expected: {expected}... Check the address and the checksum, "
    "and try again."
)
DOWNLOADED_BEFORE = "It was downloaded before: delete {path} to have it downloaded again."
NO_ROOM = "{folder} has {free:,} bytes left, and {needed:,} are needed."
NOT_BILM_HDF5 = (
    "The encoder cannot be written to {path} as options JSON and HDF5: {reason}. A model folder "
    "keeps any encoder: --format native."
)
NO_LSTMS = (
    "This encoder is a transformer, and what is measured here is how near LSTMs come to the limit "
    "of the machine. Expected a biLM or an MT-LSTM."
)
FOR_BILMS = (
    "This is not a biLM but the encoder of a translation model or a transformer: only biLMs (ELMo) "
    "have start states and alignments."
)
NO_WORDS_TO_KEEP = (
    "This is not a biLM but the encoder of a translation model or a transformer: only biLMs (ELMo) "
    "have a token layer that is computed from the spelling of words and can be kept."
)
KEPT_WORDS_WIDTH = (
    "The words saved with this pipeline have {found} numbers each, and its encoder's token layer "
    "has {expected}: they are of another encoder. Load the pipeline as it was saved, or call the "
    "component's `keep_words` again."
)
OTHER_SETTING = (
    "The weights belong to an encoder with {name} = {found}, and the [model] block says "
    "{expected}. Write {name} = {found} there, or load other weights."
)
NO_START_STATE = (
    'The [model] block says state = "warm", and the weights bring no state to start from. Write '
    'state = "reset", or make weights with one: `spacy ctxvec convert MODEL OUT --warm-up TEXT`.'
)
BAD_ALIGNMENT = "An alignment is a matrix {expected} of finite numbers; found: {found}."
BAD_CHECKSUM = "A checksum has 8 hexadecimal digits or more; found: {found}."
OTHER_CHECKSUM = "{path} has the sha256 {found}. Expected: {expected}."
OUT_IS_SOURCE = (
    "{path} holds the model that is read, which writing there would remove. Name another folder."
)
NO_SENTENCES = "There is no sentence in {path}. Expected plain text, a sentence a line."
NOTHING_TO_CONVERT = (
    "Name a model and the folder to write: `spacy ctxvec convert MODEL OUT`. --list prints the "
    "public models there are names for."
)
SELF_CHECK_FAILED = (
    "The vectors of {source} are not those of its equations: they differ by up to {found:.1e}, and "
    "at most {expected:.0e} is expected. Nothing was written; please report this model."
)
EFML_KIND = (
    '{path} describes a model of ELMoForManyLangs of another kind: {field} = "{found}". Only '
    '"{expected}" can be read, which all published models have.'
)
NOT_EFML = (
    "The model cannot be written to {path} in the layout of ELMoForManyLangs: {reason}. Export it "
    "in another format."
)
NO_MODEL_PATH = "There is no model at {path}: no such file or folder. Check the path."
UNKNOWN_MODEL = (
    "There is no model that can be read at {path}. Found: {found}. Expected: a folder with "
    "config.json and model.safetensors; an ELMo options JSON beside an HDF5 file with its weights; "
    "a TensorFlow checkpoint; a model of ELMoForManyLangs, of AllenNLP or of CoVe; or an archive."
)
EMPTY_WINDOW = "The setting max_tokens = {found} leaves windows no words. Expected: 1 or more."
AMBIGUOUS_MODEL = (
    "There are several models at {path}, and the names do not tell which files belong together: "
    "{found}. Give the path of one of the weight files, or put each model in a folder of its own."
)


def malformed_model(path: object, field: str, expected: str, found: object) -> MalformedModelError:
    """The error of a model file whose `field` is not what it should be."""
    message = MALFORMED_MODEL.format(path=path, field=field, expected=expected, found=found)
    return MalformedModelError(message)


UNSAFE_PICKLE = (
    "{path} cannot be read as tensors and plain values, and nothing else is unpickled, since a "
    "pickle can run code: {error} If you trust the file, load it with the program that wrote it, "
    "and save the state dict of its encoder alone with torch.save()."
)
BAD_PIPELINE_WEIGHTS = (
    "The saved weights of the encoder cannot be read: {error}. Save the pipeline again."
)
NO_WEIGHTS = (
    "The encoder of '{name}' has no weights: its settings say init = \"random\" and it was neither "
    "initialised nor loaded. Call nlp.initialize(), give it a loader under [initialize.components."
    '{name}], or, for a biLM, set init = "en_sm". A component in [training] frozen_components is '
    "not initialised; set frozen = true in [components.{name}] instead."
)
UNKNOWN_INIT = 'init = "{found}" is not known. Expected "en_sm" (the shipped model) or "random".'
SHIPPED_SIZES = (
    "The shipped model {init} does not fit the encoder of '{name}': {problem} Give the component "
    'the sizes of the shipped model, a loader for other weights, or init = "random".'
)
NO_VECTORS_PIPELINE = (
    "Cannot take static vectors from {path}: {error}. Expected a saved or installed pipeline with "
    "vectors; `python -m spacy init vectors LANG VECTORS.txt FOLDER` makes one of a text file."
)
BAD_PAIR_SOURCE = (
    "{found} names no parallel text. Expected a file that holds both sides, or a list of two "
    'line-aligned files, ["SOURCE", "TARGET"].'
)
NO_BLEU = (
    "BLEU is computed by the package sacrebleu, which cannot be used: {error}. Install it with "
    "`pip install 'spacy-ctxvec[nmt]'`."
)
NO_TRANSFORMERS = (
    "Transformers are read by the package transformers, which cannot be used: {error}. Install it "
    "with `pip install transformers`; `pip install 'spacy-ctxvec[transformers]'` brings "
    "spacy-transformers as well."
)
NO_SUCH_TRANSFORMER = (
    "A transformer of type {found} cannot be an encoder. Expected one stack of layers over the "
    "words of a text, as BERT, RoBERTa, DeBERTa or GPT-2 are."
)
NO_PIECES = (
    "The transformer has no tokenizer yet, nor weights: it comes with both. Load a pipeline that "
    "has them, or give the component a loader under [initialize.components]."
)
NO_FAST_TOKENIZER = (
    "The transformer in {path} has no {name}. Expected the file that fast tokenizers are saved in: "
    "`AutoTokenizer.from_pretrained(...).save_pretrained(...)` of transformers writes it."
)
NO_TOKENIZERS = (
    "Pieces of words are made by the package tokenizers, which cannot be used: {error}. Install it "
    "with `pip install 'spacy-ctxvec[nmt]'`, or set `subwords = false`."
)
KINDS = {
    "bilm": "a biLM",
    "mtlstm": "the MT-LSTM of a translation model",
    "transformer": "a transformer",
}
NOT_A_BILM = (
    "The encoder in {path} is not a biLM but {found}, which predicts no words here. Expected a "
    "model folder of `spacy ctxvec pretrain`, or an imported biLM."
)
NO_TRANSLATOR_VECTORS = (
    "The model folder holds no static vectors. Name a pipeline that has those the model was "
    "trained with: --vectors PIPELINE."
)
NO_TRANSLATOR = (
    "{path} holds no {name}, the translation model that an encoder was trained in. Expected a "
    "model folder of `spacy ctxvec train-nmt`."
)
NO_STATIC_VECTORS = (
    "The encoder spacy-ctxvec.CoVe.v1 reads static vectors, and nlp.vocab.vectors is empty. Name "
    "vectors under [initialize] vectors, or start from a pipeline that has some; with vectors = "
    '"model", a loaded model may bring them.'
)
STATIC_WIDTH = (
    "The static vectors have width {found}, and the encoder reads vectors of width {expected}. Use "
    "the vectors that the encoder was trained with, or set input_width to theirs and train anew."
)
VECTORS_NOT_A_TABLE = (
    "Rows of static vectors cannot be copied: those of the pipeline are computed (floret or custom "
    'vectors). In a CoVe.v1 layer, set vectors = "vocab"; for training, take a table of vectors.'
)
VECTORS_OF_LOWER_CASE = (
    'nlp.vocab.vectors has the vectors of lower-cased words (attr = "LOWER"), and the copy in the '
    "model is looked up by words as they are written. Set lower = true in its [model] block."
)
WORDS_WITH_VECTORS = "{found:,} of {words:,} words ({share:.1%}) have a static vector"
CARRY_IN_CHILD = (
    'state = "carry" depends on the order of all batches and is refused in child processes. Use '
    'n_process=1, or state = "reset".'
)
BAD_LAYER_DROPOUT = "layer_dropout = {found} of the mix cannot work. Expected: 0 or more, below 1."
FIXED_WEIGHTS_AND_MODE = (
    'The mix has fixed weights and mode = "{mode}". Set one of them: leave out `weights`, or set '
    'mode = "learned".'
)
FIXED_WEIGHTS_COUNT = (
    "The mix has {found} fixed weights, and the encoder has {expected} layers, the token layer "
    "included. Give `weights` of the mix one number a layer."
)
LISTENER_NOT_LINKED = (
    'A Listener.v1 with upstream = "{upstream}" found no component to listen to. Put a `ctxvec` '
    "component before it in [nlp] pipeline; if `upstream` names one, check the name."
)
NOTHING_TO_LISTEN_TO = (
    "A Listener.v1 is trained on Docs without the vectors of '{upstream}'. If '{upstream}' stands "
    "in [training] frozen_components, add it to [training] annotating_components as well; or leave "
    "it out of both and set frozen = true in [components.{upstream}]."
)
PREDICTS_FROM_ZEROS = (
    "A Listener.v1 predicts on Docs without the vectors of '{upstream}', and so from zeros. Run "
    "the whole pipeline, with '{upstream}' enabled and before the components that listen to it; "
    "in training, '{upstream}' must stand in annotating_components where they do. To run a "
    'component again on a Doc that is finished, set store = "layers" in [components.{upstream}].'
)
CONCAT_WIDTH_UNKNOWN = (
    "Concat.v1 has to know the width of each part, and `{part}` does not tell it. Set its width "
    "(nO of spacy.StaticVectors.v2) in the config."
)
CONCAT_EMPTY = "Concat.v1 has no part. Set at least one of listener, static, hash."
NO_DATA_ON_DOC = (
    "This Doc has no contextual vectors. Either no `ctxvec` component has seen it, or they were "
    "lost: DocBin keeps them with store_user_data=True, and span.as_doc() and Doc.from_docs do "
    "not. Run the pipeline on it."
)
NO_SUCH_COMPONENT = "This Doc has no vectors of a component '{name}'. It has those of: {found}."
NO_SUCH_LAYER = "There is no layer {found}. Expected: {expected}."
LAYERS_NOT_KEPT = (
    "The layers of '{name}' were not kept on this Doc. Set store = \"layers\" in "
    "[components.{name}] to keep them."
)
OUTPUT_NOT_KEPT = (
    'The vectors were not kept on this Doc. Set store = "output" or "layers" in the block of the '
    "`ctxvec` component to keep them."
)
RETOKENISED = (
    "The contextual vectors of this Doc were made for other tokens: it was retokenised since. Run "
    "the pipeline on the new tokens."
)
TWO_UPSTREAMS = (
    "A listener of '{component}' has upstream = \"*\", and the pipeline has more than one encoder "
    "before it: {names}. Set `upstream` of the listener to one of these names."
)
FOREIGN_LISTENER = (
    "'{component}' listens to '{encoder}' with spaCy's Tok2VecListener, which reads the data of a "
    "`tok2vec` component. Give it the architecture spacy-ctxvec.Listener.v1."
)
TENSOR_TAKEN = (
    "'{user}' uses doc.tensor for the output of a `tok2vec` component, so '{name}' leaves "
    "doc.tensor alone; token.vector and doc._.ctxvec serve its vectors."
)
LISTENER_WIDTH = (
    "A listener of '{component}' expects vectors of width {found}, and the layers of '{name}' "
    "have {expected}. Set its width to ${{components.{name}.model.width}}."
)
OTHER_LANGUAGE = (
    "'{name}' uses the weights of '{source}', trained on language \"{found}\", in a pipeline for "
    '"{expected}". Load weights for that language with [initialize.components.{name}.loader].'
)
GPU_IN_CHILD = (
    "A forked process cannot use the encoder on the GPU that its parent used. Use n_process=1, "
    "or do not call spacy.require_gpu() or prefer_gpu() before the fork."
)
NO_LABELS = "'{name}' predicts no labels, so none can be added to it."
OUT_OF_MEMORY = (
    "The GPU has too little memory for a batch of the encoder: max_batch_items is {items} from "
    "now on. Set that in the config, to save the attempts."
)
NO_PRECISION = (
    "precision = {precision!r} is not faster on this {device}, or cannot be used there: float32 it "
    "is."
)
WEIGHTS_FROM = "'{name}': weights from {source}"
BAD_OUTPUT = (
    'output = {found} cannot work. Expected "mean", "top" or {n_layers} numbers, one a layer.'
)
NO_LISTENER_IN_CONFIG = (
    "The config of the component has no spacy-ctxvec.Listener.v1 under model.tok2vec that could "
    "be replaced."
)
UNFREEZES_UNKNOWN = (
    "gradual_unfreezing.v1 names '{name}', which is no `ctxvec` component of the pipeline. It has: "
    "{found}."
)
DEMO_NO_FILE = (
    "There is no text file {path}. Give a plain text file, - for standard input, or nothing for "
    "the sample page."
)
DEMO_NOT_TEXT = (
    "Cannot read {source} as UTF-8 text: {error}. Expected plain text; convert the file, for "
    "instance with `iconv -t utf8`, and give the result as FILE."
)
NOTHING_TO_PROBE = (
    "Nothing to tell apart: {found} kinds of labels were found on the words. Expected annotated "
    "training and test data, with labels that both of them have."
)
NO_SENSES = "Cannot read word senses from {path}: expected {expected}, found {found}."
NO_MIXES = (
    "No component here has learned layer weights. Expected a trained pipeline in which components "
    "read a `ctxvec` through Listener.v1 or have Tok2Vec.v1; found the components: {found}."
)
OTHER_DEPTHS = (
    "The pipelines do not compare: '{component}' reads encoders of {found} layers. Give pipelines "
    "of one encoder."
)
CANNOT_WRITE_PLOT = "Cannot write {path}: {error}. Name another file with --plot."
NO_SUCH_COMPONENTS = (
    "No config for the components: {found}. Expected some of {expected}, with commas between them."
)
CONFIG_EXISTS = "{path} is there already. Give another name, or --force to replace it."
SHIPPED_IS_ENGLISH = (
    "The shipped encoder ({shipped}) reads English, and lang is {lang!r}. Give a model of that "
    "language as --encoder: `spacy ctxvec pretrain` trains one, `spacy ctxvec convert` imports one."
)
NO_WORDS_TO_TIME = "No words in {source}, of which the speed could be measured."
DEMO_TOO_SHORT = (
    "{source} holds {found} word(s), too few to compare. Expected a text of 2 words or more; give "
    "another FILE, or none for the sample page."
)
CANNOT_WRITE = "Cannot write {path}: {error}. Name another file with --output."
UNREADABLE_PIPELINE = (
    "Cannot load the pipeline {path}: {error} Expected a folder that nlp.to_disk() wrote, or the "
    "name of an installed pipeline."
)
PIPELINE_WITHOUT_CTXVEC = (
    "The pipeline {path} has no `ctxvec` component; it has: {found}. Name one that has, or add one "
    'with nlp.add_pipe("ctxvec", first=True) and save it again.'
)
LOADER_NOT_USED = (
    "'{name}': the loader is not used, since the weights came with the pipeline ({source}). Start "
    "from a new component to load others."
)
OTHER_WIDTH = (
    "The two vectors cannot be compared: one has {expected} numbers and the other {found}. Compare "
    "vectors of the same component."
)
OTHER_CORPUS = (
    "The corpus in {folder} was made with other settings: {field} was {found}, and the config says "
    "{expected}. Remove the folder to make it anew, or name another working folder."
)
BAD_LOGGER = (
    "The logger of the config ([pretrain.logger] or [train_nmt.logger]) cannot be used. Name one "
    "that is installed, with its own settings, or leave out the block. {error}"
)
NO_TENSORBOARD = (
    "spacy-ctxvec.TensorBoard.v1 needs the package tensorboard, which cannot be imported: {error} "
    "Install it with `pip install 'spacy-ctxvec[tensorboard]'`."
)
UNKNOWN_FEATURE_SETTING = (
    "The block [components.<name>.feature_cache] has no setting {found}. Expected: {expected}."
)
FEATURES_FULL = (
    "The feature cache is full: max_mb = {max_mb:g} and found {found}. What is there goes on being "
    "used, and other texts are read anew in every epoch. Raise max_mb in "
    '[components.<name>.feature_cache], or set dtype = "float16" there.{advice}'
)
FEATURES_PRUNE = " `spacy ctxvec cache prune` removes the layers of other models."
FEATURES_NO_FOLDER = (
    "The folder {folder} of the feature cache cannot be used: {error}. Name another one as "
    "`folder` in [components.<name>.feature_cache]."
)
FEATURES_NOT_WRITTEN = (
    "Nothing more is written to the feature cache in {folder}: {error}. Texts that are not there "
    "are read anew in every epoch."
)
FEATURES_DAMAGED = (
    "{path} and the file beside it are left out of the feature cache: {error}. Remove both; the "
    "texts are read again."
)
UNUSABLE_CONFIG = (
    "Cannot make a pipeline of the config {path}: {error} Expected the config of a training; "
    "settings that it leaves open are taken from the variable SPACY_CONFIG_OVERRIDES."
)
NO_DOCS_PATH = (
    "There is nothing at {path}. Expected .spacy files that DocBin.to_disk() wrote, or a folder of "
    "them."
)
FEATURES_OF_NO_MODEL = "{root} holds no layers of a model {found}. It holds those of: {expected}."
NOTHING_TO_PRUNE = (
    "Which layers are to go? Give --max-gb N (those used longest ago, until N GB are left), "
    "--model NAME (as `spacy ctxvec cache show` prints it), or --all."
)
UNKNOWN_AXIS = 'per = "{found}" is not known. Expected one of: {expected}.'
NO_CURVE = (
    "{path} is not drawn, since matplotlib cannot be imported ({error}). Install it with "
    "`pip install 'spacy-ctxvec[plot]'`."
)
DATA_FOLDER_MISSING = (
    "Data sets are taken from the folder that the variable {variable} names; it is {state}. "
    "Set it to a folder that holds {wanted}, for example: export {variable}=~/data.{address}"
)
DATA_SET_UNKNOWN = "No data set {name!r} in {root} (from {variable}); found: {found}.{address}"
DATA_SET_AMBIGUOUS = "{name!r} names several data sets in {root}: {found}. Give the whole name."
DATA_DEST_MISSING = (
    "DEST is missing: say where {name} goes, as in `spacy ctxvec data {name} assets`."
)
DATA_DEST_IS_FILE = "DEST {dest} is a file; give a folder, new or existing."
DATA_ADDRESS = " The original is at {address}; the files there may be laid out differently."
