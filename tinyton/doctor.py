"""``python -m tinyton doctor``: what this machine has to run kernels, and remedies for what is missing."""

from __future__ import annotations

import ctypes
import importlib
import importlib.metadata
import importlib.util
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

PIP = "python -m pip install"


@dataclass(frozen=True)
class Check:
    """One thing looked for: whether it works, what was found and, if it does not, what to run or do."""

    name: str
    ok: bool
    detail: str
    remedy: str = ""

    def __str__(self) -> str:
        fix = "".join(f"\n{'':10}{line}" for line in self.remedy.splitlines())
        return f"{'[OK]' if self.ok else '[missing]':9} {self.name}: {self.detail}{fix}"


def device() -> Check:
    """The first NVIDIA GPU, asked of the driver itself."""
    cuda = _libcuda()
    if cuda is None:
        return Check("device", False, "no NVIDIA GPU with its driver", "without one, kernels run on the CPU")
    if error := cuda.cuInit(0):
        return Check("device", False, f"the driver's cuInit failed with error {error}", _DRIVER)
    gpu, name, major, minor = ctypes.c_int(), ctypes.create_string_buffer(128), ctypes.c_int(), ctypes.c_int()
    cuda.cuDeviceGet(ctypes.byref(gpu), 0)
    cuda.cuDeviceGetName(name, len(name), gpu)
    cuda.cuDeviceGetAttribute(ctypes.byref(major), 75, gpu)  # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR
    cuda.cuDeviceGetAttribute(ctypes.byref(minor), 76, gpu)
    return Check("device", True, f"{name.value.decode()}, compute capability {major.value}.{minor.value}")


_DRIVER = (
    "for an NVIDIA GPU: sudo ubuntu-drivers install (Ubuntu), sudo apt-get install nvidia-driver (Debian),\n"
    "then reboot; in a container: start it with --gpus all"
)


def driver() -> Check:
    """The NVIDIA driver and the CUDA version that it runs."""
    version = _driver_cuda()
    if version is None:
        return Check("driver", False, "the NVIDIA driver (libcuda) is not installed", _DRIVER)
    release = _run("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader").split("\n")[0]
    return Check("driver", True, f"{release or 'NVIDIA'}, runs CUDA up to {version[0]}.{version[1]}")


def nvcc() -> Check:
    """nvcc on the PATH, no newer than the driver."""
    found, runs, root = shutil.which("nvcc"), _driver_cuda(), _toolkit()
    if found is None and root is not None:
        return Check("nvcc", False, f"in {root}/bin, not on the PATH", f"export PATH={root}/bin:$PATH")
    if found is None:
        return Check("nvcc", False, "not found", _toolkit_remedy())
    match = re.search(r"release (\d+)\.(\d+), V([\d.]+)", _run(found, "--version"))
    if match is None:
        return Check("nvcc", False, f"{found} does not say its version", _toolkit_remedy())
    if runs and (int(match[1]), int(match[2])) > runs:
        newer = f"{match[3]} is newer than the driver, which runs CUDA up to {runs[0]}.{runs[1]}"
        return Check("nvcc", False, newer, _toolkit_remedy())
    return Check("nvcc", True, f"{match[3]} ({found})")


def host_compiler() -> Check:
    """The C++ compiler that nvcc calls, and that builds PyCUDA."""
    if sys.platform == "win32":
        found = shutil.which("cl")
        remedy = "install Visual Studio's C++ build tools and start from their command prompt"
        return Check("host compiler", True, "cl") if found else Check("host compiler", False, "no cl", remedy)
    version = _run("g++", "-dumpfullversion")
    if version:
        return Check("host compiler", True, f"g++ {version}")
    return Check("host compiler", False, "no g++ on the PATH", "sudo apt-get install g++")


def pycuda() -> Check:
    """PyCUDA, imported: that needs the NVIDIA driver, too."""
    if importlib.util.find_spec("pycuda") is None:
        return Check("PyCUDA", False, "not installed", pycuda_build())
    try:
        importlib.import_module("pycuda.driver")
    except ImportError as e:
        again = _DRIVER if _libcuda() is None else pycuda_build("--force-reinstall ")
        return Check("PyCUDA", False, f"installed, but does not import: {e}", again)
    return Check("PyCUDA", True, importlib.metadata.version("pycuda"))


def pycuda_build(option: str = "") -> str:
    """The commands that build PyCUDA here. It comes as source: that takes the toolkit, g++ and the driver.

    PyCUDA takes the toolkit's place from the nvcc on the PATH, wants cuRAND unless told otherwise (not every
    toolkit has it), and links with ``-lcuda``, for which a driver's ``libcuda.so.1`` alone does not do.
    """
    root = _toolkit()
    if root is None or not (root / "include" / "cudaProfiler.h").exists():
        return _toolkit_remedy()
    lines, links = [], {"cudart": next(root.glob("lib*/libcudart.so.*"), None)}
    if _libcuda() is None:
        lines.append("once the NVIDIA driver is there:")
    else:
        links["cuda"] = _libcuda_path()
    if not (root / "include" / "curand.h").exists():
        lines.append("echo 'CUDA_ENABLE_CURAND = False' >> ~/.aksetup-defaults.py")
    prefix = ""
    for library, file in links.items():
        if file and not _links(root, library):
            lines += [] if prefix else ["links=$(mktemp -d)"]
            lines.append(f"ln -s {file} $links/lib{library}.so")
            prefix = "LIBRARY_PATH=$links "
    build = f"PATH={root}/bin:$PATH {PIP} {option}--no-cache-dir --no-binary pycuda pycuda"
    return "\n".join([*lines, prefix + build])


