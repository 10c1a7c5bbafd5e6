"""One cache of word vectors for all encoders of a process whose token layers are the same.

The same pipeline loaded twice, sourced components and the copies that `replace_listeners` makes
would otherwise each compute and keep the same rows.
"""

from __future__ import annotations

from weakref import WeakValueDictionary

from .cache import ProcessLock, WordVectorCache

# Weak: a cache lives as long as an encoder that uses it.
_caches: WeakValueDictionary[str, WordVectorCache] = WeakValueDictionary()
_lock = ProcessLock()


def shared_cache(fingerprint: str, capacity: int) -> WordVectorCache:
    """The cache of the encoders with this `token_fingerprint_of`, for `capacity` words or more."""
    with _lock:
        cache = _caches.get(fingerprint)
        if cache is None:
            cache = _caches[fingerprint] = WordVectorCache(capacity)
        cache.capacity = max(cache.capacity, capacity)
        return cache
