"""What was compiled, kept: keys, stores and the checks between a store and a program."""

from xpu_graph.cache.key import CacheKey
from xpu_graph.cache.local import XpuGraphLocalCache, default_cache
from xpu_graph.cache.memory import XpuGraphMemoryCache
from xpu_graph.cache.store import XpuGraphCache, no_cache

__all__ = [
    "CacheKey",
    "XpuGraphCache",
    "XpuGraphLocalCache",
    "XpuGraphMemoryCache",
    "default_cache",
    "no_cache",
]