def _toolkit_remedy() -> str:
    """Where to get a toolkit that the driver takes: from CUDA 13 on, PyPI has one that PyCUDA builds with."""
    runs = _driver_cuda()
    if runs and runs < (13, 0):
        get = f"install CUDA toolkit {runs[0]}.{runs[1]} (developer.nvidia.com/cuda-toolkit-archive)"
    else:
        get = f'{PIP} "cuda-toolkit[nvcc,cccl,cudart,profiler]==13.0.*"'
    return f"{get}\npython -m tinyton doctor"


def opencl() -> Check:
    """PyOpenCL, and the devices of the OpenCL drivers that it sees."""
    linux = sys.platform == "linux" and platform.machine() == "x86_64"
    remedy = f"{PIP} pyopencl" + (" pocl-binary-distribution" if linux else "\nand your device's OpenCL driver")
    try:
        cl = importlib.import_module("pyopencl")
    except ImportError:
        return Check("OpenCL", False, "PyOpenCL is not installed", remedy)
    try:
        found = [f"{p.name} ({d.name.strip()})" for p in cl.get_platforms() for d in p.get_devices()]
    except cl.Error:  # raised where there is no driver
        found = []
    if not found:
        return Check("OpenCL", False, f"PyOpenCL {cl.VERSION_TEXT} finds no device", remedy)
    return Check("OpenCL", True, f"PyOpenCL {cl.VERSION_TEXT}, {', '.join(found)}")


def numpy() -> Check:
    """NumPy, which everything needs."""
    return _package("NumPy", "numpy")


def jupyter() -> Check:
    """JupyterLab and the Python kernel that runs the chapters."""
    lab, kernel = _package("Jupyter", "jupyterlab"), _package("Jupyter", "ipykernel")
    return lab if kernel.ok else kernel


def _package(name: str, package: str) -> Check:
    try:
        return Check(name, True, f"{package} {importlib.metadata.version(package)}")
    except importlib.metadata.PackageNotFoundError:
        return Check(name, False, f"{package} is not installed", f"{PIP} {package}")


def executor() -> Check:
    """Which executor kernels will run on, and why not one before it."""
    from . import backends

    reasons = backends.available()
    forced = os.environ.get("TINYTON_BACKEND")
    wanted = [forced] if forced else list(reasons)
    why = [f"{name}: {reasons.get(name, 'there is no such executor')}" for name in wanted]
    for i, name in enumerate(wanted):
        if name in reasons and reasons[name] is None:
            return Check("executor", True, "; ".join([name, *why[:i]]))
    return Check("executor", False, "; ".join(why), "unset TINYTON_BACKEND" if forced else "")


CHECKS: tuple[Callable[[], Check], ...] = (
    device, driver, nvcc, host_compiler, pycuda, opencl, numpy, jupyter, executor
)  # fmt: skip


def checks() -> list[Check]:
    """All checks, the executor's last. One that itself fails is a missing thing, never an exception.

    >>> [check.name for check in checks()][-1]
    'executor'
    """
    return [_guarded(look) for look in CHECKS]


def _guarded(look: Callable[[], Check]) -> Check:
    try:
        return look()
    except Exception as e:
        return Check(look.__name__, False, f"the check itself failed: {type(e).__name__}: {e}")


def main() -> int:
    """Print the checks; 0 if some executor works."""
    found = checks()
    print(*found, sep="\n")
    return 0 if found[-1].ok else 1


# -- what the checks ask of the machine -----------------------------------------------------------


def _run(*command: str) -> str:
    """What a program prints, or nothing if it is absent, fails or hangs."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def _libcuda() -> ctypes.CDLL | None:
    try:
        return ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
    except OSError:
        return None


def _driver_cuda() -> tuple[int, int] | None:
    """The newest CUDA version that the driver runs."""
    cuda, version = _libcuda(), ctypes.c_int()
    if cuda is None or cuda.cuDriverGetVersion(ctypes.byref(version)):
        return None
    return version.value // 1000, version.value % 1000 // 10


def _toolkit() -> Path | None:
    """The toolkit's folder: above the nvcc on the PATH (unless that is a wrapper), or where it usually is."""
    found = shutil.which("nvcc")
    places = [Path(found).resolve().parents[1]] if found else []
    places += [Path(os.environ[name]) for name in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(name)]
    places.append(Path("/usr/local/cuda"))
    pypi = importlib.util.find_spec("nvidia")
    places += [Path(place) / "cu13" for place in (pypi and pypi.submodule_search_locations) or []]
    for place in places:
        if (place / "bin" / "nvcc").exists() and (place / "include" / "cuda.h").exists():
            return place
    return None


def _links(root: Path, library: str) -> bool:
    """Whether the linker finds a library, with the places in the toolkit where PyCUDA looks for it."""
    places = [f"-L{root / place}" for place in ("lib64", "lib64/stubs", "lib", "lib/stubs")]
    with tempfile.TemporaryDirectory() as folder:
        command = ["g++", "-shared", "-o", str(Path(folder) / "out.so"), *places, f"-l{library}"]
        try:
            return subprocess.run(command, capture_output=True, timeout=20).returncode == 0
        except (OSError, subprocess.SubprocessError):
            return False


def _libcuda_path() -> Path:
    """The file of the libcuda that is loaded, on Linux."""
    maps = Path("/proc/self/maps")
    found = re.search(r"/\S*libcuda\.so\S*", maps.read_text()) if maps.exists() else None
    return Path(found[0] if found else "/usr/lib/x86_64-linux-gnu/libcuda.so.1")
