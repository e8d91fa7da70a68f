#pragma once
// What a model carries of several documents, document by document: they enter
// and leave a batch, and their states go to files and come back.

#include <cstdint>
#include <span>
#include <vector>

#include "osdn/model/language_model.h"

namespace osdn::model {

/// One tensor of a layer's state. Its first dimension counts the documents.
struct StateTensor {
  const char* name;  ///< in files; never changed
  at::Tensor layers::AttentionState::*tensor;
};

/// All tensors that a layer's state can have.
std::span<const StateTensor> state_tensors();

/// The states of these documents of a batch, in this order. The state at the
/// documents' start stays that.
ModelState select_documents(const ModelState& state,
                            const std::vector<std::int64_t>& documents);

/// The documents of several batches, one behind the other. Throws Error when
/// some are at their start and others are not.
ModelState join_documents(const std::vector<ModelState>& states);

/// The same on another device.
ModelState on_device(ModelState state, at::Device device);

}  // namespace osdn::model
