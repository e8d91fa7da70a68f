#!/usr/bin/env bash
# The launch scripts, with an mpirun and an srun that only say how they are called
# and start what they are given.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=assert.sh
source "$(dirname "$0")/assert.sh"

launch=$source_dir/scripts/launch_mpirun.sh
mkdir "$work/bin"
export PATH=$work/bin:$PATH WORK=$work
# Ranks that wait, and save when they are asked to stop.
cat >"$work/bin/osdn-train" <<'END'
#!/bin/bash
trap 'echo saved >>"$WORK/saved"; exit 0' TERM
echo "rank with $*" >>"$WORK/ranks"
[[ $1 != fail ]] || exit 1
for ((i = 0; i < 600; ++i)); do sleep 0.1; done
END
# Outlives its ranks when HANG is set, as with a host that is gone.
cat >"$work/bin/mpirun" <<'END'
#!/usr/bin/env bash
echo "$*" >"$WORK/mpirun"
while [[ $1 != */osdn-train ]]; do shift; done
status=0
"$@" & first=$!
"$@" & second=$!
wait "$first" || status=$?
wait "$second" || status=$?
if [[ -n ${HANG:-} ]]; then exec sleep 600; fi
exit "$status"
END
chmod +x "$work"/bin/*
run=("$launch" --program "$work/bin/osdn-train")

echo "- options"
expect_ok "${run[@]}" --dry-run --ranks 4 -- --config a.json
expect_output "--bind-to none --host localhost:4 -n 4"
expect_no_output "sigkill"
expect_output "osdn-train --config a.json"
echo "a slots=2" >"$work/hosts"
NCCL_DEBUG=INFO expect_ok "${run[@]}" --dry-run --hosts "$work/hosts" --network eth9 \
  --cores 6 --mpirun-option --tag-output -- --config a.json
expect_output "--map-by slot:PE=6 --bind-to core --hostfile $work/hosts"
expect_output "--mca oob_tcp_if_include eth9 --mca btl_tcp_if_include eth9"
for variable in NCCL_DEBUG NCCL_SOCKET_IFNAME OSDN_ADDRESS; do
  expect_output "-x $variable"
done
expect_output "--tag-output"
expect_ok "${run[@]}" --dry-run --hosts "$work/hosts" --network 10.0.0.0/8 -- x
expect_no_output "-x OSDN_ADDRESS"
expect_error "${run[@]}" --ranks two -- x
expect_output "'two' is no number"
expect_error "${run[@]}" --cores 0 -- x
expect_error "${run[@]}" --
expect_output "behind -- stand no arguments"
expect_error "${run[@]}" --config a.json
expect_output "stand behind --"
expect_error "${run[@]}"
expect_error "$launch" --program "$work/none" -- x
expect_error "${run[@]}" --hosts "$work/none" -- x

echo "- a failing rank is a failing run"
if "${run[@]}" -- fail >"$work/output" 2>&1; then fail "no failure"; fi

await() {
  local i
  for ((i = 0; i < 300; ++i)); do
    ! "$@" || return 0
    sleep 0.1
  done
  fail "not in time: $*"
}
lines() { [[ -e $1 && $(wc -l <"$1") -eq $2 ]]; }

for signal in TERM HUP; do
  echo "- SIG$signal asks the ranks, not mpirun"
  rm -f "$work/ranks" "$work/saved"
  "${run[@]}" -- go >"$work/output" 2>&1 &
  script=$!
  await lines "$work/ranks" 2
  kill "-$signal" "$script"
  wait "$script" || fail "exit code $?"
  lines "$work/saved" 2 || fail "not both ranks have saved"
  expect_output "asking the ranks"
done

echo "- mpirun that outlives its ranks is ended"
rm -f "$work/ranks"
HANG=1 "${run[@]}" --lost-after 1 -- go >"$work/output" 2>&1 &
script=$!
await lines "$work/ranks" 2
kill -TERM "$script"
status=0
wait "$script" || status=$?
[[ $status -eq 1 ]] || fail "exit code $status"
expect_output "a host is gone"

echo "- Slurm"
cat >"$work/bin/srun" <<'END'
#!/usr/bin/env bash
echo "$SRUN_CPUS_PER_TASK ${SLURM_JOB_END_TIME:-no end} $*"
END
cat >"$work/bin/squeue" <<'END'
#!/usr/bin/env bash
[[ $* == *"--jobs=12 "* ]] && echo "$END_OF_JOB"
END
chmod +x "$work/bin/srun" "$work/bin/squeue"
export SLURM_CPUS_PER_TASK=7 SLURM_JOB_ID=12 TZ=UTC
batch=(bash "$source_dir/scripts/slurm/train.sbatch" --config a.json)
SLURM_JOB_END_TIME=99 expect_ok "${batch[@]}"
expect_output "7 99 --mpi=pmix"
expect_output "osdn-train --resume auto --signal-before 10m --config a.json"
END_OF_JOB=2026-11-30T05:57:04 expect_ok "${batch[@]}"
expect_output "7 1796018224 --mpi=pmix"
expect_output "--signal-before 10m"
END_OF_JOB=NONE expect_ok "${batch[@]}"
expect_output "7 no end --mpi=pmix"
expect_output "osdn-train --resume auto --config a.json"
