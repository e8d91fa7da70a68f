#pragma once
// A config.json's keys, read by type. What is wrong is collected, so that one
// message lists everything.

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace osdn::interchange {

class HfKeys {
 public:
  /// Throws Error when the text is no JSON object or names a key twice.
  HfKeys(std::string_view text, std::string file);
  ~HfKeys();
  HfKeys(HfKeys&&) noexcept;

  bool has(const std::string& key) const;
  bool is_null(const std::string& key) const;
  bool is_list(const std::string& key) const;

  // The value, or `initial` when the key is missing. A null counts as missing
  // where the public classes give null a meaning (`null_is_missing`).
  bool boolean(const std::string& key, bool initial);
  std::int64_t integer(const std::string& key, std::int64_t initial,
                       std::int64_t low);
  double number(const std::string& key, double initial, double low,
                bool null_is_missing = false);
  std::string text(const std::string& key, const std::string& initial);
  std::optional<bool> optional_boolean(const std::string& key);
  std::optional<std::int64_t> optional_integer(const std::string& key,
                                               std::int64_t low);
  std::optional<double> optional_number(const std::string& key);
  std::vector<std::string> texts(const std::string& key);
  std::vector<std::int64_t> integers(const std::string& key);
  /// The keys of an object that stands as this key's value, reported as
  /// "key.inner"; nothing when it is missing or null.
  std::optional<HfKeys> object(const std::string& key);

  /// A feature that osdn lacks: anything but null, false or "none" is wrong.
  void must_be_off(const std::string& key, const std::string& why);
  /// Known, without effect on the function.
  void ignore(const std::string& key) { seen_.insert(key); }

  /// "FILE: key is FOUND, expected ALLOWED".
  void wrong(const std::string& key, const std::string& allowed);
  void problem(const std::string& what);
  void warn(const std::string& what);
  /// That the key `name`, in full, is none of this model type.
  void warn_unknown(const std::string& name);

  /// Keys that were not asked for, in order.
  std::vector<std::string> unseen() const;
  /// The value as it stands in the file; "missing" when it does not.
  std::string found(const std::string& key) const;

  const std::string& file() const { return file_; }
  std::vector<std::string> take_warnings() {
    return std::move(findings_->warnings);
  }
  /// Throws one Error (kBadInput) when there were problems.
  void throw_problems() const;

 private:
  /// Shared with the keys of inner objects.
  struct Findings {
    std::vector<std::string> problems;
    std::vector<std::string> warnings;
  };

  HfKeys() = default;
  const nlohmann::json* find(const std::string& key);

  std::shared_ptr<const nlohmann::json> root_;
  std::shared_ptr<Findings> findings_;
  std::string file_;
  std::string prefix_;  // "attn." of an inner object
  std::set<std::string> seen_;
};

}  // namespace osdn::interchange
