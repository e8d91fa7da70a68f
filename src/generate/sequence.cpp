#include "osdn/generate/sequence.h"

#include <algorithm>
#include <array>
#include <utility>

namespace osdn::generate {
namespace {

constexpr std::array<std::pair<Finish, std::string_view>, 4> kNames = {
    {{Finish::kLength, "length"},
     {Finish::kEnd, "eos"},
     {Finish::kStop, "stop"},
     {Finish::kInterrupted, "interrupted"}}};

}  // namespace

std::string_view name_of(Finish finish) {
  return std::find_if(kNames.begin(), kNames.end(),
                      [&](const auto& entry) { return entry.first == finish; })
      ->second;
}

std::optional<Finish> finish_from_name(std::string_view name) {
  for (const auto& [finish, spelling] : kNames) {
    if (spelling == name) return finish;
  }
  return std::nullopt;
}

void add_seen(std::vector<std::int32_t>& seen,
              std::span<const std::int32_t> ids) {
  if (ids.size() == 1) {
    const auto at = std::lower_bound(seen.begin(), seen.end(), ids.front());
    if (at == seen.end() || *at != ids.front()) seen.insert(at, ids.front());
    return;
  }
  seen.insert(seen.end(), ids.begin(), ids.end());
  std::sort(seen.begin(), seen.end());
  seen.erase(std::unique(seen.begin(), seen.end()), seen.end());
}

}  // namespace osdn::generate
