#!/bin/sh
# Compiles a template with the sample plan by a compiler other than NVRTC: compile.sh nvcc|clang TEMPLATE
# The exit code is 77, which marks a skipped test, if the machine has no such compiler.
set -eu
cd "$(dirname "$0")/../../templates"
case $1 in
nvcc)
  compiler=$(command -v nvcc) || { echo "skipped: there is no nvcc on the PATH"; exit 77; }
  "$compiler" --version >/dev/null 2>&1 || { echo "skipped: $compiler does not run"; exit 77; }
  cubin=$(mktemp)
  trap 'rm -f "$cubin"' EXIT
  "$compiler" -std=c++17 -arch=sm_90a -cubin -Werror all-warnings -I sample -I . -x cu "$2" -o "$cubin"
  [ -s "$cubin" ]
  ;;
clang)
  # The same options as clangd uses.
  compiler=$(command -v clang++ || command -v clang++-14) || { echo "skipped: there is no Clang on the PATH"; exit 77; }
  # shellcheck disable=SC2046 # one option per line
  "$compiler" $(cat compile_flags.txt) -fsyntax-only -Werror "$2"
  ;;
esac
