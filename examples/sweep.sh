#!/bin/sh
# Which block sizes are fastest? One line of JSON a point in sweep.jsonl, a table at the end.
# Run it again and nothing is computed twice; stop it, and it goes on where it was.
#
#   examples/sweep.sh [folder for the results]
set -e
here=$(dirname "$0")
out=${1:-.}
tpuc=${TPUC:-$here/../build/tpuc}

# A matmul of two thousand: small blocks read the operands again and again, large ones leave less
# to overlap. --where drops points whose windows would be larger than it is worth.
"$tpuc" sweep "$here/kernels/matmul.tk" --set M=2048,N=2048,K=2048 \
  --set bm=256,512,1024 --set bn=256,512,1024 --set bk=128,512 \
  --where 'bm * bn <= 524288' --timing-only -o "$out/sweep_matmul.jsonl" -j 2
