#pragma once
// A look at a step's gradients, for diagnostics. No LibTorch here.

#include <cstdint>
#include <functional>

namespace osdn::model {
class LanguageModel;
}

namespace osdn::train {

/// Called after the backward passes, before the gradients are judged; they are
/// those of the model's parameters; where there are other ranks they have been
/// sent by then, and the parameters have none. `step` counts from 1.
using GradientObserver =
    std::function<void(std::int64_t step, const model::LanguageModel& model)>;

}  // namespace osdn::train
