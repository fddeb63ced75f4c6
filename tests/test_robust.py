"""What must not break a process: Ctrl-C, memory that runs out, forks, faults on the device, many launches, names."""

import contextlib
import importlib
import re
import textwrap
import weakref
from importlib.util import find_spec
from types import SimpleNamespace

import numpy as np
import pytest
from processes import python

import tinyton as tt
from conftest import EXECUTORS, kernel, same_bits
from tinyton import backends

COMPILED = [name for name in EXECUTORS if name != "interpreter"]

# Ctrl-C

CTRL_C = """
import signal, threading

@tt.jit
def slow(x, out, times, BLOCK: tt.constexpr):
    i = tt.arange(0, BLOCK)
    v = tt.load(x + i)
    for r in range(times):
        v = tt.sqrt(v * v + 1.0)
    tt.store(out + i, v)

n = 1 << 12
x, out = np.ones(n, np.float32), np.zeros(n, np.float32)
slow[1](x, out, 9, BLOCK=n)  # compiled; every odd number of times runs the same code
nine = out.copy()
times, took = 9, 0.0
while took < 1.0:
    times = 4 * times + 1
    start = time.time()
    slow[1](x, out, times, BLOCK=n)
    took = time.time() - start
for device in (False, True):
    a, b = (tt.to_device(x), tt.zeros(n, tt.float32)) if device else (x, out)
    threading.Timer(0.3 * took, os.kill, (os.getpid(), signal.SIGINT)).start()
    try:
        slow[1](a, b, times, BLOCK=n)
        if device:
            b.numpy()
        print("not interrupted")
    except KeyboardInterrupt:
        print("interrupted")
    out[:] = 0
    slow[1](x, out, 9, BLOCK=n)
    print((out == nine).all())
"""


def test_ctrl_c_leaves_everything_usable(executor, tmp_path):
    """KeyboardInterrupt comes when the running kernel is done; a NumPy array is never written to after it."""
    done = python(tmp_path, CTRL_C, TINYTON_BACKEND=executor)
    assert done.stdout.split() == ["interrupted", "True"] * 2, done.stdout


# Memory

OUT_OF_MEMORY = """
import resource

keep = tt.to_device(np.arange(64, dtype=np.float32))
if os.environ["TINYTON_BACKEND"] != "cuda":
    with open("/proc/self/statm") as f:
        most = int(f.read().split()[0]) * os.sysconf("SC_PAGESIZE") + (1 << 30)
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
held, failed = [], 0
def repeat():
    while True:
        held.append(tt.zeros(1 << 26))
        put[1](held[-1], 64, 1.0, BLOCK=64)
        tt.synchronize()
try:
    if os.environ["TINYTON_BACKEND"] != "cuda":
        repeat()
except (tt.BackendError, MemoryError):  # the host's memory for the zeros is NumPy's
    pass
held.clear()
for make in (lambda: tt.empty(1 << 50), lambda: tt.zeros((1 << 40, 4)), lambda: tt.empty(2**62, tt.int8)):
    try:
        held.append(make())
    except tt.BackendError as e:
        failed += "bytes cannot be allocated" in str(e)
print(failed)
out = np.zeros(64, np.float32)
for k in range(3):
    add[1](keep, keep, out, 64, BLOCK=64)
print((out == 2 * keep.numpy()).all())
"""


def test_out_of_memory_is_said_and_loses_nothing(executor, tmp_path):
    done = python(tmp_path, OUT_OF_MEMORY, TINYTON_BACKEND=executor)
    assert done.stdout.split() == ["3", "True"], done.stderr


# Many launches

GROWTH = """
import gc, tracemalloc

def pages():
    with open("/proc/self/statm") as f:
        return int(f.read().split()[1]) * os.sysconf("SC_PAGESIZE")

host, device = np.zeros(8, np.float32), tt.zeros(8, tt.float32)

def launches(n):
    for k in range(n):
        put[1](device, 8, 1.0, BLOCK=8)
        if k % 100 == 0:
            put[1](host, 8, 1.0, BLOCK=8)
    tt.synchronize()
    gc.collect()

launches(2000)
before = pages()
launches(MANY)
resident = pages() - before
tracemalloc.start()
launches(500)
before = tracemalloc.get_traced_memory()[0]
launches(500)
print(tracemalloc.get_traced_memory()[0] - before, resident)
"""


