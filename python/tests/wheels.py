"""Builds the source distribution and both wheels, installs the wheels, and computes a checked INT4 result.

    wheels.py ROOT [--output FOLDER]    --output keeps the wheels, with their manylinux tags, in FOLDER

The wheel of cubit-kernels is built from the source distribution, and that of cubit-kernels-cpu from the tree. The new
environment has no variable of cubit and no path into the tree. The script states the sizes of the wheels and the
manylinux tags that auditwheel finds, gives the wheels these tags, and fails if a wheel is larger than it may be, if it
needs a library that a plain machine lacks, or if the result is wrong.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

MOST_BYTES = {"cubit_kernels": 5_000_000, "cubit_kernels_cpu": 20_000_000}
PLAIN = {"libstdc++.so.6", "libm.so.6", "libgcc_s.so.1", "libc.so.6", "ld-linux-x86-64.so.2", "libcubit.so.0",
         "libcubit_calibrate.so.0", "libz.so.1"}  # the last is LLVM's, and every manylinux platform has it
PROGRAM = """
import time
start = time.perf_counter()
import cubit, numpy as np
y = cubit.get("w4a16_gemm:format=symmetric")(activations=np.ones((1, 256), np.float16),
    qweight=np.full((32, 256), 0x99999999, np.uint32), scales=np.full((2, 256), 0.5, np.float16))
assert (y == 128).all()
from cubit.calibration import Calibration
calibration = Calibration()
calibration.add("layer", np.full((2, 8), 127, np.float32))
assert calibration.ranges("minmax")["layer"]["scale"] == 1
from cubit import _library
wheel = _library.nvrtc_of_wheels()[0]
for file in (cubit.__file__, wheel.decode()):
    assert file.startswith({prefix!r}), file
_library.kernel_of(_library.engine(wheel), "stream_copy", "sm_86")
print(f"checked on {cubit.devices()} in {time.perf_counter() - start:.1f} s")
"""


def run(*command: str | Path, **environment: str) -> str:
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("CUBIT_", "CUDA_", "PYTHON"))}
    done = subprocess.run([str(part) for part in command], env=clean | environment, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))} failed:\n{done.stdout[-4000:]}{done.stderr[-4000:]}")
    return done.stdout


def unpacked_sdist(root: Path, folder: Path) -> Path:
    """The source distribution, unpacked."""
    program = f"import os, scikit_build_core.build as b; os.chdir({str(root)!r}); print(b.build_sdist({str(folder)!r}))"
    name = run(sys.executable, "-c", program).strip().splitlines()[-1]
    print(f"{name}: {(folder / name).stat().st_size / 1e6:.2f} MB")
    with tarfile.open(folder / name) as packed:
        packed.extractall(folder)
    return folder / name.removesuffix(".tar.gz")


def built(sources: tuple[Path, ...], target: Path) -> list[Path]:
    for source in sources:
        run(sys.executable, "-m", "pip", "wheel", "--no-build-isolation", "--no-deps", "-w", target, source)
    return sorted(target.glob("*.whl"))


def tagged(wheels: list[Path], target: Path) -> list[Path]:
    """The wheels with the oldest manylinux tags that auditwheel accepts. A wheel of another platform has none."""
    tools = target / "tools"
    run(sys.executable, "-m", "pip", "install", "--quiet", "--target", tools, "auditwheel", "wheel")
    result = []
    for wheel in wheels:
        shown = run(sys.executable, "-m", "auditwheel", "show", wheel, PYTHONPATH=str(tools))
        tag = re.search(r'platform tag:\s*"(manylinux_\w+)"', shown)
        if tag is None:
            sys.exit(f"{wheel.name} fits no manylinux platform:\n{shown}")
        made = run(sys.executable, "-m", "wheel", "tags", "--platform-tag", tag[1], wheel, PYTHONPATH=str(tools))
        result.append(wheel.parent / made.strip().splitlines()[-1])
    return result


def wrong_wheel(wheel: Path) -> str:
    most = MOST_BYTES[wheel.name.partition("-")[0]]
    size = wheel.stat().st_size
    print(f"{wheel.name}: {size / 1e6:.2f} MB")
    if size > most:
        return f"{wheel.name} has {size} bytes; at most {most}"
    with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(wheel) as packed:
        names = [name for name in packed.namelist() if ".so" in name]
        for name in names:
            listed = run("readelf", "-d", packed.extract(name, folder))
            needed = {line.split("[")[1].rstrip("]") for line in listed.splitlines() if "(NEEDED)" in line}
            if not needed <= PLAIN:
                return f"{name} of {wheel.name} needs {', '.join(sorted(needed - PLAIN))}"
    return "" if names else f"{wheel.name} has no library"


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("root", type=Path)
    options.add_argument("--output", type=Path)
    given = options.parse_args()
    root = given.root.resolve()
    with tempfile.TemporaryDirectory() as folder:
        sources = (unpacked_sdist(root, Path(folder)), root / "python" / "cpu")
        wheels = tagged(built(sources, Path(folder) / "wheels"), Path(folder))
        wrong = list(filter(None, map(wrong_wheel, wheels)))
        if wrong or len(wheels) != 2:
            print("\n".join(wrong) or f"two wheels were expected, not {len(wheels)}")
            return 1
        python = Path(folder) / "new" / "bin" / "python"
        run(sys.executable, "-m", "venv", python.parents[1])
        run(python, "-m", "pip", "install", "--quiet", "--only-binary", ":all:", *wheels, "numpy", "ml_dtypes",
            "nvidia-cuda-nvrtc>=13,<13.1")
        print(run(python, "-c", PROGRAM.replace("{prefix!r}", repr(str(python.parents[1]))),
                  CUBIT_CACHE_DIR=f"{folder}/cache").strip())
        if given.output:
            given.output.mkdir(parents=True, exist_ok=True)
            for wheel in wheels:
                shutil.copy(wheel, given.output)
    return 0


if __name__ == "__main__":
    sys.exit(main())
