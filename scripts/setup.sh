#!/bin/sh
# Everything that building and testing cubit needs and this machine lacks. Safe to run again: with nothing missing it
# only looks, in well under a second, and says nothing.
#
#   scripts/setup.sh --run   what `make run` needs
#   scripts/setup.sh         also what `make test` needs: GoogleTest, Google Benchmark, NumPy, git, the tools of Debian
#                            packages, pkg-config, and the Python packages of python/tests in an environment of their
#                            own, .deps/python
#   scripts/setup.sh --ci    also what .ci/run needs: Clang with its sanitizer runtimes, clang-format and clang-tidy 14,
#                            ruff and mypy in .deps/python, and NVIDIA's disassembler, a Python wheel that is unpacked into .deps/nvdisasm
#
# Packages are installed with apt as root or through a sudo that asks no password; otherwise the one command to run is
# printed and the script fails. NVRTC is taken from CUBIT_NVRTC, the loader's path or a CUDA toolkit; where there is
# none, NVIDIA's Python wheel is unpacked into .deps/nvrtc, which the Makefile passes on as CUBIT_NVRTC_DIR.
set -eu
cd "$(dirname "$0")/.."

want_tests=yes
want_ci=no
case "${1-}" in
  '') ;;
  --run) want_tests=no ;;
  --ci) want_ci=yes ;;
  *) echo "setup.sh: $1: not an option; the options are --run and --ci" >&2; exit 2 ;;
esac

# Each header with the package that has it.
run_libraries='fmt/format.h libfmt-dev nlohmann/json.hpp nlohmann-json3-dev CLI/CLI.hpp libcli11-dev
  sodium.h libsodium-dev zstd.h libzstd-dev'
test_libraries='gtest/gtest.h libgtest-dev gmock/gmock.h libgmock-dev benchmark/benchmark.h libbenchmark-dev'
[ "$want_tests" = no ] && libraries=$run_libraries || libraries="$run_libraries $test_libraries"

# Wheels of known versions, so that two machines compile with the same compiler. The major version must not exceed the
# one that the driver accepts.
nvrtc_13='nvidia-cuda-nvrtc==13.0.88'
nvrtc_12='nvidia-cuda-nvrtc-cu12==12.8.93'
nvrtc_folder=.deps/nvrtc
# The disassembler of scripts/scan_cubins.py.
nvdisasm='nvidia-cuda-nvdisasm==13.2.51'
nvdisasm_folder=.deps/nvdisasm

say() { printf 'setup: %s\n' "$*"; }
have() { command -v "$1" >/dev/null 2>&1; }

# at_least 3.25 3.28.1: is the second version the first or newer?
at_least() { [ "$(printf '%s\n%s\n' "$1" "$2" | sort -V | head -n 1)" = "$1" ]; }

missing=''
need() { case " $missing " in *" $1 "*) ;; *) missing="$missing $1" ;; esac; }

find_tools() {
  [ "$want_tests" = no ] || have git || need git
  [ "$want_tests" = no ] || have dpkg-shlibdeps || need dpkg-dev
  [ "$want_tests" = no ] || have pkg-config || need pkg-config
  have make || need make
  have ninja || need ninja-build
  have python3 || need python3
  [ "$want_tests" = no ] || python3 -c 'import numpy' 2>/dev/null || need python3-numpy
  have cmake && at_least 3.25 "$(cmake --version | sed -n '1s/[^0-9]*//p')" || need cmake
  compiler=${CXX:-c++}
  have "$compiler" || { need g++; compiler=c++; }
}

# The compiler itself says which headers it cannot find: right for every distribution and every prefix on its path.
find_libraries() {
  have "$compiler" || { need_all_libraries; return 0; }
  # shellcheck disable=SC2086 # pairs of a header and a package
  answer=$(printf '#if !__has_include(<%s>)\nneed %s\n#endif\n' stdlib.h libc6-dev vector g++ $libraries |
      "$compiler" -E -P -x c++ - |
      sed -n 's/^need //p' | tr -d ' ')
  for package in $answer; do need "$package"; done
}

