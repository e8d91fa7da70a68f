#include "osdn/synth/needles.h"

#include <algorithm>
#include <set>

#include "osdn/core/concat.h"
#include "osdn/core/error.h"
#include "osdn/synth/draw.h"

namespace osdn::synth {
namespace {

constexpr std::string_view kNoiseLine =
    "The grass is green. The sky is blue. The sun is yellow. Here we go. There "
    "and back again.";

std::string plural(NeedleText kind) {
  return kind == NeedleText::kNumber ? "numbers"
         : kind == NeedleText::kUuid ? "uuids"
                                     : "words";
}

/// RFC 9562, version 4.
std::string draw_uuid(Xoshiro256& random) {
  const std::uint64_t high =
      (random.next() & ~std::uint64_t{0xF000}) | std::uint64_t{0x4000};
  const std::uint64_t low =
      (random.next() & (~std::uint64_t{0} >> 2)) | std::uint64_t{1} << 63;
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string text;
  for (int digit = 0; digit < 32; ++digit) {
    if (digit == 8 || digit == 12 || digit == 16 || digit == 20) text += '-';
    const std::uint64_t word = digit < 16 ? high : low;
    text += kHex[word >> (60 - 4 * (digit % 16)) & 15];
  }
  return text;
}

/// Texts none of which comes twice.
class DistinctTexts {
 public:
  explicit DistinctTexts(const WordLists& words) : words_(words) {}

  std::string draw(Xoshiro256& random, NeedleText kind) {
    constexpr int kMostAttempts = 10000;
    for (int attempt = 0; attempt < kMostAttempts; ++attempt) {
      std::string text = any(random, kind);
      if (seen_.insert(text).second) return text;
    }
    throw Error(
        concat("the word lists (", words_.name, ") of ", words_.nouns.size(),
               " nouns and ", words_.adjectives.size(),
               " adjectives give no more names; use longer ones "
               "(--words) or shorter documents"),
        ExitCode::kUsage);
  }

 private:
  std::string any(Xoshiro256& random, NeedleText kind) const {
    if (kind == NeedleText::kNumber) {
      return std::to_string(draw_between(random, 1000000, 9999999));
    }
    if (kind == NeedleText::kUuid) return draw_uuid(random);
    const auto& adjective = words_.adjectives[static_cast<std::size_t>(
        random.below(words_.adjectives.size()))];
    const auto& noun =
        words_
            .nouns[static_cast<std::size_t>(random.below(words_.nouns.size()))];
    return adjective + "-" + noun;
  }

  const WordLists& words_;
  std::set<std::string> seen_;
};

std::string needle(const NeedleTask& task, const std::string& key,
                   const std::string& value) {
  return concat("One of the special magic ", plural(task.value), " for ", key,
                " is: ", value, ".");
}

std::string prompt(const NeedleTask& task, const std::string& context,
                   const std::vector<std::string>& queries) {
  const bool one = task.queries * task.values == 1;
  std::string v = plural(task.value);
  if (one) v.pop_back();
  const std::string query = enumeration(queries);
  return concat(one ? "A" : "Some", " special magic ", v, one ? " is" : " are",
                " hidden within the following text. Make sure to memorize it. "
                "I will quiz you about the ",
                v, " afterwards.\n", context, "\nWhat ", one ? "is" : "are all",
                " the special magic ", v, " for ", query,
                " mentioned in the provided text? The special magic ", v,
                " for ", query, " mentioned in the provided text ",
                one ? "is" : "are");
}

}  // namespace

std::string enumeration(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (i > 0) text += i + 1 < names.size() ? ", " : ", and ";
    text += names[i];
  }
  return text;
}

