#!/usr/bin/env bash
# Starts osdn-train as one process a GPU under Open MPI, on one host or on many.
#
#   scripts/launch_mpirun.sh [OPTION...] -- ARGUMENT-OF-OSDN-TRAIN...
#
#   --ranks N            processes (default: this host's GPUs, one without any;
#                        with --hosts every slot of the file)
#   --hosts FILE         hostfile: a line "NAME slots=GPUS" for each host
#   --network NAME       the interface (eth0) or subnet (10.0.0.0/16) by which the
#                        hosts reach each other, for MPI, NCCL and the watch
#   --cores N            bind each rank to N cores (default: no binding; Open MPI
#                        alone would leave a rank, with its loader, one core)
#   --lost-after S       seconds that mpirun may outlive this host's ranks, which
#                        it does when another host is gone (default: 60)
#   --program PATH       the same on all hosts (default: build/release/bin/osdn-train)
#   --mpirun-option X    handed to mpirun; may be repeated
#   --dry-run            shows the command of mpirun and ends
#
# SIGTERM, SIGINT or SIGHUP to this script ask the ranks to stop: they save once
# and end. A second one goes to mpirun. Variables OSDN_*, NCCL_*, OMP_* and
# LD_LIBRARY_PATH are the same on all hosts.
#
#   scripts/launch_mpirun.sh -- --config 340m_osdn_apf.json --resume auto
#   scripts/launch_mpirun.sh --hosts hosts --network ib0 -- --config 1.3b_osdn_apf.json
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=common.sh
source "$(dirname "$0")/common.sh"

ranks="" hosts="" network="" cores="" dry_run=no
lost_after=60
program=$root/build/release/bin/osdn-train
more=()
while [[ $# -gt 0 && $1 != -- ]]; do
  case "$1" in
    --ranks) ranks=${2:?--ranks needs a number} && shift ;;
    --hosts) hosts=${2:?--hosts needs a file} && shift ;;
    --network) network=${2:?--network needs an interface or a subnet} && shift ;;
    --cores) cores=${2:?--cores needs a number} && shift ;;
    --lost-after) lost_after=${2:?--lost-after needs seconds} && shift ;;
    --program) program=${2:?--program needs a path} && shift ;;
    --mpirun-option) more+=("${2:?--mpirun-option needs a word}") && shift ;;
    --dry-run) dry_run=yes ;;
    -h | --help) print_help && exit 0 ;;
    *) die "unknown option '$1' (those of osdn-train stand behind --); see $0 --help" ;;
  esac
  shift
done
[[ $# -gt 0 ]] || die "-- and the arguments of osdn-train are missing; see $0 --help"
shift
[[ $# -gt 0 ]] || die "behind -- stand no arguments of osdn-train; see $0 --help"
command -v mpirun >/dev/null || die "there is no mpirun; install openmpi-bin"
command -v "$program" >/dev/null || die "there is no program $program; build it, or say --program"
for number in "$ranks" "$cores" "$lost_after"; do
  [[ -z $number || $number =~ ^[1-9][0-9]*$ ]] || die "'$number' is no number of ranks, cores or seconds"
done
[[ -z $hosts || -r $hosts ]] || die "the hostfile $hosts cannot be read"

gpus_here() { nvidia-smi --list-gpus 2>/dev/null | grep -c '^GPU' || true; }

command=(mpirun)
if [[ -n $cores ]]; then
  command+=(--map-by "slot:PE=$cores" --bind-to core)
else
  command+=(--bind-to none)
fi
if [[ -n $hosts ]]; then
  command+=(--hostfile "$hosts")
else
  ranks=${ranks:-$(gpus_here)}
  [[ $ranks != 0 ]] || ranks=1
  command+=(--host "localhost:$ranks")
fi
[[ -z $ranks ]] || command+=(-n "$ranks")
[[ $(id -u) -ne 0 ]] || command+=(--allow-run-as-root)
if [[ -n $network ]]; then
  command+=(--mca oob_tcp_if_include "$network" --mca btl_tcp_if_include "$network")
  if [[ $network != */* ]]; then
    export OSDN_ADDRESS=${OSDN_ADDRESS:-$network}
    export NCCL_SOCKET_IFNAME=${NCCL_SOCKET_IFNAME:-$network}
  fi
fi
while read -r name; do
  command+=(-x "$name")
done < <(compgen -e | grep -E '^(OSDN_|NCCL_|OMP_|LD_LIBRARY_PATH$)' || true)
command+=("${more[@]}" "$program" "$@")

if [[ $dry_run == yes ]]; then
  printf '%q ' "${command[@]}"
  echo
  exit 0
fi

# The living ranks on this host, which are mpirun's children.
ranks_here() {
  local child children=() name
  name=$(basename "$program" | cut -c 1-15)
  read -r -d '' -a children < <(cat "/proc/$mpirun/task"/*/children 2>/dev/null) || true
  for child in "${children[@]}"; do
    # One that has ended and is not yet waited for has no command line.
    [[ $(cat "/proc/$child/comm" 2>/dev/null) != "$name" ||
      -z $(tr -d '\0' 2>/dev/null <"/proc/$child/cmdline") ]] || echo "$child"
  done
}

# One rank that is asked to stop tells the others. mpirun itself, on SIGTERM, lets
# its odls_base_sigkill_timeout (1 s) pass and again before SIGKILL: no time to
# save; and a longer one would also pass after every failure.
mpirun="" asked=no
# shellcheck disable=SC2317
ask_to_stop() {
  local here=()
  if [[ -z $mpirun ]]; then
    asked=early
    return
  fi
  mapfile -t here < <(ranks_here)
  if [[ $asked != yes && ${#here[@]} -gt 0 ]]; then
    say "asking the ranks to save and stop; once more to end them at once"
    kill -TERM "${here[@]}" 2>/dev/null || true
  else
    kill -TERM "$mpirun" 2>/dev/null || true
  fi
  asked=yes
}
trap ask_to_stop TERM INT HUP

# mpirun waits for ever for its daemon on a host that can no longer be reached.
end_when_lost() {
  local gone=0
  # A launching host may have none at all.
  while [[ -z $(ranks_here) ]]; do
    sleep 0.1
    kill -0 "$mpirun" 2>/dev/null || return 0
  done
  while sleep 1 && kill -0 "$mpirun" 2>/dev/null; do
    if [[ -n $(ranks_here) ]]; then
      gone=0
    elif ((++gone >= lost_after)); then
      say "this host's ranks have ended $lost_after s ago and mpirun has not:" \
        "a host is gone; ending mpirun"
      kill -KILL "$mpirun" 2>/dev/null || true
      return
    fi
  done
}

# In a group of its own, so that Ctrl-C comes to this script alone.
set -m
"${command[@]}" </dev/null &
mpirun=$!
set +m
[[ $asked == no ]] || ask_to_stop
end_when_lost &
watcher=$!
while kill -0 "$mpirun" 2>/dev/null; do
  wait "$mpirun" || true  # a signal ends the wait, too
done
kill "$watcher" 2>/dev/null || true
status=0
wait "$mpirun" || status=$?
[[ $status -ne 137 ]] || status=1
exit "$status"