def test_many_launches_do_not_grow(executor, tmp_path):
    many = 5_000 if executor == "interpreter" else 100_000
    done = python(tmp_path, GROWTH.replace("MANY", str(many)), timeout=120, TINYTON_BACKEND=executor)
    traced, resident = map(int, done.stdout.split())
    assert traced < 30_000 and resident < 4 << 20, done.stdout


# Forks

FORKS = """
import multiprocessing

device = tt.to_device(np.arange(64, dtype=np.float32))
put[1](device, 8, 5.0, BLOCK=64)  # perhaps still running when the process forks

def work(k):
    out = np.zeros(64, np.float32)
    add[1](device, device, out, 64, BLOCK=64)
    put[1](device, 64, float(k), BLOCK=64)
    fresh = tt.zeros(64, tt.float32)
    put[1](fresh, 64, float(k), BLOCK=64 + 64 * (k % 2))  # compiled in the child
    return float(out.sum()), float(device.numpy().sum()), float(fresh.numpy().sum())

with multiprocessing.get_context("fork").Pool(2) as pool:
    print(*pool.map(work, range(3), chunksize=3))
child = os.fork()
if child == 0:
    grandchild = os.fork()
    if grandchild == 0:
        print(*work(7))
        sys.exit()
    os.waitpid(grandchild, 0)
    print(*work(8))
    sys.exit()
os.waitpid(child, 0)
print(*work(9))
"""


@pytest.mark.skipif("opencl" not in EXECUTORS, reason="there is no OpenCL")
def test_processes_forked_in_use_work_on_opencl(tmp_path):
    """In pools, in children of children, with arrays of the parent's, which stay the parent's own."""
    done = python(tmp_path, FORKS, TINYTON_BACKEND="opencl", PYTHONUNBUFFERED="1")
    start = 2.0 * (8 * 5 + sum(range(8, 64)))
    first = [(start, 0.0, 0.0), (0.0, 64.0, 64.0), (128.0, 128.0, 128.0)]
    assert done.stdout.splitlines() == [
        " ".join(map(str, first)), *(f"{start} {64.0 * k} {64.0 * k}" for k in (7, 8, 9))
    ]  # fmt: skip


YOUNG = """
import ctypes
from pathlib import Path
from tinyton.backends.opencl import unusable
from tinyton.backends.processor import rename_processor
assert unusable() is None
import pyopencl as cl

[driver] = (Path(cl.__file__).parent / ".libs").glob("libpocl-*.so")
known = ctypes.CDLL(str(driver)).pocl_get_llvm_cpu_name
known.restype = ctypes.c_char_p
devices = [d for p in cl.get_platforms() for d in p.get_devices()]
for d in devices:
    rename_processor(d, known(), b"generic")
try:
    cl.Program(cl.Context(devices[:1]), "kernel void k(global float* x) { x[0] = 1; }").build()
except cl.RuntimeError as error:
    print("unknown target CPU" in str(error))
out = np.zeros(4, np.float32)
put[1](out, 3, 2.5, BLOCK=4)
print(out)
"""


@pytest.mark.skipif(not find_spec("pocl_binary_distribution"), reason="there is no PoCL from PyPI")
def test_a_processor_younger_than_the_driver_gets_the_name_of_an_older_one(tmp_path):
    done = python(tmp_path, YOUNG, TINYTON_BACKEND="opencl", POCL_KERNEL_CACHE="0")
    assert done.stdout.split() == ["True", "[2.5", "2.5", "2.5", "0.", "]"], done.stderr


# Faults of the device, as PyCUDA tells them


class Error(Exception):
    pass


FAULT = "cuMemcpyDtoH failed: an illegal memory access was encountered"


class Context:
    def __init__(self):
        self.fault, self.depth, self.calls = None, 0, 0

    def push(self):
        self.depth += 1

    def pop(self):
        self.depth -= 1

    def synchronize(self):
        self.calls += 1
        if self.fault:
            raise Error(self.fault)


