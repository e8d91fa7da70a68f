#pragma once
// Two evaluations side by side.

#include <filesystem>
#include <string>

namespace osdn::eval {

/// A table of the metrics of both result files in the order of `a`, those that
/// one alone has included: values, difference, and the difference in units of
/// the combined standard error where both have one. Columns carry the models'
/// names where these differ. Throws Error (kBadInput) for a file that is no
/// osdn-eval result, for files that share no metric, and, unless `force`, for
/// rows whose protocol, tokenizer, bos, max_len, data or limit differ.
std::string compare_results(const std::filesystem::path& a,
                            const std::filesystem::path& b, bool force);

}  // namespace osdn::eval
