#!/bin/sh
# NVIDIA's compute-sanitizer, memcheck and racecheck, over the GPU tests of a preset that is built:
# scripts/sanitize_gpu.sh [preset] [GoogleTest filter]. Says why where it cannot run, and exits with 77.
set -eu
cd "$(dirname "$0")/.."
build=build/${1:-release}
tests=$build/tests/gpu/cubit_gpu_tests
# Short cases of every path; about 20 seconds on an H200.
filter=${2:-GqaDecodeGpu.LengthsThatAreMultiplesOfNothing:GqaDecodeGpu.RowsBeyondTheLengthAreNotRead:GqaDecodeGpu.OneWorkspaceServesAllShapes:GqaDecodeGpu.StridedAndPaddedCaches:StreamReadGpu.*}

skip() { echo "sanitize_gpu: skipped: $1"; exit 77; }
[ -x "$tests" ] || { echo "sanitize_gpu: $tests is not built" >&2; exit 1; }
for folder in "${CUDA_HOME:-/usr/local/cuda}/bin" "${CUDA_HOME:-/usr/local/cuda}/compute-sanitizer"; do
  PATH=$PATH:$folder
done
command -v compute-sanitizer >/dev/null || skip "there is no compute-sanitizer; it comes with the CUDA toolkit"
"$build/tools/cubit" devices --json | grep -q '"cuda:0"' || skip "there is no GPU here"

# racecheck does not follow mbarriers from warp to warp: it takes family sm90, and any such pipeline, for a race (the mutants
# healthy_bulk and healthy_pipeline). The CPU device's checker does follow them.
for tool in memcheck racecheck; do
  echo "compute-sanitizer --tool $tool"
  [ "$tool" = memcheck ] || export CUBIT_TEST_FAMILY=sm80
  compute-sanitizer --tool "$tool" --error-exitcode 1 --print-limit 20 "$tests" --gtest_filter="$filter" --gtest_brief=1
done
