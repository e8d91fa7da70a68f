#!/usr/bin/env bash
# From raw text to two trained and evaluated small models, on the CPU.
#
#   scripts/quickstart.sh [--fresh] [--bin FOLDER] [--set KEY=VALUE]...
#
#   --fresh        start over: remove data/quickstart and runs/quickstart_*
#   --bin FOLDER   use these programs; no set-up and no build
#   --set K=V      handed to osdn-train, for example --set training.steps=50
#
# The text is the King James Bible of the Debian package bible-kjv: each book is
# a document, the last nine (Hebrews to Revelation, 3.7 % of the text) are held
# out for validation. What is done already is not done again.
#
# OSDN_QUICKSTART_DIR  holds data/ and runs/ (default: the source folder)
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=common.sh
source "$(dirname "$0")/common.sh"

# osdn-train takes these as a wish to save and ends well: the rest must not go on.
trap 'say "stopped; run it again to go on"; exit 130' INT
trap 'say "stopped; run it again to go on"; exit 143' TERM
trap 'say "stopped; run it again to go on"; exit 129' HUP

fresh=no
bin=""
overrides=()
while [[ $# -gt 0 ]]; do
  case "$1" in
    --fresh) fresh=yes ;;
    --bin) bin=$(cd "${2:?--bin needs a folder}" && pwd) && shift ;;
    --set) overrides+=(--set "${2:?--set needs KEY=VALUE}") && shift ;;
    -h | --help) print_help && exit 0 ;;
    *) die "unknown option '$1'; see $0 --help" ;;
  esac
  shift
done

if [[ -z $bin ]]; then
  "$root/scripts/setup.sh"
  build_preset release "$(parallel_jobs)" osdn
  bin=$root/build/release/bin
fi
command -v bible >/dev/null || ensure_packages bible-kjv

place=${OSDN_QUICKSTART_DIR:-$root}
mkdir -p "$place"
cd "$place"
data=data/quickstart
models=(quickstart_deltanet quickstart_osdn_apf)
if [[ $fresh == yes ]]; then
  rm -rf "$data" "${models[@]/#/runs/}"
fi

# Threads that wait for work sleep instead of spinning: without this a core
# that something else uses too costs a training run nine tenths of its speed.
export OMP_WAIT_POLICY=${OMP_WAIT_POLICY:-passive}

# run COMMAND...: shows it, without the folder of the programs, and runs it.
run() {
  printf '\n$ %s\n' "${*/#"$bin/"/}"
  "$@"
}

# ---- 1. text: one file a book ------------------------------------------------
held_out=9
if [[ ! -d $data/text ]]; then
  say "1/5 text: writing the 66 books to $data/text"
  rm -rf "$data/text.new"
  mkdir -p "$data/text.new"/{train,validation}
  # "Ge1:1 In the beginning ...": the letters of the reference name the book.
  bible -f "Genesis 1:1 - Revelation 22:21" | LC_ALL=C awk \
    -v folder="$data/text.new" -v first_held_out=$((66 - held_out + 1)) '
      {
        reference = $1
        sub(/[0-9]+:[0-9]+$/, "", reference)
        if (reference != book) {
          close(file)
          book = reference
          part = ++books < first_held_out ? "train" : "validation"
          file = sprintf("%s/%s/%02d_%s.txt", folder, part, books, book)
        }
        print substr($0, length($1) + 2) > file
      }
      END {
        if (books != 66 || NR != 31102) {
          print "bible printed " NR " verses of " books " books" > "/dev/stderr"
          exit 1
        }
      }' || die "the bible program did not print 31102 verses of 66 books"
  mv "$data/text.new" "$data/text"
else
  say "1/5 text: $data/text is there"
fi

# ---- 2. tokenizer --------------------------------------------------------------
if [[ ! -e $data/tokenizer.model ]]; then
  say "2/5 tokenizer: learning 2000 pieces from the books for training"
  run "$bin/osdn-data" train-tokenizer "$data/text/train" \
    --vocab-size 2000 --output "$data/tokenizer.model"
else
  say "2/5 tokenizer: $data/tokenizer.model is there"
fi

# ---- 3. shards -------------------------------------------------------------------
for part in train validation; do
  if [[ ! -d $data/$part ]]; then
    say "3/5 shards: tokenizing the books for $part"
    run "$bin/osdn-data" tokenize "$data/text/$part" \
      --tokenizer "$data/tokenizer.model" --output "$data/$part"
  else
    say "3/5 shards: $data/$part is there"
  fi
done

# ---- 4. training: about two minutes each on two cores ----------------------------
for model in "${models[@]}"; do
  say "4/5 training: $model"
  run "$bin/osdn-train" --config "$model.json" --resume auto "${overrides[@]}"
done

# ---- 5. evaluation on the held-out books -------------------------------------------
results=()
for model in "${models[@]}"; do
  say "5/5 evaluation: $model"
  run "$bin/osdn-eval" --task ppl,q_geo --model "runs/$model" \
    --data "$data/text/validation" --tokenizer "$data/tokenizer.model" \
    --out "runs/$model/results.json"
  results+=("runs/$model/results.json")
done
run "$bin/osdn-eval" --compare "${results[@]}"
