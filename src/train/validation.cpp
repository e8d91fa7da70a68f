#include "osdn/train/validation.h"

#include <ATen/core/grad_mode.h>

#include <chrono>

#include "osdn/core/error.h"
#include "osdn/train/train_step.h"

namespace osdn::train {

std::optional<report::ValidationRecord> validate(
    const model::LanguageModel& model, const data::ValidationSet& set,
    const std::function<bool()>& stop) {
  const at::NoGradGuard no_gradient;
  const auto start = std::chrono::steady_clock::now();
  double sum = 0;
  report::ValidationRecord record;
  for (std::int64_t i = 0; i < set.size(); ++i) {
    if (stop()) {
      return {};
    }
    const data::MicroBatch micro = set.micro_batch(i);
    if (micro.valid_labels == 0) {
      continue;
    }
    sum += model.loss_sum(to_batch(micro, model.device())).item<double>();
    record.tokens += micro.valid_labels;
  }
  if (record.tokens == 0) {
    throw Error(
        "the validation data have no label at all: every document is one "
        "token long; give data.validation longer documents",
        ExitCode::kBadInput);
  }
  record.loss = sum / static_cast<double>(record.tokens);
  record.seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
          .count();
  return record;
}

}  // namespace osdn::train
