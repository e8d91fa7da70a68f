#include "hf_keys.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "osdn/core/concat.h"
#include "osdn/core/error.h"
#include "osdn/core/json_text.h"

namespace osdn::interchange {

using nlohmann::json;

HfKeys::HfKeys(std::string_view text, std::string file)
    : findings_(std::make_shared<Findings>()), file_(std::move(file)) {
  std::vector<RepeatedKey> repeated;
  try {
    root_ = std::make_shared<const json>(parse_json(text, repeated));
  } catch (const json::exception& error) {
    throw Error(concat(file_, ": is not JSON: ", error.what()),
                ExitCode::kBadInput);
  }
  if (!root_->is_object()) {
    throw Error(concat(file_, ": is ", root_->type_name(),
                       ", expected a JSON object with the model's keys"),
                ExitCode::kBadInput);
  }
  if (!repeated.empty()) {
    throw Error(concat(file_, ": ", repeated.front().key,
                       " is there twice, so that its value is not certain; "
                       "expected it once"),
                ExitCode::kBadInput);
  }
}

HfKeys::~HfKeys() = default;
HfKeys::HfKeys(HfKeys&&) noexcept = default;

bool HfKeys::has(const std::string& key) const {
  return root_->contains(key);
}

bool HfKeys::is_null(const std::string& key) const {
  return root_->contains(key) && root_->at(key).is_null();
}

bool HfKeys::is_list(const std::string& key) const {
  return root_->contains(key) && root_->at(key).is_array();
}

const json* HfKeys::find(const std::string& key) {
  seen_.insert(key);
  const auto found = root_->find(key);
  return found == root_->end() ? nullptr : &*found;
}

std::string HfKeys::found(const std::string& key) const {
  return root_->contains(key) ? root_->at(key).dump() : "missing";
}

void HfKeys::problem(const std::string& what) {
  findings_->problems.push_back(concat(file_, ": ", what));
}

void HfKeys::warn(const std::string& what) {
  findings_->warnings.push_back(concat(file_, ": ", what));
}

void HfKeys::warn_unknown(const std::string& name) {
  warn(concat(name, " is not a key of this model type and is taken to have no ",
              "effect"));
}

void HfKeys::wrong(const std::string& key, const std::string& allowed) {
  problem(concat(prefix_, key, " is ", found(key), ", expected ", allowed));
}

bool HfKeys::boolean(const std::string& key, bool initial) {
  const json* value = find(key);
  if (value == nullptr) return initial;
  if (value->is_boolean()) return value->get<bool>();
  wrong(key, "true or false");
  return initial;
}

std::optional<bool> HfKeys::optional_boolean(const std::string& key) {
  const json* value = find(key);
  if (value == nullptr || value->is_null()) return std::nullopt;
  if (value->is_boolean()) return value->get<bool>();
  wrong(key, "true, false or null");
  return std::nullopt;
}

std::int64_t HfKeys::integer(const std::string& key, std::int64_t initial,
                             std::int64_t low) {
  const json* value = find(key);
  if (value == nullptr) return initial;
  if (value->is_null()) {
    wrong(key, concat("an integer from ", low, " on"));
    return initial;
  }
  return optional_integer(key, low).value_or(initial);
}

std::optional<std::int64_t> HfKeys::optional_integer(const std::string& key,
                                                     std::int64_t low) {
  const json* value = find(key);
  if (value == nullptr || value->is_null()) return std::nullopt;
  // Wider numbers fit no size that the configuration allows.
  constexpr std::int64_t kHigh = std::int64_t{1} << 40;
  if (value->is_number_integer() && *value >= low && *value <= kHigh) {
    return value->get<std::int64_t>();
  }
  wrong(key, concat("an integer from ", low, " to ", kHigh));
  return std::nullopt;
}

double HfKeys::number(const std::string& key, double initial, double low,
                      bool null_is_missing) {
  const json* value = find(key);
  if (value == nullptr || (null_is_missing && value->is_null())) {
    return initial;
  }
  if (value->is_number() && value->get<double>() >= low &&
      std::isfinite(value->get<double>())) {
    return value->get<double>();
  }
  wrong(key, concat("a number from ", low, " on"));
  return initial;
}

std::optional<double> HfKeys::optional_number(const std::string& key) {
  const json* value = find(key);
  if (value == nullptr || value->is_null()) return std::nullopt;
  if (value->is_number() && std::isfinite(value->get<double>())) {
    return value->get<double>();
  }
  wrong(key, "a number or null");
  return std::nullopt;
}

std::string HfKeys::text(const std::string& key, const std::string& initial) {
  const json* value = find(key);
  if (value == nullptr) return initial;
  if (value->is_string()) return value->get<std::string>();
  wrong(key, "a string");
  return initial;
}

std::vector<std::string> HfKeys::texts(const std::string& key) {
  const json* value = find(key);
  if (value == nullptr || value->is_null()) return {};
  std::vector<std::string> all;
  if (value->is_array()) {
    for (const json& item : *value) {
      if (item.is_string()) all.push_back(item.get<std::string>());
    }
    if (all.size() == value->size()) return all;
  }
  wrong(key, "a list of strings");
  return {};
}

std::vector<std::int64_t> HfKeys::integers(const std::string& key) {
  const json* value = find(key);
  std::vector<std::int64_t> all;
  if (value != nullptr && value->is_array()) {
    for (const json& item : *value) {
      if (item.is_number_integer()) all.push_back(item.get<std::int64_t>());
    }
    if (all.size() == value->size()) return all;
  }
  wrong(key, "a list of integers");
  return {};
}

std::optional<HfKeys> HfKeys::object(const std::string& key) {
  const json* value = find(key);
  if (value == nullptr || value->is_null()) return std::nullopt;
  if (!value->is_object()) {
    wrong(key, "an object or null");
    return std::nullopt;
  }
  HfKeys inner;
  inner.root_ = std::shared_ptr<const json>(root_, value);
  inner.findings_ = findings_;
  inner.file_ = file_;
  inner.prefix_ = concat(prefix_, key, ".");
  return inner;
}

void HfKeys::must_be_off(const std::string& key, const std::string& why) {
  const json* value = find(key);
  if (value == nullptr || value->is_null() || *value == false ||
      *value == "none") {
    return;
  }
  wrong(key, concat("null or false: ", why));
}

std::vector<std::string> HfKeys::unseen() const {
  std::vector<std::string> keys;
  for (const auto& [key, value] : root_->items()) {
    if (!seen_.contains(key)) keys.push_back(prefix_ + key);
  }
  return keys;
}

void HfKeys::throw_problems() const {
  const std::vector<std::string>& problems = findings_->problems;
  if (problems.empty()) return;
  std::string message = problems.front();
  for (std::size_t i = 1; i < problems.size(); ++i) {
    message += "\n  " + problems[i];
  }
  throw Error(message, ExitCode::kBadInput);
}

}  // namespace osdn::interchange
