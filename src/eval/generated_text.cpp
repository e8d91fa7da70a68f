#include "generated_text.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "osdn/core/concat.h"
#include "osdn/core/error.h"

namespace osdn::eval {

std::string by_depth(const std::string& metric,
                     const std::vector<AtDepth>& scores, std::int64_t parts) {
  std::vector<std::int64_t> counts(static_cast<std::size_t>(parts));
  std::vector<double> sums(static_cast<std::size_t>(parts));
  for (const AtDepth& at : scores) {
    const auto part = static_cast<std::size_t>(std::clamp<std::int64_t>(
        static_cast<std::int64_t>(at.depth * static_cast<double>(parts)), 0,
        parts - 1));
    ++counts[part];
    sums[part] += at.score;
  }
  auto rows = nlohmann::ordered_json::array();
  for (std::size_t part = 0; part < counts.size(); ++part) {
    if (counts[part] == 0) continue;
    rows.push_back({{"part", part},
                    {"of", parts},
                    {"n", counts[part]},
                    {metric, sums[part] / static_cast<double>(counts[part])}});
  }
  return rows.dump();
}

std::int64_t document_count(const EvalOptions& options, std::int64_t usual,
                            PreparedTask& task) {
  const std::int64_t count = options.generated.documents.value_or(usual);
  if (count < 1) {
    throw Error(concat("--documents is ", count, "; expected at least 1"),
                ExitCode::kUsage);
  }
  const std::int64_t kept = std::min(count, options.data.limit.value_or(count));
  task.limited = kept < count;
  return kept;
}

std::string words_text(const synth::WordLists& words) {
  return words.files.empty() ? "" : concat(", words of ", words.name);
}

std::string joined_labels(const std::vector<std::string>& labels) {
  std::string text;
  for (const std::string& label : labels) {
    text += (text.empty() ? "" : " | ") + label;
  }
  return text;
}

}  // namespace osdn::eval
