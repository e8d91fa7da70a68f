// The one source that includes SentencePiece's headers.

#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>

#include <charconv>
#include <cstddef>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "osdn/core/concat.h"
#include "osdn/core/error.h"
#include "osdn/core/file.h"
#include "osdn/core/log.h"
#include "osdn/tokenizer/tokenizer.h"
#include "osdn/tokenizer/train.h"

namespace osdn::tokenizer {

struct Tokenizer::Model {
  /// How a text may be cut before a space between two words.
  enum class Cut {
    kNowhere,    ///< a piece might reach across
    kDropSpace,  ///< the model puts a space in front of every text
    kKeepSpace,
  };

  sentencepiece::SentencePieceProcessor processor;
  Cut cut = Cut::kNowhere;

  void encode(std::string_view text, std::vector<int>& ids) const;
  Cut find_cut() const;
};

namespace {

constexpr std::string_view kSpace = "\xE2\x96\x81";  // U+2581

// Longer texts are encoded in slices.
constexpr std::size_t kWholeBytes = std::size_t{256} << 10;
constexpr std::size_t kSliceBytes = std::size_t{64} << 10;

std::optional<std::int32_t> defined(int id) {
  return id < 0 ? std::nullopt : std::optional<std::int32_t>(id);
}

bool is_ascii_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
         (c >= '0' && c <= '9');
}

/// The first single space between ASCII words from `from` on, or npos. No
/// normalisation joins those with what stands beside them.
std::size_t find_space(std::string_view text, std::size_t from) {
  for (std::size_t at = text.find(' ', from); at != std::string_view::npos;
       at = text.find(' ', at + 1)) {
    if (at > 0 && at + 1 < text.size() && is_ascii_word(text[at - 1]) &&
        is_ascii_word(text[at + 1])) {
      return at;
    }
  }
  return std::string_view::npos;
}

}  // namespace

void Tokenizer::Model::encode(std::string_view text,
                              std::vector<int>& ids) const {
  std::vector<int> more;
  const auto status = processor.Encode(text, &more);
  if (!status.ok()) {
    throw Error(concat("SentencePiece: encoding ", text.size(),
                       " bytes of text failed: ", status.error_message()));
  }
  ids.insert(ids.end(), more.begin(), more.end());
}

Tokenizer::Model::Cut Tokenizer::Model::find_cut() const {
  for (int id = 0; id < processor.GetPieceSize(); ++id) {
    const std::string& piece = processor.IdToPiece(id);
    std::size_t text = 0;
    while (piece.compare(text, kSpace.size(), kSpace) == 0) {
      text += kSpace.size();
    }
    if (piece.find(kSpace, text) != std::string::npos) return Cut::kNowhere;
  }
  const auto ids_of = [&](const std::vector<std::string_view>& texts) {
    std::vector<int> ids;
    for (const std::string_view text : texts) encode(text, ids);
    return ids;
  };
  const std::vector<int> whole = ids_of({"a a"});
  if (whole == ids_of({"a", "a"})) return Cut::kDropSpace;
  if (whole == ids_of({"a", " a"})) return Cut::kKeepSpace;
  return Cut::kNowhere;
}

Tokenizer::Tokenizer(const std::filesystem::path& path) : path_(path) {
  const std::string content = read_file(path);
  hash_ = xxh3_128(content);
  sha256_ = osdn::sha256(content);
  auto model = std::make_unique<Model>();
  const auto status = model->processor.LoadFromSerializedProto(content);
  if (!status.ok() || model->processor.GetPieceSize() == 0) {
    throw Error(
        concat(path.string(), ": is not a SentencePiece model (.model file)",
               status.ok() ? "" : ": ", status.error_message()),
        ExitCode::kBadInput);
  }
  model->cut = model->find_cut();
  model_ = std::move(model);
}

Tokenizer::~Tokenizer() = default;
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;

