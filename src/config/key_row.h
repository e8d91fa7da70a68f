#pragma once
// How a row of the key table is written: Row(path, member, help) and then what
// else there is to say about the key.

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "key_table.h"

// The member of a configuration that a row of the table stands for, for const
// and other configurations alike.
#define OSDN_MEMBER(path)     \
  [](auto& config) -> auto& { \
    return config.path;       \
  }

namespace osdn::config {

template <typename T>
struct is_optional : std::false_type {};
template <typename T>
struct is_optional<std::optional<T>> : std::true_type {};

// One row under construction; each step returns the row for the next.
class Row {
 public:
  template <typename Member>
  Row(std::string path, Member member, std::string help) {
    key_.path = std::move(path);
    key_.help = std::move(help);
    using Type = std::remove_cvref_t<decltype(member(std::declval<Config&>()))>;
    if constexpr (is_optional<Type>::value) {
      bind<typename Type::value_type>(member);
    } else {
      bind<Type>(member);
    }
  }

  Row& from(double low) { return low_limit({low, false}); }
  Row& above(double low) { return low_limit({low, true}); }
  Row& to(double high) { return high_limit({high, false}); }
  Row& below(double high) { return high_limit({high, true}); }
  Row& also(std::vector<std::string> names) {
    key_.other_names = std::move(names);
    return *this;
  }
  Row& required() {
    key_.required = true;
    return *this;
  }
  Row& path() {
    key_.is_path = true;
    return *this;
  }
  Row& default_is(std::string text) {
    key_.default_text = std::move(text);
    return *this;
  }
  Row& only(std::string condition, std::function<bool(const Config&)> applies) {
    key_.condition = std::move(condition);
    key_.applies = std::move(applies);
    return *this;
  }
  /// Prints what an optional key without a value comes to.
  Row& resolves(std::function<Value(const Config&)> value) {
    key_.get = [value = std::move(value)](const Config& config) {
      return std::optional<Value>(value(config));
    };
    return *this;
  }
  /// Makes the key a choice between words. For an enumeration, the words stand
  /// in the order of its values.
  Row& choices(std::vector<std::string> words) {
    key_.kind = Key::Kind::kChoice;
    key_.choices = std::move(words);
    if (set_index_) {
      const auto words_copy = key_.choices;
      key_.set = [words_copy, set = set_index_](Config& config,
                                                const Value& value) {
        const auto at = std::find(words_copy.begin(), words_copy.end(),
                                  std::get<std::string>(value));
        set(config, static_cast<std::size_t>(at - words_copy.begin()));
      };
      key_.get = [words_copy, get = get_index_](const Config& config) {
        return std::optional<Value>(words_copy.at(get(config)));
      };
    }
    return *this;
  }

  operator Key() const { return key_; }

 private:
  Row& low_limit(Limit limit) {
    key_.low = limit;
    return *this;
  }
  Row& high_limit(Limit limit) {
    key_.high = limit;
    return *this;
  }

  template <typename T, typename Member>
  void bind(Member member) {
    if constexpr (std::is_enum_v<T>) {
      set_index_ = [member](Config& config, std::size_t index) {
        member(config) = static_cast<T>(index);
      };
      get_index_ = [member](const Config& config) {
        return static_cast<std::size_t>(member(config));
      };
    } else {
      key_.kind = kind_of<T>();
      key_.set = [member](Config& config, const Value& value) {
        member(config) = std::get<T>(value);
      };
      key_.get = [member](const Config& config) -> std::optional<Value> {
        const auto& stored = member(config);
        if constexpr (is_optional<
                          std::remove_cvref_t<decltype(stored)>>::value) {
          if (!stored) {
            return std::nullopt;
          }
          return Value(*stored);
        } else {
          return Value(stored);
        }
      };
    }
  }

  template <typename T>
  static constexpr Key::Kind kind_of() {
    if constexpr (std::is_same_v<T, bool>) {
      return Key::Kind::kBoolean;
    } else if constexpr (std::is_same_v<T, std::int64_t>) {
      return Key::Kind::kInteger;
    } else if constexpr (std::is_same_v<T, std::uint64_t>) {
      return Key::Kind::kUnsigned;
    } else if constexpr (std::is_same_v<T, double>) {
      return Key::Kind::kNumber;
    } else if constexpr (std::is_same_v<T, std::string>) {
      return Key::Kind::kString;
    } else if constexpr (std::is_same_v<T, std::vector<std::int64_t>>) {
      return Key::Kind::kIntegers;
    } else {
      static_assert(std::is_same_v<T, std::vector<std::string>>);
      return Key::Kind::kStrings;
    }
  }

  Key key_;
  std::function<void(Config&, std::size_t)> set_index_;
  std::function<std::size_t(const Config&)> get_index_;
};

}  // namespace osdn::config
