#include "group_average.h"

#include <charconv>
#include <cmath>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "osdn/core/hash.h"

namespace osdn::eval {
namespace {

bool is_member(const Result& result, const std::vector<GroupMember>& members) {
  for (const GroupMember& member : members) {
    if (result.task == member.task && result.metric == member.metric) {
      return true;
    }
  }
  return false;
}

/// A protocol that is a number, a length, stands by its size.
struct Earlier {
  bool operator()(const std::string& a, const std::string& b) const {
    const auto length = [](const std::string& text) {
      std::int64_t value = 0;
      const char* const end = text.data() + text.size();
      const auto [rest, fault] = std::from_chars(text.data(), end, value);
      return fault == std::errc() && rest == end ? value : -1;
    };
    return std::pair(length(a), a) < std::pair(length(b), b);
  }
};

Result average(const std::string& group, const std::vector<Result>& of) {
  Result mean;
  const Result& first = of.front();
  // What is the same for all tasks of a call; the rest is in the hashes.
  mean = first;
  mean.task = group;
  mean.metric = "average";
  mean.value = 0;
  mean.n = std::ssize(of);
  mean.data = "";
  mean.limit.reset();
  mean.truncated = mean.dropped = mean.empty_cont = mean.no_label = 0;
  std::string data, requests;
  double variance = 0;
  bool known = true;
  nlohmann::ordered_json metrics;
  nlohmann::ordered_json settings;
  for (const Result& result : of) {
    mean.value += result.value / static_cast<double>(of.size());
    known = known && result.stderr_.has_value();
    variance += std::pow(result.stderr_.value_or(0), 2);
    mean.truncated += result.truncated;
    mean.dropped += result.dropped;
    mean.empty_cont += result.empty_cont;
    mean.no_label += result.no_label;
    data += result.data_hash;
    requests += result.requests_hash;
    metrics[result.task] = result.metric;
    if (result.limit) mean.limit = result.limit;
    if (!result.settings.empty()) {
      settings[result.task] = nlohmann::ordered_json::parse(result.settings);
    }
  }
  mean.settings = settings.is_null() ? "" : settings.dump();
  mean.stderr_.reset();
  if (known) {
    mean.stderr_ = std::sqrt(variance) / static_cast<double>(of.size());
  }
  mean.data_hash = data.empty() ? "" : sha256(data);
  mean.requests_hash = sha256(requests);
  mean.detail = nlohmann::ordered_json{{"metrics", metrics}}.dump();
  return mean;
}

}  // namespace

std::vector<Result> group_averages(const std::string& group,
                                   const std::vector<GroupMember>& members,
                                   const std::vector<Result>& results) {
  std::map<std::string, std::vector<Result>, Earlier> by_protocol;
  for (const Result& result : results) {
    if (is_member(result, members)) {
      by_protocol[result.protocol].push_back(result);
    }
  }
  std::vector<Result> averages;
  for (const auto& [protocol, of] : by_protocol) {
    if (of.size() > 1) averages.push_back(average(group, of));
  }
  return averages;
}

}  // namespace osdn::eval
