#pragma once
// The loss on held-out data, in the middle of training.

#include <functional>
#include <optional>

#include "osdn/data/validation_set.h"
#include "osdn/dist/world.h"
#include "osdn/model/language_model.h"
#include "osdn/report/step_log.h"

namespace osdn::train {

/// Token-weighted mean over the set, of which every rank takes its rows; the
/// same bits for any number of ranks. Takes no random number, keeps no gradient
/// and writes to nothing that training reads. Nothing when `stop`, asked before
/// every row and answered alike on all ranks, said so.
std::optional<report::ValidationRecord> validate(
    const model::LanguageModel& model, const data::ValidationSet& set,
    dist::World& world, const std::function<bool()>& stop);

}  // namespace osdn::train
