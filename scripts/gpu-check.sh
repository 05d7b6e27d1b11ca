#!/usr/bin/env bash
# Everything that a GPU is needed to check, in one go of less than 8 minutes:
#
#   scripts/gpu-check.sh pack FOLDER    where Rust is: builds what is needed and puts it, with this script, in FOLDER
#   FOLDER/gpu-check.sh run             where the GPU is: checks results on cuda:0, then times, and prints one table
#
# FOLDER has at most 60 MB, and all that is needed of ours: PyTorch's side of every row is in the program.
#
# The machine with the GPU needs NVIDIA's driver, NVRTC (a CUDA toolkit, or the package that PyTorch comes with) and, to
# compare with, a Python that has torch and numpy: PYTHON names it (python3). LIMIT is the second after which no row
# begins (390); what hangs is ended. The table is also written to FOLDER/table.txt, the figures behind it to FOLDER/figures.jsonl, and what the GPUs
# reach by themselves to FOLDER/measured.toml, a machine file.
#
# Where there is no GPU the script itself can be tried: TRY=1 takes small sizes, EIN and CONFORMANCE name other programs
# than those of FOLDER, such as the command on fake GPUs (`ein_on_fakes` of the tests).
set -euo pipefail

pack() {
    local folder="${1:?a folder to pack into}"
    cd "$(dirname "$0")/.."
    cargo build --release --package ein-cli
    local tests
    tests="$(cargo test --release --package ein-tests --test cuda --no-run --message-format json |
        python3 -c 'import json, sys
rows = map(json.loads, sys.stdin)
print([r["executable"] for r in rows if r.get("executable") and r["target"]["name"] == "cuda"][-1])')"
    local target="${CARGO_TARGET_DIR:-target}"
    mkdir -p "$folder"
    cp "$target/release/ein" "$folder/ein"
    cp "$tests" "$folder/conformance"
    cp scripts/gpu-check.sh "$folder/gpu-check.sh"
    strip "$folder/ein" "$folder/conformance"
    du -ch "$folder"/* | tail -n 1
    local bytes
    bytes="$(cat "$folder"/{ein,conformance,gpu-check.sh} | wc -c)"
    if ((bytes > 60000000)); then
        echo "$bytes bytes are more than 60 MB" >&2
        exit 1
    fi
}

# One line of figures: our side and, where PyTorch is there, its sides, timed in turns. The second size is for trying.
# More options of `ein bench` may follow.
bench() {
    local what="$1" line="$2" devices="$4" peers="$5"
    [[ -z "$TRY" ]] || line="$3"
    shift 5
    if ((SECONDS > LIMIT)); then
        echo "{\"what\": \"$what\", \"line\": \"$line${*:+ $*}\", \"devices\": \"$devices\", \"skipped\": true}" >>figures.jsonl
        return
    fi
    echo "timing $line on $devices" >&2
    local figures
    # A result that differs is said in the figures and by the exit code; the table says it again.
    figures="$(timeout -k 5 "$((SECONDS < 400 ? 75 : 475 - SECONDS))" "$EIN" bench "$line" --machine "$MACHINE" --devices "$devices" --compare "$peers" --python "$PYTHON" \
        --runs "$RUNS" --no-cache --json "$@" 2>>errors.txt)" || true
    [[ -n "$figures" ]] || figures='null'
    WHAT="$what" LINE="$line${*:+ $*}" DEVICES="$devices" FIGURES="$figures" "$PYTHON" -c 'import json, os
e = os.environ
row = {"what": e["WHAT"], "line": e["LINE"], "devices": e["DEVICES"], "figures": json.loads(e["FIGURES"])}
print(json.dumps(row))' >>figures.jsonl
}

table() {
    CONFORMS="$1" "$PYTHON" - <<'TABLE'
import json, os, re

# roof: the least seconds that the GPU's rates allow, by operations or bytes, over those that were taken; of decoding that
# is the part of its memory's bandwidth.
print(f"{'workload':<50} {'devices':<8} {'ours ms':>9} {'TFLOP/s':>8} {'roof':>5} {'MB moved':>9} {'against':<16} {'ratio':>6} {'roof':>5} {'apart':>8}")
rows = [json.loads(line) for line in open("figures.jsonl")]
for row in rows:
    head = f"{row['line']:<50} {row['devices'].count(',') + 1:<8}"
    figures = row.get("figures")
    if not figures:
        print(head, "no time left" if row.get("skipped") else "FAILED: see errors.txt")
        continue
    floor = figures["floor"]["seconds"]
    own = f"{figures['seconds'] * 1e3:>9.3f} {figures['gflops'] / 1e3:>8.1f} {floor / figures['seconds']:5.2f} {figures['bytes_moved'] / 1e6:>9.1f}"
    sides = [(p["name"], p["ratio"], f"{floor / p['seconds']:5.2f}", p["apart"]) for p in figures["peers"]]
    sides += [("one device", one["ratio"], "", None) for one in [figures["one_device"]] if one]
    sides += [(f"{m['name']}: {m['reason']}", None, "", None) for m in figures["missing"]]
    for n, (name, ratio, roof, apart) in enumerate(sides or [("", None, "", None)]):
        ratio = "" if ratio is None else f"{ratio:6.3f}"
        apart = "" if apart is None else f"{apart:8.1e}"
        print(head if n == 0 else " " * len(head), own if n == 0 else " " * len(own), f"{name:<16} {ratio:>6} {roof:>5} {apart:>8}")

measured = open("measured.toml").read() if os.path.exists("measured.toml") else ""


def found(pattern, scale=1.0):
    match = re.search(pattern, measured, re.M)
    return float(match[1]) * scale if match else None


def bar(what, least, value, form="{:.3f}", most=False):
    """One line of what must be: the bar, what was found, and whether that is enough."""
    if value is None:
        print(f"{what:<76} {'<=' if most else '>='} {form.format(least):<10} {'not measured':>14}")
        return
    enough = value <= least if most else value >= least
    print(f"{what:<76} {'<=' if most else '>='} {form.format(least):<10} {form.format(value):>14}  {'met' if enough else 'MISSED'}")


def ratio(row):
    """PyTorch's seconds over ours, so that more is better."""
    peers = (row.get("figures") or {}).get("peers") or []
    return 1.0 / peers[0]["ratio"] if peers else None


print()
results = {"0": "equal", "124": "NOT ALL IN TIME"}.get(os.environ["CONFORMS"], "DIFFER")
print(f"{'results as 1, 2, 4 and 8 devices':<76} {'within bound':<13} {results:>14}")
lines = {}
for row in rows:
    lines.setdefault((row["what"], row["line"].split()[0]), []).append(row)
for (what, line), same in lines.items():
    ratios = [r for r in map(ratio, same) if r is not None]
    figures = same[0].get("figures")
    if what == "product":
        bar(f"{line}: our rate over PyTorch's", 0.97, max(ratios, default=None))
    if what == "attention":
        # Of both ways the better one: `machine measure` finds which that is.
        bar(f"{line}: our rate over the best of PyTorch's", 0.9, max(ratios, default=None))
    if what == "block":
        bar(f"{line}: our time over PyTorch's, compiled", 1.0, 1.0 / max(ratios) if ratios else None, most=True)
    if what == "decode":
        bar(f"{line}: part of the memory's bandwidth", 0.85, figures["floor"]["seconds"] / figures["seconds"] if figures else None)
    if what == "devices":
        copies = found(r"copies within its memory ([\d.]+) GB/s", 1e9)
        if not figures or not figures["one_device"] or not copies:
            print(f"{line}: 8 devices against 1: not measured")
            continue
        extra, moved = figures["seconds"] - figures["one_device"]["seconds"], figures["bytes_moved"]
        print(f"{line}: 8 devices take {extra * 1e3:.3f} ms more than 1; the {moved / 1e6:.1f} MB moved are {moved / copies * 1e3:.3f} ms at {copies / 1e9:.1f} GB/s")
units = {"s": 1e6, "ms": 1e3, "us": 1.0, "ns": 1e-3}
launch = re.search(r'^launch = "([\d.e-]+) (\w+)"', measured, re.M)
bar("one more task of a replay, in microseconds", 1.0, float(launch[1]) * units[launch[2]] if launch else None, most=True)
TABLE
}

run() {
    cd "$(dirname "$0")"
    SECONDS=0
    PYTHON="${PYTHON:-python3}" LIMIT="${LIMIT:-390}" MACHINE=cuda TRY="${TRY:-}" RUNS=9
    EIN="${EIN:-./ein}" CONFORMANCE="${CONFORMANCE:-./conformance}"
    local measure=(--runs 5) on_gpu=(EIN_TEST_GPU=1)
    [[ -z "$TRY" ]] || RUNS=2 measure=(--runs 1 --quick) on_gpu=()
    rm -f measured.toml table.txt
    : >figures.jsonl
    : >errors.txt
    nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader || true
    # The compiler that PyTorch comes with, where the system has none. What it compiles is not for fake GPUs.
    if [[ -z "$TRY" && -z "${EIN_NVRTC:-}" ]] && ! ldconfig -p | grep -q 'libnvrtc\.so\.1[23]'; then
        EIN_NVRTC="$("$PYTHON" -c 'import glob, os, site
found = [f for s in site.getsitepackages() for f in glob.glob(os.path.join(s, "nvidia", "*", "lib", "libnvrtc.so.1[23]"))]
print(os.path.dirname(sorted(found)[-1]) if found else "")' 2>/dev/null || true)"
        [[ -z "$EIN_NVRTC" ]] || export EIN_NVRTC
    fi
    echo "results on cuda:0, as 1, 2, 4 and 8 devices:"
    local failed=0
    env "${on_gpu[@]}" timeout 120 "$CONFORMANCE" --test-threads 1 conformance 2>&1 | tail -n 30 || failed=$?
    # What a plan for this host's GPUs may count on, and which attention serves. What a task costs in a replay is `launch`.
    timeout -k 5 75 "$EIN" machine measure --machine cuda "${measure[@]}" --out measured.toml 2>>errors.txt ||
        echo "the GPUs are not measured: see errors.txt" >&2
    [[ ! -f measured.toml ]] || grep -E '^(#|launch|memory_bandwidth|under_softmax|prefers)' measured.toml
    local eight=cuda:0,cuda:0,cuda:0,cuda:0,cuda:0,cuda:0,cuda:0,cuda:0
    local heads=32,8,128,causal,bf16 few=4,2,32,causal,bf16
    bench product gemm:8192,8192,8192,bf16 gemm:64,48,80,bf16 cuda:0 torch:eager
    bench attention "attention:1x4096,$heads" "attention:1x96,$few" cuda:0 torch:eager
    bench attention "attention:1x4096,$heads" "attention:1x96,$few" cuda:0 torch:eager --wgmma
    bench attention "attention:1x32768,$heads" "attention:1x160,$few" cuda:0 torch:eager
    bench attention "attention:1x32768,$heads" "attention:1x160,$few" cuda:0 torch:eager --wgmma
    bench attention "attention:32x128,$heads" "attention:3x32,$few" cuda:0 torch:eager
    bench attention "attention:32x128,$heads" "attention:3x32,$few" cuda:0 torch:eager --wgmma
    local layer=4096,32,32,11008,bf16 thin=64,4,4,96,bf16
    bench decode "block:decode=64x4096,$layer" "block:decode=3x64,$thin" cuda:0 torch:compile
    # Blocks with the attention that was measured to be the better one.
    [[ ! -f measured.toml ]] || MACHINE=./measured.toml
    bench block "block:1x4096,$layer" "block:1x96,$thin" cuda:0 torch:compile
    bench devices "block:1x4096,$layer" "block:1x96,$thin" "$eight" torch:eager
    bench block "block:8x1024,$layer" "block:2x48,$thin" cuda:0 torch:compile
    bench block block:1x4096,8192,64,8,28672,bf16 block:1x96,64,4,2,96,bf16 cuda:0 torch:compile
    bench attention "attention:1x16384,$heads" "attention:1x128,$few" cuda:0 torch:eager
    table "$failed" | tee table.txt
    echo "$SECONDS seconds in all" >&2
    if ((failed)); then
        echo "results differ, or not all of them were there in time: see above" >&2
        exit 1
    fi
}

case "${1:-}" in
pack) pack "${2:-}" ;;
run) run ;;
*)
    sed -n '2,10p' "$0" >&2
    exit 2
    ;;
esac
