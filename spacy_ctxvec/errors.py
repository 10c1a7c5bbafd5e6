"""Every message a user can see, in one place: what was found, what was expected, what to change.

Messages are format strings; raise them as `CtxvecError(errors.NAME.format(...))`. Keeping them
together makes their tone one tone, and lets tests name the message instead of quoting it.
"""


class CtxvecError(ValueError):
    """A fault that the user can mend: a setting, a file, an order of components."""


class MalformedModelError(CtxvecError):
    """A model file or folder that cannot be read: names the file, the field and what was expected."""


UNREADABLE_TEXT = (
    "Cannot read {path} as UTF-8 text: {error}. Expected plain text, or text compressed as .gz, "
    ".bz2 or .xz; convert the file or leave it out of the corpus."
)
EMPTY_CORPUS = "The corpus holds no words: every paragraph was empty. Check the paths."
BAD_SETTING = "The setting {field} = {found} of the biLM cannot work. Expected: {expected}."
BAD_CHECKPOINT = (
    "Cannot read the checkpoint {path}: {error}. It may be cut off or come from another program; "
    "remove it to start again, or name another one."
)
LOSS_NOT_FINITE = (
    "The loss became {loss} at step {step}. The last checkpoint is intact; resume from it with a "
    "lower learn_rate or grad_clip."
)
