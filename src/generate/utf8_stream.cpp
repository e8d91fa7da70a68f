#include "osdn/generate/utf8_stream.h"

#include "osdn/core/utf8.h"

namespace osdn::generate {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

unsigned char unsigned_of(char byte) {
  return static_cast<unsigned char>(byte);
}

}  // namespace

std::string Utf8Stream::push(std::string_view bytes) {
  std::string out;
  for (const char byte : bytes) push_byte(byte, out);
  return out;
}

void Utf8Stream::push_byte(char byte, std::string& out) {
  if (!pending_.empty()) {
    const Utf8Lead lead = utf8_lead(unsigned_of(pending_.front()));
    const bool second = pending_.size() == 1;
    const unsigned char low = second ? lead.low : 0x80;
    const unsigned char high = second ? lead.high : 0xBF;
    if (unsigned_of(byte) >= low && unsigned_of(byte) <= high) {
      pending_ += byte;
      if (pending_.size() == lead.length) {
        out += pending_;
        pending_.clear();
      }
      return;
    }
    out += finish();
  }
  const std::size_t length = utf8_lead(unsigned_of(byte)).length;
  if (length == 1) {
    out += byte;
  } else if (length == 0) {
    out += kReplacement;
  } else {
    pending_ += byte;
  }
}

std::string Utf8Stream::finish() {
  if (pending_.empty()) return "";
  pending_.clear();
  return std::string(kReplacement);
}

}  // namespace osdn::generate