class Allocation:
    freed = 0

    def __int__(self):
        return 4096

    def __del__(self):
        Allocation.freed += 1


@pytest.fixture
def cuda(monkeypatch):
    """The CUDA executor over a driver that can be told to have a fault."""
    module = importlib.import_module("tinyton.backends.cuda")
    executor = object.__new__(module.Executor)
    context = Context()

    def driver(*args):
        context.calls += 1
        if context.fault:
            raise Error(context.fault)

    cu = SimpleNamespace(
        Error=Error, memcpy_dtoh=driver, memcpy_htod=driver, mem_alloc=lambda n: driver() or Allocation()
    )
    executor.cu, executor.context, executor._side = cu, context, None
    executor.thread, executor.forked, executor.lost, executor.last = 0, False, "", None
    executor.alive = weakref.WeakSet()
    monkeypatch.setattr(module.atexit, "register", lambda f: None)
    monkeypatch.setattr(module.Executor, "_after_torch", lambda self, stream: contextlib.nullcontext(stream))
    executor.driver = driver
    return executor


def launched(executor, compiled):
    compiled.loaded = SimpleNamespace(start=lambda *args: executor.driver(), pack=lambda *args: args, shared=0)
    executor.launch(compiled, (1, 1, 1), [])


def test_a_fault_is_said_once_with_kernel_and_lines(cuda, monkeypatch):
    monkeypatch.setenv("TINYTON_BACKEND", "interpreter")
    k = kernel("""
@tt.jit
def k(x, n):
    i = tt.arange(0, 8)
    v = tt.load(x + i, mask=i < n)
    tt.store(x + 1000 * i, v)
""")
    compiled = k.compile(np.zeros(8, np.float32), 8)
    launched(cuda, compiled)
    kept = [cuda.allocate(64) for _ in range(3)]
    freed = Allocation.freed
    del kept[0]
    assert Allocation.freed == freed + 1
    cuda.context.fault = FAULT
    with pytest.raises(tt.BackendError) as caught:
        cuda.read(4096, np.zeros(1))
    text = str(caught.value)
    assert text.startswith("the CUDA context is lost: an illegal memory access was encountered, in kernel k (line 2; ")
    assert "accesses memory without a mask in line 5) or in one launched after it. Restart the process" in text
    calls = cuda.context.calls
    for again in (
        lambda: launched(cuda, compiled),
        lambda: cuda.read(4096, np.zeros(1)),
        lambda: cuda.write(4096, np.zeros(1)),
        lambda: cuda.allocate(4),
        cuda.synchronize,
    ):
        with pytest.raises(tt.BackendError) as caught:
            again()
        assert str(caught.value) == text
        assert caught.value.__context__ is None or caught.value.__suppress_context__
    assert str(cuda.refused("other", Error(FAULT))) == text
    freed = Allocation.freed
    kept.clear()
    assert Allocation.freed == freed, "what cannot be freed is kept, since its destructor would complain"
    assert cuda.context.calls == calls, "the driver is not asked again"
    assert cuda.context.depth in (0, 1)


@pytest.mark.parametrize(
    "text, lost",
    [
        ("cuCtxSynchronize failed: misaligned address", True),
        ("cuLaunchKernel failed: unspecified launch failure", True),
        ("cuCtxSynchronize failed: the launch timed out and was terminated", True),
        ("cuCtxSynchronize failed: device-side assert triggered", True),
        ("cuMemAlloc failed: out of memory", False),
        ("cuLaunchKernel failed: invalid argument", False),
        ("cuLaunchKernel failed: too many resources requested for launch", False),
    ],
)
def test_which_errors_leave_a_context_unusable(cuda, text, lost):
    cuda.context.fault = text
    if lost:
        with pytest.raises(tt.BackendError, match="context is lost: " + re.escape(text.partition(": ")[2])):
            cuda.allocate(4)
    else:
        with pytest.raises(tt.BackendError, match="4 bytes cannot be allocated"):
            cuda.allocate(4)
        assert type(cuda.refused("k", Error(text), " with 8 threads")) is tt.LaunchError
    assert bool(cuda.lost) is lost


