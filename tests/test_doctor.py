"""The doctor, on machines that lack one thing or another (simulated), and on this one."""

import importlib.metadata
import subprocess
import sys
import types
from pathlib import Path

import pytest

from tinyton import doctor

PYPI = 'python -m pip install "cuda-toolkit[nvcc,cccl,cudart,profiler]==13.0.*"\npython -m tinyton doctor'


class Driver:
    """A libcuda with one H200, or one whose cuInit fails."""

    def __init__(self, error=0, version=13000):
        self.error, self.version = error, version

    def cuInit(self, flags):
        return self.error

    def cuDriverGetVersion(self, out):
        out._obj.value = self.version
        return 0

    def cuDeviceGet(self, out, index):
        return 0

    def cuDeviceGetName(self, buffer, size, gpu):
        buffer.value = b"NVIDIA H200"

    def cuDeviceGetAttribute(self, out, attribute, gpu):
        out._obj.value = {75: 9, 76: 0}[attribute]


@pytest.fixture
def bare(monkeypatch, tmp_path):
    """A machine with nothing; the test adds what it has: programs by name, and a driver."""
    has = types.SimpleNamespace(programs={}, driver=None, root=tmp_path)

    def run(command, **options):
        if command[0] not in has.programs:
            raise FileNotFoundError(command[0])
        return subprocess.CompletedProcess(command, 0, has.programs[command[0]], "")

    def load(name):
        if has.driver is None:
            raise OSError(f"{name}: cannot open shared object file")
        return has.driver

    monkeypatch.setattr(doctor.shutil, "which", lambda name: name if name in has.programs else None)
    monkeypatch.setattr(doctor.subprocess, "run", run)
    monkeypatch.setattr(doctor.ctypes, "CDLL", load)
    monkeypatch.setattr(doctor.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(doctor, "_toolkit", lambda: None)
    monkeypatch.setattr(doctor.sys, "platform", "linux")
    return has


def test_every_check_answers_on_a_bare_machine(bare, monkeypatch):
    def absent(name):
        raise ImportError(name)

    def no_package(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(doctor.importlib, "import_module", absent)
    monkeypatch.setattr(doctor.importlib.metadata, "version", no_package)
    found = doctor.checks()
    assert [c.name for c in found] == [
        "device", "driver", "nvcc", "host compiler", "PyCUDA", "OpenCL", "NumPy", "Jupyter", "executor"
    ]  # fmt: skip
    assert not any(c.ok for c in found[:-1])
    assert all(c.remedy for c in found[:-1])


def test_device_and_driver_are_asked_of_libcuda(bare):
    bare.driver = Driver()
    assert doctor.device() == doctor.Check("device", True, "NVIDIA H200, compute capability 9.0")
    assert doctor.driver() == doctor.Check("driver", True, "NVIDIA, runs CUDA up to 13.0")
    bare.programs["nvidia-smi"] = "580.95.05\n580.95.05\n"
    assert doctor.driver().detail == "580.95.05, runs CUDA up to 13.0"
    bare.driver = Driver(error=100)
    assert doctor.device().detail == "the driver's cuInit failed with error 100" and not doctor.device().ok


def test_nvcc_must_be_on_the_path_and_fit_the_driver(bare, monkeypatch):
    assert doctor.nvcc() == doctor.Check("nvcc", False, "not found", PYPI)
    monkeypatch.setattr(doctor, "_toolkit", lambda: Path("/usr/local/cuda"))
    assert doctor.nvcc().remedy == "export PATH=/usr/local/cuda/bin:$PATH"
    bare.programs["nvcc"] = "Cuda compilation tools, release 13.0, V13.0.88"
    assert doctor.nvcc() == doctor.Check("nvcc", True, "13.0.88 (nvcc)")
    bare.driver = Driver(version=12080)
    assert doctor.nvcc().detail == "13.0.88 is newer than the driver, which runs CUDA up to 12.8"
    assert doctor.nvcc().remedy.startswith("install CUDA toolkit 12.8 ")
    bare.programs["nvcc"] = "?"
    assert not doctor.nvcc().ok


def test_host_compiler(bare, monkeypatch):
    assert doctor.host_compiler().remedy == "sudo apt-get install g++"
    bare.programs["g++"] = "12.2.0\n"
    assert doctor.host_compiler() == doctor.Check("host compiler", True, "g++ 12.2.0")
    monkeypatch.setattr(doctor.sys, "platform", "win32")
    assert not doctor.host_compiler().ok
    bare.programs["cl"] = ""
    assert doctor.host_compiler().ok


def test_pycuda_that_is_absent_or_does_not_import(bare, monkeypatch):
    assert doctor.pycuda().detail == "not installed"
    monkeypatch.setattr(doctor.importlib.util, "find_spec", lambda name: name)

    def fails(name):
        raise ImportError("libcuda.so.1: cannot open shared object file")

    monkeypatch.setattr(doctor.importlib, "import_module", fails)
    check = doctor.pycuda()
    assert not check.ok and "libcuda.so.1" in check.detail and "nvidia-driver" in check.remedy
    bare.driver = Driver()
    (bare.root / "include").mkdir()
    (bare.root / "include" / "cudaProfiler.h").touch()
    monkeypatch.setattr(doctor, "_toolkit", lambda: bare.root)
    assert "install --force-reinstall" in doctor.pycuda().remedy
    monkeypatch.setattr(doctor.importlib, "import_module", lambda name: None)
    monkeypatch.setattr(doctor.importlib.metadata, "version", lambda name: "2026.1")
    assert doctor.pycuda() == doctor.Check("PyCUDA", True, "2026.1")


def test_pycuda_is_built_with_what_the_toolkit_lacks_left_out(bare, monkeypatch):
    install = "python -m pip install --no-cache-dir --no-binary pycuda pycuda"
    build = f"PATH={bare.root}/bin:$PATH {install}"
    curand = "echo 'CUDA_ENABLE_CURAND = False' >> ~/.aksetup-defaults.py"
    assert doctor.pycuda_build() == PYPI
    monkeypatch.setattr(doctor, "_toolkit", lambda: bare.root)
    monkeypatch.setattr(doctor, "_libcuda_path", lambda: Path("/usr/lib64/libcuda.so.1"))
    (bare.root / "include").mkdir()
    assert doctor.pycuda_build() == PYPI  # the toolkit is one without the profiler's header
    (bare.root / "include" / "cudaProfiler.h").touch()
    assert doctor.pycuda_build().splitlines() == ["once the NVIDIA driver is there:", curand, build]
    bare.driver, bare.programs["g++"] = Driver(), ""  # and a g++ that links
    assert doctor.pycuda_build().splitlines() == [curand, build]
    (bare.root / "include" / "curand.h").touch()
    assert doctor.pycuda_build() == build
    monkeypatch.setattr(doctor, "_links", lambda root, library: library == "cudart")
    assert doctor.pycuda_build().splitlines() == [
        "links=$(mktemp -d)",
        "ln -s /usr/lib64/libcuda.so.1 $links/libcuda.so",
        f"LIBRARY_PATH=$links {build}",
    ]
    (bare.root / "lib").mkdir()
    (bare.root / "lib" / "libcudart.so.13").touch()
    monkeypatch.setattr(doctor, "_links", lambda root, library: library == "cuda")
    assert doctor.pycuda_build().splitlines() == [
        "links=$(mktemp -d)",
        f"ln -s {bare.root}/lib/libcudart.so.13 $links/libcudart.so",
        f"LIBRARY_PATH=$links {build}",
    ]


def test_the_linker_is_asked(bare, monkeypatch):
    assert doctor._links(bare.root, "cuda") is False  # there is no g++
    monkeypatch.undo()
    assert doctor.shutil.which("g++") is None or not doctor._links(bare.root, "no_such_library_at_all")


def test_the_toolkit_is_found_behind_a_wrapper(monkeypatch, tmp_path):
    for file in "wrapper/bin/nvcc", "cuda/bin/nvcc", "cuda/include/cuda.h":
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).touch()
    monkeypatch.setattr(doctor.shutil, "which", lambda name: str(tmp_path / "wrapper" / "bin" / "nvcc"))
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "cuda"))
    assert doctor._toolkit() == tmp_path / "cuda"
    monkeypatch.setattr(doctor.shutil, "which", lambda name: str(tmp_path / "cuda" / "bin" / "nvcc"))
    monkeypatch.delenv("CUDA_HOME")
    assert doctor._toolkit() == tmp_path / "cuda"


