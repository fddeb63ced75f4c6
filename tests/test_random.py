"""Philox: the published vectors, the same numbers everywhere, and numbers that look random."""

import numpy as np
import pytest

from conftest import kernel, same_bits

M, W = (0xD2511F53, 0xCD9E8D57), (0x9E3779B9, 0xBB67AE85)


def philox(key, counter, rounds=10):
    """In Python's integers."""
    (k0, k1), (c0, c1, c2, c3) = key, counter
    for _ in range(rounds):
        p, q = M[0] * c0, M[1] * c2
        c0, c1, c2, c3 = q >> 32 ^ c1 ^ k0, q & 0xFFFFFFFF, p >> 32 ^ c3 ^ k1, p & 0xFFFFFFFF
        k0, k1 = k0 + W[0] & 0xFFFFFFFF, k1 + W[1] & 0xFFFFFFFF
    return c0, c1, c2, c3


def reference(seed, offsets, rounds=10):
    key = seed & 0xFFFFFFFF, seed >> 32 & 0xFFFFFFFF
    words = [philox(key, (o & 0xFFFFFFFF, o >> 32 & 0xFFFFFFFF, 0, 0), rounds) for o in map(int, offsets)]
    return np.array(words, np.uint32).T


KNOWN = [  # philox4x32-10 of the paper's library: counter, key, result
    ([0] * 4, [0] * 2, [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]),
    ([0xFFFFFFFF] * 4, [0xFFFFFFFF] * 2, [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]),
    (
        [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344],
        [0xA4093822, 0x299F31D0],
        [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1],
    ),
]


def test_known_answers(executor):
    k = kernel("""
@tt.jit
def k(counter, key, out):
    low = tt.load(key).to(tt.uint64)
    seed = low | (tt.load(key + 1).to(tt.uint64) << 32)
    one = tt.philox(seed, tt.load(counter), tt.load(counter + 1), tt.load(counter + 2), tt.load(counter + 3))
    for j in tt.static_range(4):
        tt.store(out + j, one[j])
""")
    for counter, key, want in KNOWN:
        assert philox(key, counter) == tuple(want)
        out = np.zeros(4, np.uint32)
        k[1](np.array(counter, np.uint32), np.array(key, np.uint32), out)
        assert out.tolist() == want


NUMBERS = """
@tt.jit
def k(offsets, seed, ints, uniform, normal, R: tt.constexpr):
    i = tt.arange(0, 256)
    at = tt.load(offsets + i)
    tt.store(ints + i, tt.randint(seed, at, R))
    a, b, c, d = tt.randint4x(seed, at, n_rounds=R)
    tt.static_assert(a.dtype == tt.int32)
    tt.store(ints + 256 + i, a ^ b ^ c ^ d)
    tt.store(uniform + i, tt.rand(seed, at, R))
    u = tt.rand4x(seed, at, R)
    tt.store(uniform + 256 + i, u[0] + u[1] + u[2] + u[3])
    tt.store(normal + i, tt.randn(seed, at, R))
    n = tt.randn4x(seed, at, R)
    for j in tt.static_range(4):
        tt.store(normal + (j + 1) * 256 + i, n[j])
"""


@pytest.mark.parametrize("dtype, seed", [("int32", 42), ("int64", -(1 << 62) + 12345), ("uint32", -1)])
def test_numbers(executor, dtype, seed):
    info = np.iinfo(dtype)
    offsets = np.random.default_rng().integers(info.min, info.max, 256, dtype)
    ints, uniform, normal = np.zeros((2, 256), np.int32), np.zeros((2, 256), np.float32), np.zeros((5, 256), np.float32)
    rounds = 7 if dtype == "uint32" else 10
    kernel(NUMBERS)[1](offsets, seed, ints, uniform, normal, rounds)
    words = reference(seed, offsets, rounds)
    assert (ints[0].view(np.uint32) == words[0]).all()
    assert (ints[1].view(np.uint32) == np.bitwise_xor.reduce(words)).all()
    signed = words.view(np.int32)
    u = np.where(signed < 0, ~signed, signed).astype(np.float32) * np.float32(2**-31 - 2**-55)
    same_bits(uniform[0], u[0])
    same_bits(uniform[1], u[0] + u[1] + u[2] + u[3])
    wide = u.astype(np.float64)
    radius = np.sqrt(-2 * np.log(np.maximum(wide[[0, 0, 2, 2]], 1e-7)))
    want = radius * np.stack([f(2 * np.pi * wide[k]) for f, k in ((np.cos, 1), (np.sin, 1), (np.cos, 3), (np.sin, 3))])
    np.testing.assert_allclose(normal[1:], want, rtol=1e-5, atol=3e-6)
    same_bits(normal[0], normal[1])


def test_scalars_and_statistics(executor):
    out = np.zeros(8192, np.float32)
    one = np.zeros(2, np.float32)
    kernel("""
@tt.jit
def k(out, one, seed, n, BLOCK: tt.constexpr):
    i = tt.program_id(0) * BLOCK + tt.arange(0, BLOCK)
    tt.store(out + i, tt.rand(seed, i), mask=i < n)
    tt.store(out + n + i, tt.randn(seed, i), mask=i < n)
    tt.store(one + tt.program_id(0), tt.rand(seed, tt.program_id(0)))
""")[2](out, one, 3, 4096, 2048)
    u, z = out.reshape(2, 4096).astype(float)
    assert one[1] == out[1] and 0 <= u.min() and u.max() < 1 and len(set(u)) > 4000
    assert abs(u.mean() - 1 / 2) < 0.03 and abs(u.var() - 1 / 12) < 0.01
    assert abs(z.mean()) < 0.08 and abs(z.var() - 1) < 0.1 and 2.9 < np.abs(z).max() < 6
    assert abs(np.corrcoef(u[:-1], u[1:])[0, 1]) < 0.06
