#include "osdn/eval/request_hash.h"

namespace osdn::eval {

void RequestHash::add(std::string_view context, std::string_view continuation) {
  hash_.update(context);
  hash_.update("\x1F");
  hash_.update(continuation);
  hash_.update("\x1E");
  ++count_;
}

std::string RequestHash::hex() const {
  return to_hex(hash_.digest());
}

}  // namespace osdn::eval
