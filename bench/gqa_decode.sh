#!/bin/sh
# The decode-attention table: every cell by `cubit bench`, beside the read floor of the same run, as one JSON array.
#   bench/gqa_decode.sh path/to/cubit > bench/results/gqa_decode_<device>.json
set -eu
cubit=${1:?usage: bench/gqa_decode.sh path/to/cubit}
separator='['
cell() {
  printf '%s\n' "$separator"
  "$cubit" bench "$1" --random "$2" --json
  separator=','
}
for descriptor in gqa_decode:heads_per_kv=8 gqa_decode:heads_per_kv=8,kv=int4_rows,groups=4 \
    gqa_decode:heads_per_kv=8,kv=int4_rows,alignment=4; do
  for batch in 8 32 64 128 256 512; do cell "$descriptor" "batch=$batch,context=8192,kv_heads=1"; done
done
for descriptor in gqa_decode:heads_per_kv=4 gqa_decode:heads_per_kv=4,kv=int4_rows,groups=4; do
  cell "$descriptor" batch=1,context=8192,kv_heads=8
  cell "$descriptor" batch=1,context=131072,kv_heads=8
  cell "$descriptor" batch=16,context=8192,kv_heads=8
done
printf ']\n'
