"""What the tests share: the executors, the thread mappings, kernels from text, and comparing to the last bit."""

import linecache
import os
import sys
from itertools import count
from typing import NamedTuple

import emulator
import numpy as np
import pytest

import tinyton as tt
from tinyton.passes.threads import choose_threads

EXECUTORS = [name for name, why in tt.backends.available().items() if why is None]
EMULATED = [] if emulator.unusable() else ["emulator"]  # runs the CUDA text of the suites that are about kernels
EMULATED_WARPS = (None, 1, 4)
SUITES = """atomic attack bench_products block_pointers calls cluster control descriptors everyday feed field float8
    flow fma fuzz hints instructions math memory ops order prefetch print random reductions reference scans seed
    select shapes share tensor tile_arrays tile_atomic tile_debug tile_matmul tile_memory tile_ops tile_python
    tile_reductions tiny_ton tuples types""".split()
_texts = count()
emulator.register()


def pytest_collection_modifyitems(items):
    """The emulator runs what is in SUITES alone."""

    def wanted(item):
        params = getattr(item, "callspec", None) and item.callspec.params.values()
        parts = (y for x in params or () for y in (x if type(x) is tuple else (x,)))
        emulated = any(isinstance(y, str) and y == "emulator" for y in parts)
        return not emulated or item.path.stem.removeprefix("test_") in SUITES

    items[:] = filter(wanted, items)


def mappings(*warps):
    """Parameters for `mapping`: executors with numbers of warps a program. None is the executor's own thread count, the
    only one for the interpreter, which has no threads; for OpenCL on a CPU, that of a GPU is another one."""
    fits = {"interpreter": (None,), "emulator": EMULATED_WARPS}
    pairs = [(name, n) for name in [*EXECUTORS, *EMULATED] for n in warps if n in fits.get(name, warps)]
    params = [pytest.param(pair, id=f"{pair[0]}-{pair[1] or 'default'}") for pair in pairs]
    gpu = pytest.param(("opencl as a GPU", None), id="opencl-gpu")
    return params + [gpu] * (("opencl", None) in pairs)


@pytest.fixture(scope="session", autouse=True)
def private_cache(tmp_path_factory):
    """Kernels of the tests are cached for this run alone."""
    with pytest.MonkeyPatch.context() as patch:
        if "TINYTON_CACHE_DIR" not in os.environ:
            patch.setenv("TINYTON_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        yield


class Mapping(NamedTuple):
    executor: str
    warps: int | None


@pytest.fixture(autouse=True)
def stage_modules():
    """What a test loads as a stage of some other package does not stay in the place of a stage of tinyton."""
    before = {name: module for name, module in sys.modules.items() if name.startswith("tinyton_stage_")}
    yield
    sys.modules.update(before)


def choose(name, monkeypatch):
    """Makes ``name`` the executor. PoCL's optimiser takes most of the time of a small OpenCL kernel, so it is off."""
    name, _, as_gpu = name.partition(" as a ")
    monkeypatch.setenv("TINYTON_BACKEND", name)
    if name == "opencl":
        monkeypatch.setenv("TINYTON_BUILD_OPTIONS", "-cl-opt-disable")
    if name == "emulator":
        tt.backends.current().restart()
    if as_gpu:
        opencl = tt.backends.current()
        monkeypatch.setattr(opencl, "default_threads", choose_threads)
        monkeypatch.setattr(opencl, "_key", opencl.key() + name)  # kernels know variants by it
    return name


@pytest.fixture
def rng():
    """Fresh random numbers; a test that fails shows their seed."""
    seed = int(np.random.SeedSequence().entropy) % 2**32
    print(f"seed {seed}")
    return np.random.default_rng(seed)


@pytest.fixture(params=[*EXECUTORS, *EMULATED])
def executor(request, monkeypatch):
    """Each executor of this machine, by name."""
    choose(request.param, monkeypatch)
    return request.param


@pytest.fixture(params=[*EMULATED, *{"cuda"}.intersection(EXECUTORS)])
def card(request, monkeypatch):
    """Each executor that runs CUDA's text: the emulator, and the GPU."""
    choose(request.param, monkeypatch)
    return tt.backends.current()


@pytest.fixture(params=mappings(None, 1, 2, 4, 8))
def mapping(request, monkeypatch):
    """Each executor with each thread mapping, by name and number of warps; launch with ``num_warps=mapping.warps``."""
    executor, warps = request.param
    return Mapping(choose(executor, monkeypatch), warps)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item):
    report = yield
    if report.failed and "emulator" in item.nodeid:
        report.sections.append(("emulator", f"to repeat it: TINYTON_EMULATOR_SEED={emulator.SEED}"))
    return report


@pytest.fixture
def interpreter(monkeypatch):
    choose("interpreter", monkeypatch)


def kernel(text, **names):
    """The kernel ``k`` that the lines of ``text`` define, as a notebook cell would."""
    file = f"<cell {next(_texts)}>"
    lines = [line + "\n" for line in text.strip("\n").split("\n")]
    linecache.cache[file] = len(text), None, lines, file
    scope = {"tt": tt, "__name__": "cell", **names}
    exec(compile("".join(lines), file, "exec"), scope)
    return scope["k"]


def lowered(kernel, signature, language="cuda", threads=128, share=False, **constants):
    """The kernel in C for arguments of these types, without a device."""
    from tinyton.codegen import dialect
    from tinyton.codegen.lower import front, lower
    from tinyton.specialize import Specialization, parse

    spec = Specialization(tuple(parse(signature).items()), tuple(constants.items()))
    return lower(
        front(kernel.source, spec), spec, threads, getattr(dialect, language.upper()), lambda *bounds: "", share
    )


def underlined(error):
    """What the carets of an error are under."""
    code, carets = str(error).split("\n")[1:3]
    return code[carets.index("^") : len(carets)]


def same_bits(got, want):
    """Asserts equality to the last bit, signs of zeros included; any NaN equals any NaN."""
    got, want = np.asarray(got), np.asarray(want)
    assert (got.dtype, got.shape) == (want.dtype, want.shape)
    if got.dtype.kind in "fV":
        bits = f"uint{8 * got.dtype.itemsize}"
        wrong = (got.view(bits) != want.view(bits)) & ~(np.isnan(got) & np.isnan(want))
    else:
        wrong = got != want
    if wrong.any():
        at = tuple(int(i) for i in np.argwhere(wrong)[0])
        pytest.fail(f"{wrong.sum()} of {wrong.size} differ; at {at}: {got[at]!r}, not {want[at]!r}")


class Foreign:
    """An array of some other library, which speaks DLPack alone."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


class Guarded:
    """An array between canaries, poisoned before the launch: what a kernel writes outside it, or leaves out, shows."""

    EDGE = 64  # elements, so that the array is aligned for vector stores

    def __init__(self, shape, dtype, poison=0xA5):
        self.memory = np.full((np.prod(shape, dtype=int) + 2 * self.EDGE) * np.dtype(dtype).itemsize, poison, np.uint8)
        self.array = self.memory.view(dtype)[self.EDGE : -self.EDGE].reshape(shape)
        self.edge = self.EDGE * np.dtype(dtype).itemsize
        self.poison = poison

    def check(self):
        assert (self.memory[: self.edge] == self.poison).all(), "written before the array"
        assert (self.memory[-self.edge :] == self.poison).all(), "written after the array"
        return self.array