// SentencePiece needs a few hundred times the size of the text that it encodes,
// and adds up the scores of a unigram model in floats, which a long text makes
// coarse. Cut where no piece can reach across, neither is so.
std::vector<std::int32_t> Tokenizer::encode(std::string_view text) const {
  static_assert(sizeof(int) == sizeof(std::int32_t));
  std::vector<int> ids;
  while (text.size() > kWholeBytes && model_->cut != Model::Cut::kNowhere) {
    const std::size_t space = find_space(text, kSliceBytes);
    if (space == std::string_view::npos) break;
    model_->encode(text.substr(0, space), ids);
    text.remove_prefix(space + (model_->cut == Model::Cut::kDropSpace ? 1 : 0));
  }
  model_->encode(text, ids);
  return ids;
}

std::string Tokenizer::decode(std::span<const std::int32_t> ids) const {
  for (const std::int32_t id : ids) {
    check_id(id);
  }
  std::string text;
  const auto status =
      model_->processor.Decode(std::vector<int>(ids.begin(), ids.end()), &text);
  if (!status.ok()) {
    throw Error(concat(path_.string(), ": decoding ", ids.size(),
                       " ids failed: ", status.error_message()));
  }
  return text;
}

std::string Tokenizer::bytes_of(std::int32_t id) const {
  check_id(id);
  const auto& processor = model_->processor;
  if (processor.IsControl(id)) return "";
  if (processor.IsUnknown(id)) return decode({&id, 1});
  const std::string& piece = processor.IdToPiece(id);
  if (processor.IsByte(id)) {  // "<0xE2>"
    int byte = 0;
    std::from_chars(piece.data() + 3, piece.data() + 5, byte, 16);
    return {static_cast<char>(byte)};
  }
  std::string text;
  for (std::size_t at = 0; at < piece.size();) {
    const bool space = piece.compare(at, kSpace.size(), kSpace) == 0;
    text += space ? ' ' : piece[at];
    at += space ? kSpace.size() : 1;
  }
  return text;
}

void Tokenizer::check_fits(std::int64_t vocabulary) const {
  const std::string sizes =
      concat("tokenizer ", path_.string(), " has ", vocab_size(),
             " pieces, the model a vocabulary of ", vocabulary);
  if (vocab_size() > vocabulary) {
    throw Error(sizes + "; use the tokenizer that the model was trained with",
                ExitCode::kBadInput);
  }
  if (vocab_size() < vocabulary) {
    log::warn(sizes, "; that is right only for a padded vocabulary");
  }
}

std::int32_t Tokenizer::vocab_size() const {
  return model_->processor.GetPieceSize();
}

std::optional<std::int32_t> Tokenizer::bos_id() const {
  return defined(model_->processor.bos_id());
}

std::optional<std::int32_t> Tokenizer::eos_id() const {
  return defined(model_->processor.eos_id());
}

std::optional<std::int32_t> Tokenizer::unk_id() const {
  return defined(model_->processor.unk_id());
}

std::optional<std::int32_t> Tokenizer::id_of(std::string_view piece) const {
  // SentencePiece answers <unk> for what it does not know.
  const int id = model_->processor.PieceToId(piece);
  if (id < 0 || id >= vocab_size() ||
      model_->processor.IdToPiece(id) != piece) {
    return std::nullopt;
  }
  return id;
}

std::string Tokenizer::piece_of(std::int32_t id) const {
  check_id(id);
  return model_->processor.IdToPiece(id);
}

void Tokenizer::check_id(std::int32_t id) const {
  if (id < 0 || id >= vocab_size()) {
    throw Error(
        concat(path_.string(), ": id ", id,
               " is outside the vocabulary, expected 0 to ", vocab_size() - 1),
        ExitCode::kBadInput);
  }
}

namespace {

class VectorIterator : public sentencepiece::SentenceIterator {
 public:
  explicit VectorIterator(std::vector<std::string> sentences)
      : sentences_(std::move(sentences)) {}

  bool done() const override { return at_ == sentences_.size(); }
  void Next() override { ++at_; }
  const std::string& value() const override { return sentences_[at_]; }
  sentencepiece::util::Status status() const override { return {}; }

