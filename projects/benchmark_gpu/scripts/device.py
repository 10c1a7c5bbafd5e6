"""The GPU, or the CPU in its place, and what memory it takes to do something there."""

from __future__ import annotations

from collections.abc import Callable

import torch
from thinc.api import require_cpu, require_gpu, set_gpu_allocator

from spacy_ctxvec.analysis.facts import gpu_in_words
from spacy_ctxvec.errors import CtxvecError

MEGABYTE = 2**20


def chosen_device(gpu_id: int) -> torch.device:
    """GPU `gpu_id`, from now on that of Thinc and spaCy too; or, for -1, the CPU."""
    if gpu_id < 0:
        require_cpu()
        return torch.device("cpu")
    try:
        require_gpu(gpu_id)
    except ValueError as error:
        found = gpu_in_words()
        raise CtxvecError(f"No GPU {gpu_id}: {found}. Try it with --gpu-id -1.") from error
    set_gpu_allocator("pytorch")  # CuPy's memory is PyTorch's, and counted with it
    return torch.device("cuda", gpu_id)


def name_of(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU"


def peak_megabytes(run: Callable[[], object], device: torch.device) -> int | None:
    """The most memory of the GPU while `run` runs, beyond what was in use before; None on a CPU."""
    if device.type != "cuda":
        run()
        return None
    torch.cuda.reset_peak_memory_stats(device)
    before = torch.cuda.memory_allocated(device)
    run()
    torch.cuda.synchronize(device)
    return round((torch.cuda.max_memory_allocated(device) - before) / MEGABYTE)