const std::vector<NeedleTask>& needle_tasks() {
  using enum Hay;
  constexpr NeedleText kWord = NeedleText::kWord;
  constexpr NeedleText kNumber = NeedleText::kNumber;
  constexpr NeedleText kUuid = NeedleText::kUuid;
  static const std::vector<NeedleTask> tasks = {
      {"niah_single_1", kNoise, kWord, kNumber, 1, 1, 1},
      {"niah_single_2", kEssay, kWord, kNumber, 1, 1, 1},
      {"niah_single_3", kEssay, kWord, kUuid, 1, 1, 1},
      {"niah_multikey_1", kEssay, kWord, kNumber, 4, 1, 1},
      {"niah_multikey_2", kNeedles, kWord, kNumber, 1, 1, 1},
      {"niah_multikey_3", kNeedles, kUuid, kUuid, 1, 1, 1},
      {"niah_multivalue", kEssay, kWord, kNumber, 1, 4, 1},
      {"niah_multiquery", kEssay, kWord, kNumber, 4, 1, 4},
  };
  return tasks;
}

struct NeedleGenerator::Needles {
  std::vector<std::string> queries;
  std::vector<std::string> answers;
  std::vector<std::string> texts;          // shuffled
  std::vector<std::ptrdiff_t> answers_of;  // texts[i] gives this, or -1
  std::vector<std::string> distractors;    // lines of a needle haystack
  Xoshiro256 places;  // draws where they stand, anew for each size
};

NeedleGenerator::NeedleGenerator(const NeedleTask& task, const WordLists& words,
                                 const Essay& essay,
                                 const tokenizer::Tokenizer& tokenizer,
                                 std::int64_t target_tokens, std::uint64_t seed)
    : task_(task),
      words_(words),
      essay_(essay),
      tokenizer_(tokenizer),
      target_tokens_(target_tokens),
      seed_(seed) {
  if (target_tokens > kMostTargetTokens) {
    throw Error(concat(task.name, ": a target of ", target_tokens,
                       " tokens; expected at most ", kMostTargetTokens),
                ExitCode::kUsage);
  }
  size_ = largest_that_fits(draw(0));
}

std::string NeedleGenerator::haystack() const {
  return task_.hay == Hay::kNoise     ? "noise"
         : task_.hay == Hay::kNeedles ? "needles"
                                      : essay_.name;
}

NeedleGenerator::Needles NeedleGenerator::draw(std::uint64_t index) const {
  Xoshiro256 random = document_stream(seed_, task_.name, index);
  DistinctTexts keys(words_);
  DistinctTexts values(words_);
  Needles out{{}, {}, {}, {}, {}, random};
  std::vector<std::pair<std::string, std::ptrdiff_t>> needles;
  for (std::int64_t k = 0; k < task_.keys; ++k) {
    const std::string key = keys.draw(random, task_.key);
    const bool asked = k < task_.queries;
    if (asked) out.queries.push_back(key);
    for (std::int64_t v = 0; v < task_.values; ++v) {
      const std::string value = values.draw(random, task_.value);
      needles.emplace_back(
          needle(task_, key, value),
          asked ? static_cast<std::ptrdiff_t>(out.answers.size()) : -1);
      if (asked) out.answers.push_back(value);
    }
  }
  shuffle(random, needles);
  for (auto& [text, answer] : needles) {
    out.texts.push_back(std::move(text));
    out.answers_of.push_back(answer);
  }
  if (task_.hay == Hay::kNeedles) {
    // A line of eleven words or more has more than four tokens.
    const std::int64_t most = target_tokens_ / 4 + 1;
    for (std::int64_t line = 0; line < most; ++line) {
      const std::string key = keys.draw(random, task_.key);
      out.distractors.push_back(
          needle(task_, key, values.draw(random, task_.value)));
    }
  }
  out.places = random;
  return out;
}

std::int64_t NeedleGenerator::smallest() const {
  // Needles stand at different lines.
  return task_.hay == Hay::kEssay ? 1 : task_.keys * task_.values;
}

bool NeedleGenerator::fits(const NeedleDocument& document) const {
  return document.tokens + kNeedleAnswerTokens <= target_tokens_;
}

