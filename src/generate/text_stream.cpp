#include "osdn/generate/text_stream.h"

#include <utility>

namespace osdn::generate {

TextStream::TextStream(const tokenizer::Tokenizer& tokenizer,
                       std::vector<std::string> stops,
                       const PendingText& pending,
                       std::int64_t tokens_before_stop)
    : tokenizer_(&tokenizer),
      utf8_(pending.bytes),
      stops_(std::move(stops), pending.text),
      tokens_before_stop_(tokens_before_stop) {}

std::string TextStream::push(std::int32_t id) {
  std::string text = utf8_.push(tokenizer_->bytes_of(id));
  if (tokens_before_stop_ > 0) {
    --tokens_before_stop_;
    return text;
  }
  return stops_.push(text);
}

std::string TextStream::finish() {
  const std::string last = stops_.push(utf8_.finish());
  return last + stops_.finish();
}

}  // namespace osdn::generate