FAULTY = """
@tt.jit
def far(x, n):
    i = tt.arange(0, 64)
    tt.store(x + i * n, 1.0)

x, y = tt.zeros(64, tt.float32), tt.zeros(64, tt.float32)
put[1](y, 64, 1.0, BLOCK=64)
tt.synchronize()
far[1](x, 1 << 40)
told = []
for call in (lambda: y.numpy(), lambda: put[1](y, 64, 1.0, BLOCK=64), lambda: put[1](y, 64, 1.0, BLOCK=64),
             lambda: tt.zeros(4), lambda: tt.synchronize()):
    try:
        call()
    except tt.BackendError as e:
        told.append(str(e))
print(len(told), len(set(told)), "kernel far (line" in told[0], "context is lost" in told[0])
"""


@pytest.mark.gpu
@pytest.mark.skipif(backends.available()["cuda"] is not None, reason="no GPU with PyCUDA here")
def test_a_fault_on_the_device(tmp_path):
    """Every later call says the same, and the process ends without a word more."""
    done = python(tmp_path, FAULTY, TINYTON_BACKEND="cuda")
    assert done.stdout.split() == ["5", "1", "True", "True"], done.stdout
    assert done.stderr == ""


@pytest.mark.parametrize("variable", ["NVCC_APPEND_FLAGS", "NVCC_PREPEND_FLAGS", "TINYTON_BUILD_OPTIONS"])
def test_flags_that_nvcc_takes_from_the_environment_are_in_the_key(cuda, monkeypatch, variable):
    """The same kernel built under other flags is another entry of the disk cache."""
    module = SimpleNamespace(get_function=lambda name: None)
    cuda.arch, cuda._key, cuda.cu.module_from_buffer, built = "sm_90", "cuda", lambda binary: module, []
    cuda._compile = lambda low, options: built.append(options) or b"binary"
    monkeypatch.setenv("TINYTON_BACKEND", "interpreter")
    value = np.random.default_rng().integers(1 << 30)
    low = kernel(f"@tt.jit\ndef k(x):\n    tt.store(x, {value})").compile(np.zeros(1, np.int32)).low
    for flags in (None, "-fmad=true", None, "-g", "-fmad=true"):
        monkeypatch.setenv(variable, flags) if flags else monkeypatch.delenv(variable, raising=False)
        cuda.build(low)
    assert len(built) == 3


def test_each_compiler_has_its_own_entries(cuda, monkeypatch):
    from tinyton.backends import nvcc, nvrtc

    module = SimpleNamespace(get_function=lambda name: None)
    cuda.arch, cuda._key, cuda.cu.module_from_buffer, built = "sm_90", "cuda", lambda binary: module, []
    cuda._compile = lambda low, options: built.append(cuda.key()) or b"binary"
    monkeypatch.setattr(nvrtc, "version", lambda: "nvrtc 13.0")
    monkeypatch.setattr(nvcc, "version", lambda: "nvcc 13.0.88")
    monkeypatch.setenv("TINYTON_BACKEND", "interpreter")
    value = np.random.default_rng().integers(1 << 30)
    low = kernel(f"@tt.jit\ndef k(x):\n    tt.store(x, {value})").compile(np.zeros(1, np.int32)).low
    for word in ("nvcc", "nvrtc", "", "nvrtc"):
        monkeypatch.setenv("TINYTON_COMPILER", word)
        cuda.build(low)
    assert built == ["cuda nvcc 13.0.88", "cuda nvrtc 13.0"]


# Names and texts


NAMES = [
    "double",
    "kernel",
    "main",
    "λk",
    "half",
    "float4",
    "__global__x",
    "printf",
    "a" * 300,
    "straße",
    "x_kernel",
    "int32",
]
LOCALS = [
    "threadIdx",
    "new",
    "int",
    "float",
    "kernel",
    "main",
    "blockIdx",
    "this",
    "unsigned",
    "register",
    "shared_memory",
    "get_global_id",
    "thread",
]
LOCALS += [
    "r",
    "r0",
    "NULL",
    "M_PI",
    "uint",
    "half_bits",
    "load_float32x4",
    "Δx",
    "ﬁ",
    "b" * 300,
    "b" * 299 + "c",
    "asm",
]


