#!/usr/bin/env bash
# The quickstart from text to the closing table, with a few steps of training;
# run again it does nothing twice.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=assert.sh
source "$(dirname "$0")/assert.sh"

bin=${OSDN_BIN_DIR:?set OSDN_BIN_DIR to the folder of the programs}
if ! command -v bible >/dev/null; then
  [[ -z ${CI:-} ]] || fail "bible-kjv is not installed; scripts/setup.sh brings it"
  skip "bible-kjv is not installed"
fi

export OSDN_QUICKSTART_DIR=$work/quickstart OMP_NUM_THREADS=1
# The schedule and the widths shrink too: this tests the way, not the models.
quickstart=("$source_dir/scripts/quickstart.sh" --bin "$bin"
  --set training.steps=2 --set schedule.total_steps=2
  --set schedule.warmup_steps=1 --set data.sequence_length=256
  --set training.threads=1 --set training.validate_every=0
  --set model.hidden_size=24 --set model.intermediate_size=32
  --set model.num_layers=1 --set model.num_heads=1)

echo "- from nothing"
expect_ok "${quickstart[@]}"
[[ $(find "$OSDN_QUICKSTART_DIR/data/quickstart/text" -name '*.txt' | wc -l) -eq 66 ]] ||
  fail "not 66 books"
grep -q '^In the beginning God created' "$OSDN_QUICKSTART_DIR/data/quickstart/text/train/01_Ge.txt" ||
  fail "the references were not stripped"
for model in quickstart_deltanet quickstart_osdn_apf; do
  [[ -s $OSDN_QUICKSTART_DIR/runs/$model/results.json ]] || fail "$model was not evaluated"
done
expect_output "word_perplexity"
expect_output "q_geo"

echo "- again"
expect_ok "${quickstart[@]}"
expect_output "tokenizer.model is there"
expect_no_output "step 1/2"
expect_output "q_geo"
