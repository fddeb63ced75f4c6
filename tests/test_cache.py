"""The caches: which launches share a variant in memory, and what the disk cache survives."""

import os
import re
import sys
import threading
import warnings
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from processes import python

import tinyton as tt
from conftest import EXECUTORS, choose, kernel
from tinyton import cache

COMPILED = [name for name in EXECUTORS if name != "interpreter"]


@tt.jit
def double(x, out, n, BLOCK: tt.constexpr):
    i = tt.program_id(0) * BLOCK + tt.arange(0, BLOCK)
    tt.store(out + i, 2 * tt.load(x + i, mask=i < n), mask=i < n)


@tt.jit
def rows(x, out, columns, stride, BLOCK: tt.constexpr):
    i = tt.arange(0, BLOCK)
    at = tt.program_id(0) * stride + i
    tt.store(out + at, 2 * tt.load(x + at, mask=i < columns), mask=i < columns)


@tt.jit
def constant(out, C: tt.constexpr):
    tt.store(out, C)


@tt.jit
def first(out, C: tt.constexpr):
    tt.store(out, C[0])


@pytest.fixture(params=COMPILED)
def compiler(request, monkeypatch):
    """Each executor that has a C compiler, by name."""
    choose(request.param, monkeypatch)
    return request.param


@pytest.fixture
def empty_cache(tmp_path, monkeypatch):
    """An empty folder for this test's entries."""
    monkeypatch.setenv("TINYTON_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def launch_double():
    x, out = np.arange(50, dtype=np.float32), np.zeros(50, np.float32)
    double[1](x, out, 50, BLOCK=64)
    np.testing.assert_array_equal(out, 2 * x)


# In memory


def test_the_cache_of_a_kernel_is_a_mapping(executor):
    double._cache.clear()
    assert isinstance(double._cache, Mapping) and len(double._cache) == 0
    launch_double()
    launch_double()
    assert len(double._cache) == 1
    assert all(isinstance(c, tt.CompiledKernel) for c in double._cache.values())
    double._cache.clear()
    assert len(double._cache) == 0
    launch_double()
    assert len(double._cache) == 1


def test_a_new_shape_is_no_new_variant(executor):
    double._cache.clear()
    for n in (1, 15, 16, 50, 64, 100):
        x, out = np.arange(n, dtype=np.float32), np.zeros(n, np.float32)
        double[tt.cdiv(n, 64)](x, out, n, BLOCK=64)
        np.testing.assert_array_equal(out, 2 * x)
    in_vectors = any(compiled.low.divisors_used for compiled in double._cache.values())  # where 16 divides n
    assert len(double._cache) == 1 + in_vectors


@pytest.mark.parametrize(
    "change",
    [{"dtype": np.float64}, {"BLOCK": 128}, {"n": np.int64(2**40)}, {"num_threads": 32}, {"offset": 1}],
    ids=lambda change: next(iter(change)),
)
def test_what_makes_a_new_variant(executor, change):
    if "offset" in change and executor == "interpreter":
        pytest.skip("alignment changes nothing for the interpreter")
    given = {"dtype": np.float32, "BLOCK": 64, "n": 50, "num_threads": 64, "offset": 0}
    double._cache.clear()
    for now in (given, given | change, given, given | change):
        whole = np.zeros(64, now["dtype"])
        out = whole[now["offset"] :][:50]
        x = np.arange(50).astype(now["dtype"])
        double[0 if now["n"] > 50 else 1](x, out, now["n"], BLOCK=now["BLOCK"], num_threads=now["num_threads"])
        np.testing.assert_array_equal(out, 2 * x if now["n"] == 50 else 0)
    assert len(double._cache) == 2


def test_divisibility_makes_a_variant_only_where_it_changes_the_code(compiler):
    """A row stride that 16 divides lets every row be read in vectors, and a length lets none of them be partly off; on
    one thread nothing of it matters."""

    def run(columns, stride, threads):
        x = np.arange(8 * stride, dtype=np.float32).reshape(8, stride)
        out = np.zeros_like(x)
        rows[8](x, out, columns, stride, BLOCK=256, num_threads=threads)
        np.testing.assert_array_equal(out[:, :columns], 2 * x[:, :columns])
        assert not out[:, columns:].any()

    rows._cache.clear()
    for columns, stride in ((100, 128), (111, 128), (100, 144), (100, 160)):
        run(columns, stride, 32)
    assert len(rows._cache) == 1
    for columns, stride in ((112, 128), (96, 144)):
        run(columns, stride, 32)
    assert len(rows._cache) == 2
    for columns, stride in ((100, 101), (100, 130), (100, 144)):
        run(columns, stride, 32)
    assert len(rows._cache) == 3
    rows._cache.clear()
    for columns, stride in ((100, 101), (100, 128), (112, 128)):
        run(columns, stride, 1)
    assert len(rows._cache) == 1


@pytest.mark.parametrize(
    "values",
    [(True, 1, 1.0), (0, False), ((True,), (1,), (1.0,)), (0.0, -0.0), ((0.0,), (-0.0,))],
    ids=str,
)
def test_constants_that_are_equal_but_not_the_same(executor, values):
    k = first if isinstance(values[0], tuple) else constant
    k._cache.clear()
    out = np.zeros(1, np.float32)
    for _ in range(2):
        for value in values:
            k[1](out, C=value)
            assert str(out[0]) == str(np.float32(value[0] if k is first else value))
    assert len(k._cache) == len(values)


def test_nan_as_a_constant_does_not_grow_the_cache(executor):
    constant._cache.clear()
    out = np.zeros(1, np.float32)
    for _ in range(3):
        constant[1](out, C=float("nan"))
        assert np.isnan(out[0])
    assert len(constant._cache) == 1


@pytest.mark.parametrize("value", [[1], {1: 2}, {1}, bytearray(b"x")], ids=lambda v: type(v).__name__)
def test_a_constant_that_has_no_hash(executor, value):
    with pytest.raises(tt.KernelTypeError, match=rf"constexpr C is a {type(value).__name__}.*use a tuple or a number"):
        constant[1](np.zeros(1, np.float32), C=value)


# On disk


def entries(folder):
    return sorted(folder.glob("*.bin")) if folder.exists() else []


def test_an_entry_is_read_as_it_was_written(empty_cache):
    entry = cache.Entry("source", "compiler", "options")
    assert entry.read() is None
    for body in (b"", b"one\ntwo\n", bytes(range(256)) * 100):
        entry.write(body)
        assert entry.read() == body
        assert cache.Entry("source", "compiler", "options").read() == body
    assert [p.name for p in empty_cache.iterdir()] == [f"{entry.key}.bin"]
    assert entry.path().stat().st_mode & 0o777 == 0o600
    assert empty_cache.stat().st_mode & 0o777 == 0o700


def test_each_part_of_the_key_counts(empty_cache, monkeypatch):
    parts = ("source", "compiler", "options")
    keys = {cache.Entry(*parts).key}
    for k in range(3):
        keys.add(cache.Entry(*(p + "x" if j == k else p for j, p in enumerate(parts))).key)
    keys.add(cache.Entry("sourcec", "ompiler", "options").key)
    monkeypatch.setattr(tt, "__version__", "0.0.0")
    keys.add(cache.Entry(*parts).key)
    monkeypatch.setattr(cache, "FORMAT", "another")
    keys.add(cache.Entry(*parts).key)
    assert len(keys) == 7


def damaged(data, other):
    """Files that are not what was written, by name."""
    yield "empty", b""
    yield "swapped with another entry", other
    yield "a line more", data + b"\n"
    yield "headless", data.partition(b"\n")[2]
    yield "not JSON", b"{" * 100_000 + data
    for size in (1, 20, data.index(b"\n"), data.index(b"\n") + 1, len(data) // 2, len(data) - 1):
        yield f"cut after {size}", data[:size]
    for at in range(0, len(data), max(1, len(data) // 150)):
        for bit in (1, 128):
            yield f"bit flipped at {at}", data[:at] + bytes([data[at] ^ bit]) + data[at + 1 :]


def test_a_damaged_entry_is_a_miss_and_is_repaired(empty_cache):
    entry, other = cache.Entry("a", "c", "o"), cache.Entry("b", "c", "o")
    body = bytes(range(256))
    entry.write(body)
    other.write(body)
    data = entry.path().read_bytes()
    for name, wrong in damaged(data, other.path().read_bytes()):
        entry.path().write_bytes(wrong)
        assert entry.read() is None, name
    entry.write(body)
    assert entry.read() == body


def test_a_folder_where_an_entry_should_be(empty_cache):
    entry = cache.Entry("a", "c", "o")
    (entry.path() / "inside").mkdir(parents=True)
    entry.write(b"body")
    assert entry.read() is None
    assert [p.name for p in empty_cache.iterdir()] == [f"{entry.key}.bin"]


@pytest.mark.parametrize("name", ["cut", "empty", "swapped", "flipped", "refused by the driver"])
def test_kernels_survive_a_damaged_cache(compiler, empty_cache, name):
    def launch():
        double._cache.clear()
        before = cache.compiles()
        launch_double()
        return cache.compiles() - before

    assert (launch(), launch()) == (1, 0)
    (path,) = entries(empty_cache)
    data = path.read_bytes()
    if name == "cut":
        path.write_bytes(data[: len(data) // 2])
    elif name == "empty":
        path.write_bytes(b"")
    elif name == "swapped":
        constant._cache.clear()
        constant[1](np.zeros(1), C=1.5)
        (other,) = (p for p in entries(empty_cache) if p != path)
        os.replace(other, path)
    elif name == "flipped":
        at = len(data) * 2 // 3
        path.write_bytes(data[:at] + bytes([data[at] ^ 16]) + data[at + 1 :])
    else:
        entry = cache.Entry("", "", "")
        entry.key = path.stem
        entry.write(b"not a binary")
    assert (launch(), launch()) == (1, 0)
    assert entries(empty_cache) == [path]


def test_a_kernel_that_moved_is_the_same_kernel(compiler, empty_cache):
    text = """
@tt.jit
def k(x, BLOCK: tt.constexpr):
    i = tt.arange(0, BLOCK)
    tt.store(x + i, tt.load(x + i) + 3)
"""
    for lines in (0, 7):
        before = cache.compiles()
        x = np.zeros(16, np.int32)
        kernel("pass\n" * lines + text)[1](x, BLOCK=16)
        assert (x == 3).all()
        assert cache.compiles() - before == (lines == 0)
    assert len(entries(empty_cache)) == 1


def test_other_options_of_the_compiler_are_a_miss(compiler, empty_cache, monkeypatch):
    flag = {"opencl": "-DTINYTON_TEST=1", "cuda": "-DTINYTON_TEST=1"}[compiler]
    monkeypatch.delenv("TINYTON_BUILD_OPTIONS", raising=False)
    for options in ("", flag):
        double._cache.clear()
        monkeypatch.setenv("TINYTON_BUILD_OPTIONS", f"{os.environ.get('TINYTON_BUILD_OPTIONS', '')} {options}".strip())
        launch_double()
    assert len(entries(empty_cache)) == 2


def test_off_writes_nothing(compiler, empty_cache, monkeypatch):
    for word in ("off", "OFF", "none", "0"):
        monkeypatch.setenv("TINYTON_CACHE_DIR", word)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert cache.folder() is None
    double._cache.clear()
    launch_double()
    assert not empty_cache.exists() and not Path("off").exists()


def test_a_full_disk_leaves_nothing_behind(empty_cache, monkeypatch):
    def full(*args):
        raise OSError(28, "No space left on device")

    entry = cache.Entry("a", "c", "o")
    assert entry.read() is None
    monkeypatch.setattr(os, "replace", full)
    entry.write(b"body")
    assert list(empty_cache.iterdir()) == []


# A folder that cannot be trusted or written


def file_in_the_way(path, patch):
    path.parent.mkdir()
    path.write_text("")


def symbolic_link(path, patch):
    (path.parent / "target").mkdir(parents=True, mode=0o700)
    path.symlink_to(path.parent / "target")


def writable_by_the_group(path, patch):
    path.mkdir(parents=True)
    path.chmod(0o720)


def writable_by_all(path, patch):
    path.mkdir(parents=True)
    path.chmod(0o707)


def of_another_user(path, patch):
    path.mkdir(parents=True, mode=0o700)
    uid = os.getuid()
    patch.setattr(os, "getuid", lambda: uid + 1)


def read_only(path, patch):
    def denied(*args, **kwargs):
        raise PermissionError(13, "Permission denied", "/somewhere")

    path.mkdir(parents=True, mode=0o500)
    patch.setattr(cache.tempfile, "TemporaryFile", denied)


@pytest.mark.skipif(os.name != "posix", reason="owners and modes are those of POSIX")
@pytest.mark.parametrize(
    "spoil, why",
    [
        (file_in_the_way, "File exists|Not a directory"),
        (symbolic_link, "symbolic link"),
        (writable_by_the_group, "can be written by other users"),
        (writable_by_all, "can be written by other users"),
        (of_another_user, "belongs to another user"),
        (read_only, "Permission denied"),
    ],
)
def test_memory_only_with_one_warning(tmp_path, monkeypatch, executor, spoil, why):
    path = tmp_path / "deeper" / "cache"
    spoil(path, monkeypatch)
    monkeypatch.setenv("TINYTON_CACHE_DIR", str(path))
    double._cache.clear()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        launch_double()
        double._cache.clear()
        launch_double()
        assert cache.folder() is None
    assert [w.category for w in caught] == [tt.CacheWarning]
    text = str(caught[0].message)
    assert "memory only" in text and re.search(why, text) and "/" not in text
    assert not list((tmp_path / "deeper").rglob("*.bin"))


def test_threads_get_one_warning_together(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TINYTON_CACHE_DIR", str(tmp_path / "file"))
    barrier = threading.Barrier(8)

    def look():
        barrier.wait()
        cache.folder()

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        threads = [threading.Thread(target=look) for _ in range(8)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    assert len(caught) == 1


def test_the_folder_does_not_move_with_the_working_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TINYTON_CACHE_DIR", "relative-to-here")
    assert cache.folder() == tmp_path / "relative-to-here"


def test_without_platformdirs(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "platformdirs", None)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache._user_cache() == tmp_path / "tinyton"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache._user_cache() == tmp_path / ".cache" / "tinyton"


# Processes


def test_an_unwritable_home(compiler, tmp_path):
    """The driver's own caches and PyOpenCL's are in the home too: the launch is right all the same."""
    script = """
    for n in (4, 8):
        out = np.zeros(n, np.float32)
        put[1](out, n, 1.0, BLOCK=n)
        print(out.all())
    """
    home = {"HOME": "/dev/null", "XDG_CACHE_HOME": None, "TINYTON_CACHE_DIR": None, "POCL_CACHE_DIR": None}
    done = python(tmp_path, script, TINYTON_BACKEND=compiler, **home)
    assert done.stdout.split() == ["True", "True"]
    assert done.stderr.count("CacheWarning") == 1 and "memory only" in done.stderr


def test_a_second_process_compiles_nothing(compiler, tmp_path):
    """Nor does the driver in secret: its own cache is emptied in between, and the first launch is as little work as
    that. Processor time, of this process and those it starts: other work on the machine does not count."""
    script = """
    tt.backends.current()
    x, out = np.arange(1000, dtype=np.float32), np.zeros(1000, np.float32)
    start = sum(os.times()[:4])
    add[8](x, x, out, 1000, BLOCK=128)
    took = sum(os.times()[:4]) - start
    assert (out == 2 * x).all()
    print(took, tt.cache.compiles())
    """
    times, compiles = [], []
    for k in range(2):
        own = tmp_path / f"pocl-{k}"
        own.mkdir()
        done = python(
            tmp_path, script, TINYTON_BACKEND=compiler, POCL_CACHE_DIR=str(own), CUDA_CACHE_PATH=str(own / "nv")
        )
        took, count = done.stdout.split()
        times.append(float(took))
        compiles.append(int(count))
    assert compiles == [1, 0]
    assert times[1] < times[0] / 2, times


def test_twelve_processes_start_cold_together(compiler, tmp_path):
    """Five rounds, each on an empty cache. The processes are forked before any driver is in use, and wait for one
    another, so that all of them miss, compile and write at the same moment."""
    script = """
    import multiprocessing
    if os.environ["TINYTON_BACKEND"] == "opencl":
        import pyopencl

    def child(barrier, seed):
        tt.backends.current()
        x = np.arange(1000, dtype=np.float32) * seed
        out = np.zeros(1000, np.float32)
        for round in range(5):
            os.environ["TINYTON_CACHE_DIR"] = os.path.abspath(f"round-{round}")
            add._cache.clear()
            barrier.wait(60)
            add[8](x, x, out, 1000, BLOCK=128)
            assert (out == 2 * x).all()
            add._cache.clear()
            before = tt.cache.compiles()
            add[8](x, out, out, 1000, BLOCK=128)
            assert (out == 3 * x).all() and tt.cache.compiles() == before

    fork = multiprocessing.get_context("fork")
    barrier = fork.Barrier(12)
    processes = [fork.Process(target=child, args=(barrier, seed)) for seed in range(12)]
    for p in processes:
        p.start()
    for p in processes:
        p.join()
    assert [p.exitcode for p in processes] == [0] * 12
    for round in range(5):
        print(*os.listdir(f"round-{round}"))
    """
    warm = (
        "add.compile(*[np.zeros(1000, np.float32)] * 3, 1000, BLOCK=128)"  # PoCL's own cache: a second a process less
    )
    python(tmp_path, warm, TINYTON_BACKEND=compiler, TINYTON_CACHE_DIR="off")
    done = python(tmp_path, script, timeout=120, TINYTON_BACKEND=compiler)
    names = done.stdout.splitlines()
    assert len(names) == 5 and len(set(names)) == 1 and names[0].endswith(".bin") and " " not in names[0]