def test_the_toolkit_from_pypi_is_found(monkeypatch, tmp_path):
    for file in "bin/nvcc", "include/cuda.h":
        (tmp_path / "nvidia" / "cu13" / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "nvidia" / "cu13" / file).touch()
    monkeypatch.setattr(doctor.shutil, "which", lambda name: None)
    monkeypatch.delenv("CUDA_HOME", raising=False)
    monkeypatch.delenv("CUDA_PATH", raising=False)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert doctor._toolkit() in (tmp_path / "nvidia" / "cu13", Path("/usr/local/cuda"))


@pytest.mark.parametrize("absent", ["package", "drivers"])
def test_opencl_without_package_or_drivers(monkeypatch, absent):
    class Error(Exception):
        pass

    def no_platforms():
        raise Error("PLATFORM_NOT_FOUND_KHR")

    def load(name):
        if absent == "package":
            raise ImportError(name)
        return types.SimpleNamespace(VERSION_TEXT="2026.1", Error=Error, get_platforms=no_platforms)

    monkeypatch.setattr(doctor.importlib, "import_module", load)
    monkeypatch.setattr(doctor.sys, "platform", "linux")
    monkeypatch.setattr(doctor.platform, "machine", lambda: "x86_64")
    check = doctor.opencl()
    assert not check.ok and check.remedy == "python -m pip install pyopencl pocl-binary-distribution"
    monkeypatch.setattr(doctor.platform, "machine", lambda: "aarch64")
    assert "OpenCL driver" in doctor.opencl().remedy


