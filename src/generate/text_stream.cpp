#include "osdn/generate/text_stream.h"

#include <utility>

namespace osdn::generate {

TextStream::TextStream(const tokenizer::Tokenizer& tokenizer,
                       std::vector<std::string> stops,
                       const PendingText& pending)
    : tokenizer_(&tokenizer),
      utf8_(pending.bytes),
      stops_(std::move(stops), pending.text) {}

std::string TextStream::push(std::int32_t id) {
  return stops_.push(utf8_.push(tokenizer_->bytes_of(id)));
}

std::string TextStream::finish() {
  const std::string last = stops_.push(utf8_.finish());
  return last + stops_.finish();
}

}  // namespace osdn::generate
