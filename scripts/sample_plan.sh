#!/bin/sh
# Writes templates/sample/plan.cuh, the plan with which the templates open in clangd and compile under nvcc:
# scripts/sample_plan.sh [program]; with --check in front it only compares. The program is build/release/tools/cubit.
set -eu
cd "$(dirname "$0")/.."
check=no
[ "${1-}" != --check ] || { check=yes; shift; }
program=${1:-build/release/tools/cubit}
sample=templates/sample/plan.cuh
fresh=$(mktemp)
trap 'rm -f "$fresh"' EXIT

"$program" explain gqa_decode:heads_per_kv=8,kv=int4_rows,groups=4,family=sm80 --arch sm_90a --json --compile never --cache-dir '' |
  python3 -c 'import json, sys; sys.stdout.write(json.load(sys.stdin)["plan_header"])' >"$fresh"
[ -s "$fresh" ] || { echo "sample_plan: $program gave no plan" >&2; exit 1; }
if [ $check = no ]; then
  cp "$fresh" $sample
  chmod 644 $sample
elif ! diff -u $sample "$fresh"; then
  echo "sample_plan: $sample is not what the generator writes; run scripts/sample_plan.sh" >&2
  exit 1
fi
