#include "osdn/core/json_text.h"

#include <nlohmann/json.hpp>
#include <set>

namespace osdn {

using nlohmann::json;

json parse_json(std::string_view text, std::vector<RepeatedKey>& repeated) {
  std::vector<std::set<std::string>> open;  // keys of the objects around
  const auto watch = [&](int, json::parse_event_t event, json& parsed) {
    if (event == json::parse_event_t::object_start) {
      open.emplace_back();
    } else if (event == json::parse_event_t::object_end) {
      open.pop_back();
    } else if (event == json::parse_event_t::key) {
      const auto& key = parsed.get_ref<const std::string&>();
      if (!open.back().insert(key).second) {
        repeated.push_back({key, open.size()});
      }
    }
    return true;
  };
  return json::parse(text, watch);
}

}  // namespace osdn
