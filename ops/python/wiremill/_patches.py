"""_patches.py - patches as people have them, as the library takes them."""
from __future__ import annotations

from typing import Callable, Iterator, Optional

import numpy as np
from numpy.typing import ArrayLike, NDArray

PIECE = 2048   # patches of one call of the library: Ctrl-C is served between two
Progress = Callable[[int, int], None]   # patches scored, all patches


def as_rows(patches: ArrayLike, shape: tuple[int, ...], n_value: int) -> NDArray[np.float32]:
    """float32 in C order, (n, ...); what is that already is not copied. ValueError where the shape is not the model's."""
    given = np.asarray(patches)
    if given.dtype.kind not in "fiub":
        raise ValueError(f"patches of dtype {given.dtype}: numbers are needed")
    one = tuple(d for d in given.shape[1:] if d != 1)
    if given.ndim < 2 or (one != shape and given.shape[1:] != (n_value,)):
        hint = "; of one patch, give patches[None]" if tuple(d for d in given.shape if d != 1) == shape else ""
        raise ValueError(f"patches of shape {given.shape}, the model takes (n, {', '.join(map(str, shape))}){hint}")
    return np.ascontiguousarray(given, dtype=np.float32)


def pieces(n: int) -> Iterator[slice]:
    """Slices of at most PIECE; one, which may be empty, where that is all."""
    for first in range(0, max(n, 1), PIECE):
        yield slice(first, min(n, first + PIECE))


def tell(progress: Optional[Progress], done: int, of: int) -> None:
    """Calls progress, if there is one."""
    if progress is not None:
        progress(done, of)
