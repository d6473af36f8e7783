#!/bin/sh
# The project's format, by the version that its files are kept in (another one formats a little differently):
# scripts/format.sh rewrites, scripts/format.sh --check only complains. Both complain of comments that are too long.
set -eu
cd "$(dirname "$0")/.."
command -v clang-format-14 >/dev/null || { echo "format.sh: clang-format-14 is missing; scripts/setup.sh --ci installs it" >&2; exit 1; }
mode=-i
[ "${1-}" != --check ] || mode='--dry-run --Werror'
# shellcheck disable=SC2086 # two options
git ls-files -z -- '*.c' '*.h' '*.cpp' '*.hpp' '*.cuh' | xargs -0 -r clang-format-14 --style=file $mode
# clang-format leaves comments as they are wrapped.
if git ls-files -z -- '*.c' '*.h' '*.cpp' '*.hpp' '*.cuh' | LC_ALL=C.UTF-8 xargs -0 -r grep -HnE '^.{121,}$' | grep -E '^[^:]+:[0-9]+: *(//|/?\*)' >&2; then
  echo "format.sh: comments end at column 120" >&2
  exit 1
fi
