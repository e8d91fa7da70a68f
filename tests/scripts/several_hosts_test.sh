#!/usr/bin/env bash
# Runs over several hosts, which are network namespaces of this machine: started
# through launch_mpirun.sh with a hostfile, compared with a run on one host, and
# ended by a cable that is pulled out.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=assert.sh
source "$(dirname "$0")/assert.sh"
# shellcheck source-path=SCRIPTDIR source=network_hosts.sh
source "$(dirname "$0")/network_hosts.sh"

bin=${OSDN_BIN_DIR:?set OSDN_BIN_DIR to the folder of the programs}
if ! command -v mpirun >/dev/null; then
  [[ -z ${CI:-} ]] || fail "there is no mpirun; scripts/setup.sh brings it"
  skip "there is no mpirun"
fi
[[ $(mpirun --version) == *"Open MPI"* ]] || skip "mpirun is not Open MPI's"
can_make_hosts || skip "$why_not"

trap 'end_all; remove_hosts; rm -rf "$work"' EXIT
# What a cut cable leaves behind: mpirun's daemons on the other hosts.
end_all() {
  local i process
  for i in "${!address[@]}"; do
    for process in $(ip netns pids "$host_prefix-$i"); do
      kill -KILL "$process" 2>/dev/null || true
    done
  done
}

make_hosts 2 "$work"
printf '%s slots=2\n' "${address[@]}" >"$work/hosts"
export OMP_NUM_THREADS=1 GOMP_SPINCOUNT=1000 TMPDIR=$work

echo "- data"
cat "$source_dir"/docs/*.md >"$work/text.txt"
expect_ok "$bin/osdn-data" train-tokenizer "$work/text.txt" --vocab-size 400 --output "$work/tokenizer.model"
expect_ok "$bin/osdn-data" tokenize "$work/text.txt" --tokenizer "$work/tokenizer.model" --output "$work/data"
cat >"$work/config.json" <<END
{"run_dir": "$work/runs",
 "model": {"layer": "deltanet", "vocab_size": 400, "hidden_size": 32, "num_layers": 2,
           "num_heads": 2, "intermediate_size": 48},
 "data": {"train": ["$work/data"], "context_length": 32, "sequence_length": 64},
 "optimizer": {"lr": 0.003},
 "schedule": {"total_steps": 100000, "warmup_steps": 4},
 "training": {"steps": 12, "global_batch": 4, "micro_batch": 1, "seed": 1, "device": "cpu",
              "dtype": "fp32", "threads": 1, "validate_every": 0},
 "checkpoint": {"every": 4, "keep_last": 2},
 "dist": {"timeout_s": 10, "bucket_mb": 0.01},
 "logging": {"every": 1}}
END

# Open MPI does not free all that it takes, which a build with sanitizers would
# report as a failure of each rank.
no_leak_check=(--mpirun-option -x --mpirun-option LSAN_OPTIONS=detect_leaks=0)
# train HOSTFILE NAME ARGUMENT...: on host 0, which starts the others.
train() {
  local hosts=$1 name=$2
  shift 2
  on_host 0 "$source_dir/scripts/launch_mpirun.sh" --hosts "$hosts" --network net0 \
    --program "$bin/osdn-train" --lost-after 5 \
    --mpirun-option --mca --mpirun-option plm_rsh_agent --mpirun-option "$rsh_agent" \
    --mpirun-option --oversubscribe \
    "${no_leak_check[@]}" \
    -- --config "$work/config.json" --run-dir "$work/runs/$name" "$@"
}
# losses NAME: each step's, as it was logged.
losses() { sed -n 's/.*"loss":\([-0-9.e]*\).*/\1/p' "$work/runs/$1/log.jsonl"; }

echo "- two hosts of two ranks train as one host of four"
printf '%s slots=4\n' "${address[0]}" >"$work/one"
expect_ok train "$work/one" one
expect_ok train "$work/hosts" two
expect_output "host-0"
expect_output "host-1"
[[ $(losses one | wc -l) -eq 12 ]] || fail "not 12 steps: $(losses one)"
# The same ranks sum in the same order, wherever they are.
diff <(losses one) <(losses two) >"$work/output" || fail "the losses differ"

# start NAME: a run without an end, and waits for its first checkpoint.
start() {
  local i
  train "$work/hosts" "$1" --set training.steps=90000 --set checkpoint.every=3 \
    >"$work/output" 2>&1 &
  run=$!
  for ((i = 0; i < 600; ++i)); do
    kill -0 "$run" 2>/dev/null || fail "it has ended early"
    [[ ! -e $work/runs/$1/checkpoints/step_000000003 ]] || return 0
    sleep 0.1
  done
  fail "no checkpoint in a minute"
}
# A save that was cut short has another ending.
latest() { find "$work/runs/$1/checkpoints" -maxdepth 1 | grep -E '/step_[0-9]+$' | sort | tail -n 1; }

echo "- SIGTERM to the launch script saves once and is a good end"
start stopped
kill -TERM "$(tr -d ' ' <"/proc/$run/task/$run/children")"
wait "$run" || fail "exit code $?"
expect_output "saved $(latest stopped)"
[[ $(losses stopped | wc -l) -eq $((10#$(basename "$(latest stopped)" | tr -dc 0-9))) ]] ||
  fail "the last step is not the one that was saved: $(latest stopped)"

echo "- a cable that is pulled out ends all ranks, and says who is gone"
status=0
start cut
cut_host 1
start=$SECONDS
ranks() { ip netns pids "$host_prefix-$1" | while read -r p; do
  [[ $(cat "/proc/$p/comm" 2>/dev/null) != osdn-train ]] || echo "$p"
done; }
# dist.timeout_s is 10; a busy machine may take longer to end a process.
for host in 0 1; do
  while [[ -n $(ranks "$host") ]]; do
    ((SECONDS - start < 60)) || fail "ranks of host $host live on: $(ranks "$host")"
    sleep 0.2
  done
done
echo "  all ranks ended within $((SECONDS - start)) s"
wait "$run" || status=$?
[[ $status -ne 0 ]] || fail "the run counts as a good one"
expect_output "rank 2 (host host-1)"
expect_output "no sign of life"

echo "- and the latest checkpoint is sound"
last=$(latest cut)
step=$((10#${last##*step_}))
mend_host 1
expect_ok train "$work/hosts" cut --resume auto --set training.steps=$((step + 2)) \
  --set checkpoint.every=3
expect_output "$(basename "$last")"
