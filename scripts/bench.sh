#!/bin/sh
# The speed table: a synthetic model of 12 layers in full shape (6.6 GB, made once in build/bench), our figures against this machine's limits,
# then llama.cpp and, where scripts/build_ik_llama.sh has built it, ik_llama.cpp. Nothing else should run meanwhile.
set -eu
cd "$(dirname "$0")/.."
folder=build/bench
model=$folder/synth-12.gguf
mkdir -p "$folder"

if [ ! -f "$model" ]; then
  [ -d "$folder/venv" ] || python3 -m venv "$folder/venv"
  "$folder/venv/bin/pip" install --quiet numpy==2.4.6
  "$folder/venv/bin/python" test/tools/synth_gguf.py "$model.part" --layers 12
  mv "$model.part" "$model"
fi

ik=${SURGE_IK_LLAMA_BENCH:-${XDG_CACHE_HOME:-$HOME/.cache}/surge/ik_llama.cpp/build-0.1.5/bin/llama-bench}
peers="--vs llama.cpp"
[ -x "$ik" ] && peers="$peers --vs ik_llama.cpp"
# shellcheck disable=SC2086 # words on purpose
dist/surge bench "$model" --depth 0,16384 --batch 1,8 --prefill 256,512 $peers "$@"