# The CPU device needs LLVM 19 and what its static libraries link to. Where the distribution has no such package (add
# apt.llvm.org for it) cubit is built without that device.
find_llvm() {
  [ -e /usr/lib/llvm-19/lib/cmake/llvm/LLVMConfig.cmake ] && return 0
  have apt-cache && apt-cache show llvm-19-dev >/dev/null 2>&1 || {
    say 'no llvm-19-dev for this distribution: cubit is built without the CPU device'
    return 0
  }
  for package in llvm-19-dev zlib1g-dev; do need "$package"; done
}

need_all_libraries() {
  for name in $libraries; do
    case $name in lib*-dev | *-json3-dev) need "$name" ;; esac
  done
}

find_ci_tools() {
  have ccache || need ccache
  have clang-format-14 || need clang-format-14
  have clang-tidy-14 || need clang-tidy-14
  have run-clang-tidy-14 || need clang-tidy-14
  if ! have clang++; then
    need clang
  elif ! echo 'extern "C" int LLVMFuzzerTestOneInput(const unsigned char*, unsigned long) { return 0; }' |
      clang++ -x c++ -fsanitize=fuzzer,address - -o /dev/null 2>/dev/null; then
    need "libclang-rt-$(clang -dumpversion | cut -d. -f1)-dev"
  fi
}

# As root, or through sudo if it asks no password.
as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi; }
may_install() { have apt-get && { [ "$(id -u)" = 0 ] || { have sudo && sudo -n true 2>/dev/null; }; }; }

install_missing() {
  [ -n "$missing" ] || return 0
  if ! may_install; then
    echo "setup: missing:$missing. Run this, then try again:" >&2
    echo "  sudo apt-get update && sudo apt-get install -y --no-install-recommends$missing" >&2
    exit 1
  fi
  say "installing$missing"
  as_root apt-get update -qq
  # shellcheck disable=SC2086 # a list of package names
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null
  missing=''
}

# The newest CUDA version this machine's driver runs: 580 and later run 13. No driver, no limit.
driver_major() {
  version=$(sed -n 's/^NVRM.*Module[^0-9]*\([0-9]*\).*/\1/p' /proc/driver/nvidia/version 2>/dev/null || true)
  if [ -n "$version" ] && [ "$version" -lt 580 ]; then echo 12; else echo 13; fi
}

# Is this file an NVRTC that cubit can use: 12.8 or later, and not beyond the driver?
usable_nvrtc() {
  version=$(basename "$(readlink -f "$1")" | sed -n 's/^libnvrtc\.so\.\([0-9][0-9.]*\)$/\1/p')
  case $version in *.*) ;; 12) version=12.8 ;; esac # a wheel's file carries the major version only
  [ -n "$version" ] && at_least 12.8 "$version" && at_least "${version%%.*}" "$driver"
}

installed_nvrtc() {
  if [ -n "${CUBIT_NVRTC-}" ]; then [ -e "$CUBIT_NVRTC" ] && return 0; fi
  driver=$(driver_major)
  for file in "${CUBIT_NVRTC_DIR:-$nvrtc_folder}"/libnvrtc.so.* \
      $( (ldconfig -p || /sbin/ldconfig -p) 2>/dev/null | sed -n 's/.*libnvrtc\.so[.0-9]* .*=> //p') \
      "${CUDA_HOME:-/usr/local/cuda}"/lib64/libnvrtc.so.* /usr/local/cuda-*/lib64/libnvrtc.so.*; do
    if [ -e "$file" ] && usable_nvrtc "$file"; then return 0; fi
  done
  return 1
}

# unpack WHEEL FOLDER NAME…: the files of these names, with the licence, are kept of the wheel; they appear in one step.
unpack() {
  wheel=$1 folder=$2
  shift 2
  python3 -c 'import ensurepip, venv' 2>/dev/null || { need python3-venv; install_missing; }
  stage=$folder.$$
  trap 'rm -rf "$stage"' EXIT
  mkdir -p "$stage/kept"
  python3 -m venv "$stage/venv"
  "$stage/venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --only-binary :all: \
    --target "$stage/wheel" "$wheel"
  for name in "$@" License.txt; do find "$stage/wheel" -name "$name" -exec mv {} "$stage/kept" \;; done
  rm -rf "$folder"
  mv "$stage/kept" "$folder"
  rm -rf "$stage"
}

