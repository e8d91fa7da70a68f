#pragma once
// Which requests a task made: a number to compare between programs and
// versions.

#include <cstdint>
#include <string>
#include <string_view>

#include "osdn/core/hash.h"

namespace osdn::eval {

/// SHA-256 over context, byte 0x1F, continuation, byte 0x1E of all requests in
/// file order, texts as built before anything is moved or cut.
class RequestHash {
 public:
  void add(std::string_view context, std::string_view continuation);
  std::int64_t count() const { return count_; }
  /// 64 hexadecimal digits.
  std::string hex() const;

 private:
  Sha256 hash_;
  std::int64_t count_ = 0;
};

}  // namespace osdn::eval
