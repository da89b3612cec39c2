#!/usr/bin/env bash
# Checks and times everything on a machine with a CUDA GPU, in under 8 minutes:
#
#   [OUT=folder] [PYTHON=python3] bash tests/gpu/run.sh
#
# 1. uses PYTHON as it is if it has what is needed and its torch sees the GPU; else makes a virtual environment on top of
#    it with the extras bench and gpu
# 2. runs the tests of kernels and exchanges on the GPU
# 3. times everything: first the quick way, then the default
#
# A part that fails does not stop the others; the end says how each went, and the exit status is 1 if one failed.
# Left in OUT: gpu_record.jsonl (the record; the quick one if the default failed), gpu_quick.jsonl, gpu_about.txt and a
# log of every part. Settings of the GPU are left as they are.
set -u
cd "$(dirname "$0")/../.." || exit 1
OUT=${OUT:-.}
PYTHON=${PYTHON:-python3}
LIMIT=470 # seconds in all
mkdir -p "$OUT" && OUT=$(cd "$OUT" && pwd) || exit 1
rm -f "$OUT"/gpu_{record,quick}.jsonl
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
export PYTHONPATH="$PWD${PYTHONPATH:+:$PYTHONPATH}"
export TQDM_DISABLE=1
unset TRITON_INTERPRET
summary=()
failed=0

# part NAME SECONDS COMMAND...: run a command within its time and the time left, keep its log, note how it went
part() {
    local name=$1 seconds=$2 start=$SECONDS left=$((LIMIT - SECONDS)) status
    shift 2
    echo "== $name"
    if ((left < 10)); then
        status="no time left"
    else
        timeout --signal=INT --kill-after=10 "$((seconds < left ? seconds : left))" "$@" 2>&1 | tee "$OUT/gpu_$name.log"
        status=${PIPESTATUS[0]}
        ((status == 0)) && summary+=("$name: ok, $((SECONDS - start)) s") && return 0
        ((status == 124 || status == 137)) && status="$status, out of time"
    fi
    summary+=("$name: FAILED (status $status), $((SECONDS - start)) s")
    failed=1
    return 1
}

about() {
    nvidia-smi --query-gpu=name,driver_version,memory.total,clocks.max.sm,clocks.max.memory,power.limit --format=csv
    "$PYTHON" -c 'import torch; print("torch", torch.__version__, torch.cuda.device_count(), "GPUs")'
}

ready() { # PYTHON MODULES
    "$1" -c "import sys, numpy, scipy, tqdm, torch, $2; sys.exit(not torch.cuda.is_available())" 2>/dev/null
}

about 2>&1 | tee "$OUT/gpu_about.txt"
python=$PYTHON
if ! ready "$PYTHON" "triton, pytest"; then
    "$PYTHON" -m venv --system-site-packages "$work/venv" 2>&1 | tail -n 1
    if part install 180 "$work/venv/bin/python" -m pip install --quiet -e ".[bench,gpu]" pytest pytest-xdist; then
        python=$work/venv/bin/python
    fi
fi
if ! ready "$python" sys; then # without Triton or pytest some parts will fail, and say so
    echo "no Python here has numpy, scipy, tqdm and a torch that sees a GPU" >&2
    exit 1
fi
echo "using $python"

workers=()
"$python" -c 'import xdist' 2>/dev/null && workers=(-n 8)
# Only the tests that use the GPU; compiling ahead of time is tested where there is none.
part tests 200 "$python" -m pytest -q -o addopts= -p no:cacheprovider --confcutdir tests/extras "${workers[@]}" \
    -k "not ahead_of_time" tests/extras/test_triton.py tests/extras/test_cuda_reference.py tests/extras/test_exchange.py

names=(membw gemm_peak moe_decode dense_twin expert_gemm h2d offload_lru balance)
if (($("$python" -c 'import torch; print(torch.cuda.device_count())') > 1)); then
    names+=(all_to_all) # one GPU has nobody to talk to
fi
only=()
for name in "${names[@]}"; do only+=(--only "$name"); done
bench=("$python" -m moe_lib.bench --device cuda "${only[@]}")
part quick 120 "${bench[@]}" --quick --out "$OUT/gpu_quick.jsonl"
if ! part default 240 "${bench[@]}" --out "$OUT/gpu_record.jsonl" && [[ ! -s $OUT/gpu_record.jsonl ]]; then
    cp "$OUT/gpu_quick.jsonl" "$OUT/gpu_record.jsonl" || failed=1
fi

echo "== after $SECONDS s"
printf '%s\n' "${summary[@]}"
exit "$failed"