NeedleDocument NeedleGenerator::build(const Needles& needles,
                                      std::int64_t size) const {
  Xoshiro256 random = needles.places;
  std::vector<std::string> pieces;
  std::vector<std::int64_t> places;  // a needle stands before this piece
  const auto count = needles.texts.size();
  if (task_.hay == Hay::kEssay) {
    pieces = sentences(first_words(essay_, size));
    for (const std::int64_t i : draw_distinct(random, count, 0, 40)) {
      const std::int64_t depth = (200 * i + 39) / 78;  // round(100 i / 39)
      places.push_back(static_cast<std::int64_t>(pieces.size()) * depth / 100);
    }
  } else {
    for (std::int64_t line = 0; line < size; ++line) {
      pieces.push_back(
          task_.hay == Hay::kNoise
              ? std::string(kNoiseLine)
              : needles.distractors[static_cast<std::size_t>(line)]);
    }
    places = draw_distinct(random, count, 0, size);
  }
  std::sort(places.begin(), places.end());

  const char* separator = task_.hay == Hay::kEssay ? " " : "\n";
  std::string context;
  std::vector<std::size_t> begins;
  const auto append = [&](const std::string& piece) {
    if (!context.empty()) context += separator;
    context += piece;
  };
  for (std::size_t piece = 0; piece <= pieces.size(); ++piece) {
    while (begins.size() < count &&
           places[begins.size()] == static_cast<std::int64_t>(piece)) {
      const std::string& text = needles.texts[begins.size()];
      append(text);
      begins.push_back(context.size() - text.size());
    }
    if (piece < pieces.size()) append(pieces[piece]);
  }

  NeedleDocument document;
  document.prompt = prompt(task_, context, needles.queries);
  document.answers = needles.answers;
  document.queries = needles.queries;
  document.depths.resize(needles.answers.size());
  for (std::size_t i = 0; i < count; ++i) {
    if (needles.answers_of[i] < 0) continue;
    const std::size_t last =
        std::max<std::size_t>(1, context.size() - needles.texts[i].size());
    document.depths[static_cast<std::size_t>(needles.answers_of[i])] =
        static_cast<double>(begins[i]) / static_cast<double>(last);
  }
  document.tokens =
      static_cast<std::int64_t>(tokenizer_.encode(document.prompt).size());
  return document;
}

std::int64_t NeedleGenerator::largest_that_fits(const Needles& needles) const {
  const NeedleDocument least = build(needles, smallest());
  if (!fits(least)) {
    throw Error(concat(task_.name, ": the smallest prompt has ", least.tokens,
                       " tokens and its answer ", kNeedleAnswerTokens,
                       ", which do not fit a target of ", target_tokens_,
                       "; use at least ", least.tokens + kNeedleAnswerTokens),
                ExitCode::kUsage);
  }
  std::int64_t low = smallest();  // fits
  // No word and no line is less than a token.
  std::int64_t high =
      task_.hay == Hay::kNeedles
          ? static_cast<std::int64_t>(needles.distractors.size())
          : target_tokens_;
  while (high - low > 1) {
    const std::int64_t middle = low + (high - low) / 2;
    (fits(build(needles, middle)) ? low : high) = middle;
  }
  return low;
}

NeedleDocument NeedleGenerator::document(std::uint64_t index) const {
  const Needles needles = draw(index);
  std::int64_t size = size_;
  for (;;) {
    NeedleDocument document = build(needles, size);
    if (fits(document)) return document;
    if (size == smallest()) {
      throw Error(
          concat(task_.name, ": document ", index, " has ", document.tokens,
                 " tokens at its smallest and does "
                 "not fit a target of ",
                 target_tokens_, " with its answer of ", kNeedleAnswerTokens,
                 "; use a larger one"),
          ExitCode::kUsage);
    }
    const std::int64_t excess =
        document.tokens + kNeedleAnswerTokens - target_tokens_;
    const std::int64_t step =
        std::max<std::int64_t>(1, excess * size / document.tokens);
    size = std::max(smallest(), size - step);
  }
}

}  // namespace osdn::synth
