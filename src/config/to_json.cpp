#include <nlohmann/json.hpp>

#include "key_table.h"
#include "osdn/config/reader.h"

namespace osdn::config {

std::string to_json(const Config& config) {
  nlohmann::json root = nlohmann::json::object();
  for (const Key& key : key_table()) {
    if (key.applies && !key.applies(config)) {
      continue;
    }
    const std::optional<Value> value = key.get(config);
    if (!value) {
      continue;
    }
    std::visit(
        [&](const auto& held) {
          root[nlohmann::json::json_pointer(key.pointer())] = held;
        },
        *value);
  }
  return root.dump(2) + "\n";
}

}  // namespace osdn::config
