"""Kernels in both spellings become the same C, up to names."""

import re

import numpy as np
import pytest

import tinyton as tt
import tinyton.tile as ct
from tinyton import backends
from tinyton.codegen.dialect import CUDA
from tinyton.codegen.lower import front, lower
from tinyton.specialize import Specialization


@tt.jit
def add(x, nx, y, ny, out, n, T: tt.constexpr):
    i = tt.program_id(0) * T + tt.arange(0, T)
    tt.store(out + i, tt.load(x + i, mask=i < nx) + tt.load(y + i, mask=i < ny), mask=i < n)


@ct.kernel
def tile_add(x, y, out, T: ct.Constant[int]):
    i = ct.bid(0)
    ct.store(out, i, ct.load(x, i, T) + ct.load(y, i, T))


@tt.jit
def copy(x, nx, out, n, T: tt.constexpr):
    i = tt.program_id(0) * T + tt.arange(0, T)
    tt.store(out + i, tt.load(x + i))


@ct.kernel
def tile_copy(x, out, T: ct.Constant[int]):
    i = ct.bid(0)
    ct.store(out, i, ct.load(x, i, T, check_bounds=False), check_bounds=False)


@tt.jit
def transpose(x, rows, cols, stride, out, out_rows, out_cols, out_stride, T: tt.constexpr):
    i = tt.program_id(0) * T + tt.arange(0, T)
    j = tt.program_id(1) * T + tt.arange(0, T)
    tt.store(
        out + (j * out_stride)[:, None] + i[None, :],
        tt.trans(tt.load(x + (i * stride)[:, None] + j[None, :], mask=(i < rows)[:, None] & (j < cols)[None, :])),
        mask=(j < out_rows)[:, None] & (i < out_cols)[None, :],
    )


@ct.kernel
def tile_transpose(x, out, T: ct.Constant[int]):
    i, j = ct.bid(0), ct.bid(1)
    ct.store(out, (j, i), ct.transpose(ct.load(x, (i, j), (T, T))))


def cuda_text(kernel, args):
    """The CUDA of a kernel for these arguments and 128 threads, which takes no GPU."""
    bound, executor = kernel._bind(args, {}, {}), backends.current()
    constants = kernel.constants(bound)
    types = {n: kernel.describe(n, x, executor)[0] for n, x in bound.items() if n not in constants}
    spec = Specialization(tuple(types.items()), tuple(constants.items()))
    return lower(front(kernel.source, spec), spec, 128, CUDA, lambda *bounds: "").source


def accesses(text):
    """What moves data: names of local variables do not matter, the order of accesses and their helpers do."""
    lines = [line.strip() for line in text.split("\n") if not line.strip().startswith("//")]
    names = re.compile(r"\b(?!load_|store_)[a-z_]\w*")
    return [names.sub("v", line) for line in lines if re.search(r"(load|store)_\w+x\d\(|\[", line)]


@pytest.mark.parametrize(
    ("pointers", "arrays", "shapes"),
    [
        (add, tile_add, [(4096,)] * 3),
        (copy, tile_copy, [(4096,)] * 2),
        (transpose, tile_transpose, [(256, 128), (128, 256)]),
    ],
)
def test_both_spellings_access_memory_alike(interpreter, pointers, arrays, shapes):
    made, extent = [np.zeros(shape, np.float32) for shape in shapes], 64 if len(shapes[0]) > 1 else 1024
    flat = [part for a in made for part in (a, *a.shape, *(s // 4 for s in a.strides[:-1]))]
    texts = cuda_text(pointers, (*flat, extent)), cuda_text(arrays, (*made, extent))
    assert all("load_float32x4" in text and "store_float32x4" in text for text in texts)
    assert accesses(texts[0]) == accesses(texts[1])
