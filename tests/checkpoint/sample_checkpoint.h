#pragma once
// A checkpoint whose every byte follows from its step, so that a mixture of two
// can be told from either.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "osdn/checkpoint/checkpoint_store.h"
#include "osdn/checkpoint/safetensors.h"
#include "osdn/core/file.h"
#include "support/tensors.h"

namespace osdn::checkpoint::test {

class SampleCheckpoint {
 public:
  explicit SampleCheckpoint(std::int64_t step, std::int64_t elements = 2000) {
    const std::vector<float> values(static_cast<std::size_t>(elements),
                                    static_cast<float>(step));
    const std::vector<double> moments(static_cast<std::size_t>(elements),
                                      0.5 * static_cast<double>(step));
    weights_.add<float>("w", DType::kF32, {elements}, values);
    weights_.add<std::int64_t>("step", DType::kI64, {}, {step});
    optimizer_.add<double>("m", DType::kF64, {elements}, moments);
    parts_.tensors = {{"model.safetensors", weights_.views()},
                      {"optimizer.safetensors", optimizer_.views()}};
    parts_.texts = {{"state.json", text(step)}, {"config.json", "{}"}};
  }
  CheckpointParts& parts() { return parts_; }

  static std::string text(std::int64_t step) {
    return "{\"step\": " + std::to_string(step) + "}\n";
  }

 private:
  osdn::test::Tensors weights_;
  osdn::test::Tensors optimizer_;
  CheckpointParts parts_;
};

/// Saves and expects that to work.
inline SaveResult save(CheckpointStore& store, std::int64_t step) {
  SampleCheckpoint sample(step);
  SaveResult result = store.save(step, sample.parts());
  EXPECT_TRUE(result.saved()) << result.problem;
  EXPECT_EQ(result.problem, "");
  return result;
}

/// Empty, or what in the folder is not the sample of its step.
inline std::string find_mixture(const Checkpoint& checkpoint) {
  const std::int64_t step = checkpoint.step();
  const SafetensorsFile weights(checkpoint.path / "model.safetensors");
  const SafetensorsFile optimizer(checkpoint.path / "optimizer.safetensors");
  if (*static_cast<const std::int64_t*>(weights.tensor("step").data) != step) {
    return "step";
  }
  const TensorView& w = weights.tensor("w");
  const TensorView& m = optimizer.tensor("m");
  for (std::int64_t i = 0; i < w.numel(); ++i) {
    if (static_cast<const float*>(w.data)[i] != static_cast<float>(step)) {
      return "w";
    }
    if (static_cast<const double*>(m.data)[i] !=
        0.5 * static_cast<double>(step)) {
      return "m";
    }
  }
  return read_file(checkpoint.path / "state.json") ==
                 SampleCheckpoint::text(step)
             ? ""
             : "state.json";
}

/// Names in a folder, sorted.
inline std::vector<std::string> names_in(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace osdn::checkpoint::test
