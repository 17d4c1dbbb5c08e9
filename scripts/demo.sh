#!/usr/bin/env bash
# The program's part of `make demo`: demo.sh PROGRAM FOLDER
set -euo pipefail
cd "$(dirname "$0")/.."

tool=$1
folder=$2
mkdir -p "$folder"

echo
echo "5. What num_heads, key_dim and value_dim cost: four layers on an input of shape (32, 128, 512)"
echo
echo "\$ headwise plan --shape 32,128,512 --compare 8x64,4x128,16x32,8x64v32"
"$tool" plan --shape 32,128,512 --compare 8x64,4x128,16x32,8x64v32

echo
echo "6. Where twelve real heads look: layer 3 of MiniLM reads a sentence; see head 1 from \"it\""
echo
echo "\$ headwise view examples/data/sentence.npy --tokens examples/data/sentence.json --show-heads 1"
"$tool" view examples/data/sentence.npy --tokens examples/data/sentence.json --show-heads 1
"$tool" view examples/data/sentence.npy --tokens examples/data/sentence.json \
  --title "MiniLM, layer 3" --png "$folder/heads.png" --html "$folder/heads.html"
echo
echo "All twelve: $folder/heads.png"
echo "To explore: $folder/heads.html (open it in a browser)"
