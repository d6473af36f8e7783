#!/bin/sh
# ruff on the Python package, its tests and its examples, and mypy on the package. pyproject.toml has their settings, and
# scripts/setup.sh --ci installs both.
set -eu
cd "$(dirname "$0")/.."
python=.deps/python/bin/python
"$python" -c 'import mypy, ruff' || { echo "check_python.sh: ruff and mypy are missing; scripts/setup.sh --ci installs them" >&2; exit 1; }
"$python" -m ruff check --quiet python examples/python scripts/python_stubs.py
"$python" -m mypy
