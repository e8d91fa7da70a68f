#pragma once
// A configuration that trains anywhere in no time, on no data.

#include <nlohmann/json.hpp>

namespace osdn::test {

inline nlohmann::json tiny_config() {
  return {{"run_dir", "run"},
          {"model",
           {{"layer", "deltanet"},
            {"vocab_size", 50},
            {"hidden_size", 16},
            {"num_layers", 1},
            {"num_heads", 2},
            {"intermediate_size", 24}}},
          {"data", {{"train", {"none"}}}},
          {"training", {{"device", "cpu"}, {"threads", 1}}}};
}

}  // namespace osdn::test