download_nvrtc() {
  if [ "$(driver_major)" = 12 ]; then wheel=$nvrtc_12; else wheel=$nvrtc_13; fi
  say "no NVRTC found; unpacking NVIDIA's Python wheel $wheel into $nvrtc_folder"
  unpack "$wheel" "$nvrtc_folder" 'libnvrtc.so.*' 'libnvrtc-builtins.so.*'
}

# The tests of the Python package import these packages, and scikit-build-core builds its wheels.
python_packages='numpy ml_dtypes pytest jax apache-tvm-ffi>=0.1.9,<0.2 scikit-build-core>=0.10'
python_folder=.deps/python

have_python_packages() {
  "$python_folder/bin/python" -c 'import jax, ml_dtypes, numpy, pytest, scikit_build_core, tvm_ffi' 2>/dev/null
}

# The environment appears in one step: an unfinished one would be used. Its programs hold the first path of the folder,
# so the tests start everything by `python -m`. Without the packages the Python tests are skipped, and all others run.
download_python_packages() {
  say "installing the packages of the Python tests into $python_folder"
  stage=$python_folder.$$
  # shellcheck disable=SC2086 # a list of requirements
  if { python3 -c 'import ensurepip, venv' 2>/dev/null || (need python3-venv; install_missing); } &&
      python3 -m venv "$stage" && "$stage/bin/python" -m pip install --quiet --disable-pip-version-check \
      --only-binary :all: $python_packages; then
    rm -rf "$python_folder"
    mv "$stage" "$python_folder"
    touch python/tests/CMakeLists.txt # a build that is configured already looks for the environment again
  else
    rm -rf "$stage" "$python_folder"
    say 'the packages of the Python tests cannot be installed; these tests are skipped'
  fi
}

# Of known versions, because a new one may find something new.
python_linters='ruff==0.17.6 mypy==2.4.1'

have_python_linters() { "$python_folder/bin/python" -c 'import mypy, ruff' 2>/dev/null; }

download_python_linters() {
  say "installing $python_linters into $python_folder"
  # shellcheck disable=SC2086 # a list of requirements
  "$python_folder/bin/python" -m pip install --quiet --disable-pip-version-check --only-binary :all: $python_linters
}

download_nvdisasm() {
  say "unpacking NVIDIA's Python wheel $nvdisasm into $nvdisasm_folder"
  unpack "$nvdisasm" "$nvdisasm_folder" nvdisasm
  chmod +x "$nvdisasm_folder/nvdisasm"
}

find_tools
find_libraries
[ "$want_ci" = no ] || find_ci_tools
install_missing
# A Python that is not the distribution's does not see the distribution's NumPy.
if [ "$want_tests" = yes ] && ! python3 -c 'import numpy' 2>/dev/null; then
  say "installing numpy for $(command -v python3)"
  python3 -m pip install --quiet --disable-pip-version-check numpy
fi
# A bare machine has a compiler only now; a second look also tests that apt's versions are new enough.
find_tools
find_libraries
find_llvm # apt's lists are fresh now, if anything was missing
[ "$want_ci" = no ] || find_ci_tools
install_missing
[ -z "$missing" ] || { echo "setup: still missing or too old:$missing" >&2; exit 1; }
major=$("${CXX:-c++}" -dumpversion | cut -d. -f1)
[ "$major" -ge 12 ] || { echo "setup: ${CXX:-c++} is version $major; GCC 12 or Clang 14 is needed" >&2; exit 1; }
installed_nvrtc || download_nvrtc
[ "$want_ci" = no ] || [ -e "$nvdisasm_folder/nvdisasm" ] || download_nvdisasm
[ "$want_tests" = no ] || have_python_packages || download_python_packages
[ "$want_ci" = no ] || have_python_linters || download_python_linters
