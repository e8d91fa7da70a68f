#pragma once
// The processes that share one evaluation.

#include <functional>
#include <string>
#include <vector>

namespace osdn::eval {

/// Packs are dealt to ranks one by one, and every rank then has all answers.
struct Ranks {
  int rank = 0;
  int count = 1;
  /// Collective: the texts of all ranks in their order, on each of them.
  /// Needed for count > 1.
  std::function<std::vector<std::string>(const std::string& mine)> gather{};
};

}  // namespace osdn::eval
