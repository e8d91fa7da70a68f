#include "evaluation_options.h"

#include <algorithm>
#include <charconv>
#include <string>
#include <vector>

#include "osdn/core/concat.h"
#include "osdn/core/error.h"
#include "osdn/ops/threads.h"

namespace osdn::eval {
namespace {

void check_choice(const char* option, const std::string& value,
                  const std::vector<std::string>& choices) {
  std::string list;
  for (const std::string& choice : choices) {
    if (choice == value) return;
    list += (list.empty() ? "" : ", ") + choice;
  }
  throw Error(concat(option, " is '", value, "'; expected one of ", list),
              ExitCode::kUsage);
}

void check_at_least(const char* option, std::int64_t value,
                    std::int64_t least) {
  if (value >= least) return;
  throw Error(concat(option, " is ", value, "; expected ", least, " or more"),
              ExitCode::kUsage);
}

}  // namespace

ops::ComputeChoice compute_of(const EvalOptions& options) {
  return ops::choose_compute(options.device, options.dtype,
                             {"--device", "--dtype"});
}

std::optional<std::int64_t> parse_max_len(const std::string& text) {
  if (text.empty() || text == "none") return std::nullopt;
  std::int64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, value);
  if (parsed.ec != std::errc() || parsed.ptr != end || value < 1) {
    throw Error(
        concat("--max-len is '", text, "'; give a number from 1, or none"),
        ExitCode::kUsage);
  }
  return value;
}

void refuse_computing_options(const EvalOptions& options,
                              std::string_view instead) {
  for (const char* name :
       {"--device", "--dtype", "--batch-tokens", "--threads", "--answers"}) {
    if (std::count(options.given.begin(), options.given.end(), name) == 0) {
      continue;
    }
    throw Error(concat(name, " has no effect with ", instead,
                       ", which computes nothing; leave it out"),
                ExitCode::kUsage);
  }
}

void check_options(const EvalOptions& options) {
  if (!is_dummy(options)) compute_of(options);
  check_choice("--bos", options.bos, {"protocol", "0", "1"});
  if (!options.parity.empty()) {
    check_choice("--parity", options.parity, {"fla"});
    if (options.bos == "0") {
      throw Error(
          "--parity fla puts a begin token in front of each document, and "
          "--bos "
          "is 0; leave one of them out",
          ExitCode::kUsage);
    }
  }
  check_choice("--trunc-side", options.trunc_side, {"right", "left"});
  check_choice("--rolling", options.rolling, {"window", "full"});
  check_at_least("--batch-tokens", options.batch_tokens, 1);
  ops::check_threads("--threads", options.threads);
  if (options.data.limit) check_at_least("--limit", *options.data.limit, 1);
  check_at_least("--shots", options.shots, 0);
  if ((options.shots > 0) != options.shots_file.has_value()) {
    throw Error("--shots K and --shots-file FILE go together",
                ExitCode::kUsage);
  }
  if (parse_max_len(options.max_len) && options.rolling == "full") {
    throw Error(concat("--rolling full has no window, and --max-len is ",
                       options.max_len, "; leave one of them out"),
                ExitCode::kUsage);
  }
}

}  // namespace osdn::eval
