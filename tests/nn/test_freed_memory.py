"""Freed memory stays with the process, on Linux."""

from __future__ import annotations

import ctypes
import subprocess
import sys

import pytest

from spacy_ctxvec.nn import memory
from spacy_ctxvec.nn.memory import keep_freed_memory

FAULTS = """
import resource, torch
from spacy_ctxvec.nn.memory import keep_freed_memory

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(4):
        torch.ones(2**24)  # 64 MB, more than glibc ever keeps by itself
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

torch.set_num_threads(1)
before = faults()
keep_freed_memory()
faults(), faults()  # take the memory that is then kept
print(before, faults())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only glibc has these settings")
def test_large_tensors_get_no_fresh_pages():
    if not hasattr(ctypes.CDLL(None), "gnu_get_libc_version"):
        pytest.skip("not glibc")
    result = subprocess.run(
        [sys.executable, "-c", FAULTS], check=True, capture_output=True, text=True
    )
    before, after = map(int, result.stdout.split())
    assert after < before / 4, (before, after)


@pytest.mark.parametrize("platform", ["win32", "darwin"])
def test_elsewhere_nothing_happens(monkeypatch, platform):
    def no_library(name):
        raise AssertionError("looked for a library")

    monkeypatch.setattr(memory.sys, "platform", platform)
    monkeypatch.setattr(memory.ctypes, "CDLL", no_library)
    keep_freed_memory()


def test_a_c_library_without_the_setting(monkeypatch):
    monkeypatch.setattr(memory.sys, "platform", "linux")
    monkeypatch.setattr(memory.ctypes, "CDLL", lambda name: object())
    keep_freed_memory()
