#include "osdn/tokenizer/sentence_sample.h"

#include <algorithm>
#include <utility>

#include "osdn/core/concat.h"
#include "osdn/core/error.h"

namespace osdn::tokenizer {

namespace {

bool continues_code_point(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0) == 0x80;
}

// Where to cut `line`, which is longer than `max_bytes`.
std::size_t cut_of(std::string_view line, std::size_t max_bytes) {
  const std::size_t space = line.rfind(' ', max_bytes - 1);
  if (space != std::string_view::npos) {
    return space + 1;
  }
  std::size_t cut = max_bytes;
  while (cut > 1 && continues_code_point(line[cut])) {
    --cut;
  }
  return cut;
}

}  // namespace

std::vector<std::string_view> split_sentences(std::string_view text,
                                              std::size_t max_bytes) {
  std::vector<std::string_view> sentences;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.ends_with('\r')) {
      line.remove_suffix(1);
    }
    while (line.size() > max_bytes) {
      const std::size_t cut = cut_of(line, max_bytes);
      sentences.push_back(line.substr(0, cut));
      line.remove_prefix(cut);
    }
    if (!line.empty()) {
      sentences.push_back(line);
    }
  }
  return sentences;
}

SentenceSample::SentenceSample(const SampleOptions& options)
    : options_(options), random_(options.seed) {
  if (options.max_sentences < 0 || options.max_sentence_bytes < 4) {
    throw Error(concat("a sample of ", options.max_sentences,
                       " sentences of at most ", options.max_sentence_bytes,
                       " bytes; expected at least 0 sentences (0: all) and at "
                       "least 4 bytes"),
                ExitCode::kUsage);
  }
}

void SentenceSample::add_text(std::string_view text) {
  const auto max_bytes = static_cast<std::size_t>(options_.max_sentence_bytes);
  const auto limit = static_cast<std::uint64_t>(options_.max_sentences);
  for (const std::string_view sentence : split_sentences(text, max_bytes)) {
    const std::int64_t index = seen_++;
    if (limit == 0 || entries_.size() < limit) {
      entries_.push_back({index, std::string(sentence)});
      continue;
    }
    const std::uint64_t slot = random_.below(static_cast<std::uint64_t>(seen_));
    if (slot < limit) {
      entries_[slot] = {index, std::string(sentence)};
    }
  }
}

std::vector<std::string> SentenceSample::take() {
  std::sort(entries_.begin(), entries_.end(),
            [](const Entry& a, const Entry& b) { return a.index < b.index; });
  std::vector<std::string> sentences;
  sentences.reserve(entries_.size());
  for (Entry& entry : entries_) {
    sentences.push_back(std::move(entry.sentence));
  }
  entries_.clear();
  return sentences;
}

}  // namespace osdn::tokenizer
