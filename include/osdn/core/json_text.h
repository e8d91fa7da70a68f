#pragma once
// JSON whose objects may say two things about one key.

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace osdn {

/// A key that stands in an object more than once.
struct RepeatedKey {
  std::string key;
  std::size_t depth = 1;  ///< 1: of the outermost object
};

/// The value of a JSON text. Of several values for one key the parser keeps the
/// last without a word: each such key is added to `repeated`, in the order of
/// the text, so that the caller can refuse it. Throws
/// nlohmann::json::exception.
nlohmann::json parse_json(std::string_view text,
                          std::vector<RepeatedKey>& repeated);

}  // namespace osdn
