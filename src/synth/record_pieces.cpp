#include "record_pieces.h"

#include <algorithm>

#include "osdn/core/concat.h"
#include "osdn/core/error.h"
#include "osdn/synth/draw.h"

namespace osdn::synth {
namespace {

std::string lower_ascii(std::string text) {
  for (char& c : text) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return text;
}

std::string capitalised(std::string word) {
  if (word[0] >= 'a' && word[0] <= 'z') {
    word[0] = static_cast<char>(word[0] - 'a' + 'A');
  }
  return word;
}

std::string digits(Xoshiro256& random, int count) {
  std::string text;
  for (int i = 0; i < count; ++i) {
    text += static_cast<char>('0' + random.below(10));
  }
  return text;
}

std::string two_digits(std::int64_t number) {
  return {static_cast<char>('0' + number / 10),
          static_cast<char>('0' + number % 10)};
}

}  // namespace

/// Draws until a piece breaks nothing: it holds no name or value that is there,
/// and, if it is to be guarded itself, occurs nowhere.
template <typename Draw>
std::string RecordPieces::accepted(bool guard, const Draw& draw) {
  constexpr int kMostAttempts = 10000;
  for (int attempt = 0; attempt < kMostAttempts; ++attempt) {
    std::string piece = draw();
    const std::string plain = lower_ascii(piece);
    const bool holds_one = std::any_of(
        guarded_.begin(), guarded_.end(), [&](const std::string& other) {
          return plain.find(other) != std::string::npos;
        });
    if (holds_one || (guard && all_.find(plain) != std::string::npos)) continue;
    all_ += plain + '\n';
    if (guard) guarded_.push_back(plain);
    return piece;
  }
  throw Error(
      concat("records: the word lists (", words_.name, ") of ",
             words_.nouns.size(), " nouns and ", words_.adjectives.size(),
             " adjectives give no more names; use longer ones "
             "(--words) or fewer records"),
      ExitCode::kUsage);
}

const std::string& RecordPieces::noun() {
  return words_
      .nouns[static_cast<std::size_t>(random_.below(words_.nouns.size()))];
}

const std::string& RecordPieces::adjective() {
  return words_.adjectives[static_cast<std::size_t>(
      random_.below(words_.adjectives.size()))];
}

std::string RecordPieces::title() {
  // Guarded, so that titles differ and no name is one.
  return accepted(true, [&] {
    const std::string first = capitalised(adjective());
    return first + " " + capitalised(noun());
  });
}

std::string RecordPieces::name() {
  return accepted(true, [&] {
    if (random_.below(4) == 0) return capitalised(noun());
    const std::string first = capitalised(adjective());
    return first + " " + capitalised(noun());
  });
}

ValueKind RecordPieces::kind() {
  return static_cast<ValueKind>(random_.below(5));
}

std::string RecordPieces::any_value(ValueKind kind) {
  switch (kind) {
    case ValueKind::kPair: {
      const std::string first = adjective();
      return first + " " + noun();
    }
    case ValueKind::kInteger: {
      const auto length = static_cast<int>(draw_between(random_, 3, 7));
      const char first = static_cast<char>('1' + random_.below(9));
      return first + digits(random_, length - 1);
    }
    case ValueKind::kDate: {
      const std::string year =
          std::to_string(draw_between(random_, 1900, 2099));
      const std::string month = two_digits(draw_between(random_, 1, 12));
      return year + "-" + month + "-" +
             two_digits(draw_between(random_, 1, 28));
    }
    case ValueKind::kCode: {
      std::string letters;
      for (int i = 0; i < 2; ++i) {
        letters += static_cast<char>('A' + random_.below(26));
      }
      return letters + digits(random_, 6);
    }
    case ValueKind::kPhrase:
      break;
  }
  const std::int64_t count = draw_between(random_, 2, 4);
  std::string phrase;
  for (std::int64_t i = 0; i < count; ++i) {
    phrase += i > 0 ? " " : "";
    phrase += random_.below(2) == 0 ? noun() : adjective();
  }
  return phrase;
}

std::string RecordPieces::value(ValueKind kind) {
  return accepted(true, [&] { return any_value(kind); });
}

std::string RecordPieces::filler() {
  const std::vector<std::string>& small = filler_words();
  return accepted(false, [&] {
    const std::int64_t count = draw_between(random_, 8, 20);
    std::string sentence;
    for (std::int64_t i = 0; i < count; ++i) {
      const std::string word =
          random_.below(4) == 0
              ? noun()
              : small[static_cast<std::size_t>(random_.below(small.size()))];
      sentence += i > 0 ? " " + word : capitalised(word);
    }
    return sentence + ".";
  });
}

}  // namespace osdn::synth
