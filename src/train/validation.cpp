#include "osdn/train/validation.h"

#include <ATen/core/grad_mode.h>

#include <chrono>
#include <vector>

#include "osdn/core/error.h"
#include "osdn/train/train_step.h"

namespace osdn::train {

std::optional<report::ValidationRecord> validate(
    const model::LanguageModel& model, const data::ValidationSet& set,
    dist::World& world, const std::function<bool()>& stop) {
  const at::NoGradGuard no_gradient;
  const auto start = std::chrono::steady_clock::now();
  // Of this rank's rows: losses, and how many labels each has.
  std::vector<double> losses;
  std::vector<double> labels;
  for (std::int64_t i = 0; i < set.size(); ++i) {
    if (stop()) {
      return {};
    }
    const data::MicroBatch micro = set.micro_batch(i);
    labels.push_back(static_cast<double>(micro.valid_labels));
    losses.push_back(
        micro.valid_labels == 0
            ? 0.0
            : model.loss_sum(to_batch(micro, model.device())).item<double>());
  }
  // Added row by row, in the set's order.
  const auto all_losses = world.all_numbers(losses);
  const auto all_labels = world.all_numbers(labels);
  double sum = 0;
  report::ValidationRecord record;
  for (std::size_t i = 0; i < losses.size(); ++i) {
    for (std::size_t rank = 0; rank < all_losses.size(); ++rank) {
      sum += all_losses[rank][i];
      record.tokens += static_cast<std::int64_t>(all_labels[rank][i]);
    }
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