 private:
  std::vector<std::string> sentences_;
  std::size_t at_ = 0;
};

void check_options(const TrainOptions& options) {
  const std::int32_t reserved = options.byte_fallback ? 259 : 3;
  if (options.vocab_size <= reserved) {
    throw Error(concat("vocabulary size ", options.vocab_size,
                       " leaves no room for pieces beside the ", reserved,
                       " fixed ones (<unk>, <s>, </s>",
                       options.byte_fallback ? " and the 256 bytes" : "",
                       "); expected at least ", reserved + 1),
                ExitCode::kUsage);
  }
  if (!(options.character_coverage > 0.0 &&
        options.character_coverage <= 1.0)) {
    throw Error(concat("character coverage ", options.character_coverage,
                       "; expected above 0 and at most 1"),
                ExitCode::kUsage);
  }
  if (options.max_piece_length < 1 || options.max_piece_length > 512) {
    throw Error(concat("longest piece ", options.max_piece_length,
                       " code points; expected 1 to 512"),
                ExitCode::kUsage);
  }
}

SampleSize size_of(std::int64_t seen, const std::vector<std::string>& kept) {
  SampleSize size = {seen, static_cast<std::int64_t>(kept.size()), 0};
  for (const std::string& sentence : kept) {
    size.bytes += static_cast<std::int64_t>(sentence.size());
  }
  return size;
}

// Its messages begin with the place in its source and the condition that
// failed, and may end with options of its own program: the facts are between.
std::string failure(std::string message) {
  const std::size_t facts = message.rfind(")] ");
  if (facts != std::string::npos) {
    message.erase(0, facts + 3);
  }
  const std::size_t options = message.find(". Increase vocab_size");
  if (options == std::string::npos) {
    return concat(message, " Give more text or a smaller vocabulary.");
  }
  message.erase(options);
  return concat(message,
                ". The characters alone need more pieces: give a larger "
                "vocabulary or a lower character coverage.");
}

const char* flag(bool value) {
  return value ? "true" : "false";
}

}  // namespace

Algorithm algorithm_from_name(std::string_view name) {
  if (name == "unigram") {
    return Algorithm::kUnigram;
  }
  if (name == "bpe") {
    return Algorithm::kBpe;
  }
  throw Error(concat("tokenizer algorithm \"", name,
                     "\" is not known; use unigram or bpe"),
              ExitCode::kUsage);
}

std::string train(const TrainOptions& options,
                  const std::function<bool(std::string&)>& next_text,
                  const std::function<void(const SampleSize&)>& on_sample) {
  check_options(options);
  SentenceSample sample(options.sample);
  for (std::string text; next_text(text);) {
    sample.add_text(text);
  }
  if (sample.seen() == 0) {
    throw Error("the text for the tokenizer is empty: no sentence in it",
                ExitCode::kBadInput);
  }
  std::vector<std::string> kept = sample.take();
  if (on_sample) {
    on_sample(size_of(sample.seen(), kept));
  }
  VectorIterator sentences(std::move(kept));
  const std::unordered_map<std::string, std::string> arguments = {
      {"model_type",
       options.algorithm == Algorithm::kUnigram ? "unigram" : "bpe"},
      {"vocab_size", concat(options.vocab_size)},
      {"character_coverage", concat(options.character_coverage)},
      {"byte_fallback", flag(options.byte_fallback)},
      {"split_digits", flag(options.split_digits)},
      {"max_sentencepiece_length", concat(options.max_piece_length)},
      // Sentences are bounded already; nothing may be left out behind our back.
      {"max_sentence_length", concat(options.sample.max_sentence_bytes + 1)},
      {"normalization_rule_name", "identity"},
      {"remove_extra_whitespaces", "false"},
      {"allow_whitespace_only_pieces", "true"},
      {"unk_id", "0"},
      {"bos_id", "1"},
      {"eos_id", "2"},
      // The sums of the unigram training depend on this number, and so would
      // the model on the machine.
      {"num_threads", "4"},
      {"minloglevel", "2"},
  };
  std::string model;
  const auto status =
      sentencepiece::SentencePieceTrainer::Train(arguments, &sentences, &model);
  if (!status.ok()) {
    throw Error(concat("training a tokenizer of ", options.vocab_size,
                       " pieces from ", sample.seen(),
                       " sentences failed: ", failure(status.error_message())),
                ExitCode::kUsage);
  }
  return model;
}

}  // namespace osdn::tokenizer
