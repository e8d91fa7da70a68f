#pragma once
// Two evaluations side by side.

#include <filesystem>
#include <string>

namespace osdn::eval {

/// A table of the metrics that both result files hold: values, difference, and
/// the difference in units of the combined standard error where both have one.
/// Throws Error (kBadInput) for a file that is no osdn-eval result, and, unless
/// `force`, for rows whose protocol, tokenizer, bos, max_len or data differ.
std::string compare_results(const std::filesystem::path& a,
                            const std::filesystem::path& b, bool force);

}  // namespace osdn::eval
