#pragma once
// Names in messages.

#include <string>
#include <vector>

namespace osdn::eval {

/// "a, b, c"
inline std::string in_words(const std::vector<std::string>& names) {
  std::string words;
  for (const std::string& name : names) {
    words += (words.empty() ? "" : ", ") + name;
  }
  return words;
}

}  // namespace osdn::eval