@pytest.mark.parametrize(
    "forced, reasons, ok, detail",
    [
        ("", {"cuda": None, "opencl": None, "interpreter": None}, True, "cuda"),
        ("", {"cuda": "no driver", "opencl": None, "interpreter": None}, True, "opencl; cuda: no driver"),
        ("interpreter", {"cuda": None, "opencl": None, "interpreter": None}, True, "interpreter"),
        ("cuda", {"cuda": "no driver", "opencl": None, "interpreter": None}, False, "cuda: no driver"),
        ("metal", {"cuda": None}, False, "metal: there is no such executor"),
    ],
)
def test_executor(monkeypatch, forced, reasons, ok, detail):
    from tinyton import backends

    monkeypatch.setattr(backends, "available", lambda: reasons, raising=False)
    monkeypatch.setenv("TINYTON_BACKEND", forced)
    check = doctor.executor()
    assert (check.ok, check.detail) == (ok, detail)


def test_a_check_that_fails_is_a_missing_thing(monkeypatch, capsys):
    def executor():
        raise RuntimeError("surprise")

    monkeypatch.setattr(doctor, "CHECKS", (doctor.numpy, executor))
    assert doctor.main() == 1
    assert capsys.readouterr().out.splitlines() == [
        f"[OK]      NumPy: numpy {importlib.metadata.version('numpy')}",
        "[missing] executor: the check itself failed: RuntimeError: surprise",
    ]


def test_remedies_are_lines_to_copy():
    check = doctor.Check("nvcc", False, "not found", "first\nsecond")
    assert str(check) == "[missing] nvcc: not found\n          first\n          second"
    assert str(doctor.Check("nvcc", True, "13.0")) == "[OK]      nvcc: 13.0"


def test_importing_the_doctor_imports_nothing_heavy():
    code = "import sys; from tinyton import doctor; print({'pycuda', 'pyopencl', 'IPython'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "set()\n"


def test_this_machine_has_an_executor(capsys):
    assert doctor.main() == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if "NumPy" in line][0].startswith("[OK]")
    assert "executor: " in lines[-1]
