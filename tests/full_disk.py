"""A full disk, as far as a process can make one for itself: none of its files grows beyond so many bytes."""

import resource
from contextlib import contextmanager


@contextmanager
def full(size: int):
    """Until the end of the block a write beyond `size` bytes of a file raises OSError, after what still fits."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