def test_kernels_and_variables_with_hostile_names(executor):
    """All names in one kernel, each a parameter or a local whose value comes out; and kernels of every name."""
    lines = [f"    {name} = tt.load(x + i + {k}) * 2" for k, name in enumerate(LOCALS)]
    lines += [f"    tt.store(out + 4 * {k} + i, {name})" for k, name in enumerate(LOCALS)]
    k = kernel("@tt.jit\ndef k(x, out):\n    i = tt.arange(0, 4)\n" + "\n".join(lines))
    x = np.random.default_rng().normal(size=len(LOCALS) + 4).astype(np.float32)
    out = np.zeros((len(LOCALS), 4), np.float32)
    k[1](x, out)
    same_bits(out, 2 * x[np.arange(len(LOCALS))[:, None] + np.arange(4)])
    assert k.compile(x, out).low.located.isascii()
    text = "".join(f"@tt.jit\ndef {n}({n}_):\n    tt.store({n}_, {i})\n\n" for i, n in enumerate(NAMES))
    kernels = kernel(text + f"k = [{', '.join(NAMES)}]")
    for i, k in enumerate(kernels):
        out = np.zeros(1, np.int32)
        k[1](out)
        assert out[0] == i, k
        assert k.compile(out).low.located.isascii(), "PyCUDA writes it in the encoding of the locale"


@pytest.mark.parametrize("name", ["threadIdx", "new", "printf", "λ", "c" * 300, "double", "uint4"])
def test_parameters_with_hostile_names(executor, name):
    k = kernel(f"@tt.jit\ndef k({name}, n_{name}):\n    tt.store({name}, n_{name})")
    out = np.zeros(1, np.int32)
    k[1](out, 7)
    assert out[0] == 7


def test_texts_in_a_kernel_are_not_code(executor):
    k = kernel('''
@tt.jit
def k(x, WORD: tt.constexpr):
    """*/ } " ' \\\\ %s
    #error "no" ??/
    """
    # */ int main() { \\\\
    tt.static_assert(WORD != "no", '*/ " \\\\ ??/ %n')  # ends with \\\\
    if WORD == '*/ "':  # ??/
        tt.store(x, 1)
''')
    for word, value in (('*/ "', 1), ("\\", 0), ("\n#error", 0), ("λ" * 300, 0)):
        x = np.zeros(1, np.int32)
        k[1](x, WORD=word)
        assert x[0] == value
    with pytest.raises(tt.KernelValueError) as caught:
        k[1](x, WORD="no")
    assert caught.value.message == 'static_assert failed: */ " \\ ??/ %n'


@pytest.mark.parametrize("file", ['a "b".py', "a\nb.py", "a\\", "*/", "λ" * 50 + ".py"])
def test_files_with_hostile_names(executor, file):
    """A cell or a file may have any name: it goes into no C, and messages are as ever."""
    import linecache

    text = "@tt.jit\ndef k(x):\n    tt.store(x, 1)\n    tt.store(x, undefined)\n"
    for body in (text.replace(", undefined", ", 2"), text):
        linecache.cache[file] = len(body), None, body.splitlines(keepends=True), file
        scope = {"tt": tt, "__name__": "cell"}
        exec(compile(body, file, "exec"), scope)
        x = np.zeros(1, np.int32)
        try:
            scope["k"][1](x)
            assert x[0] == 2
            assert not re.search(r"#line.*[^\w ].py", scope["k"].compile(x).low.located)
        except tt.KernelSyntaxError as error:
            assert error.loc.line == 4 and "undefined" in str(error)
            continue
        finally:
            del linecache.cache[file]


def test_a_script_in_a_folder_with_a_hostile_name(tmp_path):
    folder = tmp_path / "a 'b' \"c\" $(d) ; λ"
    folder.mkdir()
    for name in EXECUTORS:
        done = python(folder, textwrap.dedent("""
            x = np.zeros(8, np.float32)
            put[1](x, 8, 2.0, BLOCK=8)
            print(x.sum())
        """), TINYTON_BACKEND=name)  # fmt: skip
        assert done.stdout.split() == ["16.0"]
