#pragma once
// Text to token ids and back: a SentencePiece model file.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "osdn/core/hash.h"

namespace osdn::tokenizer {

/// A loaded model. Const functions may be called from several threads.
class Tokenizer {
 public:
  /// Reads a SentencePiece .model file; throws Error (kBadInput) naming the
  /// file when it is missing or is none.
  explicit Tokenizer(const std::filesystem::path& path);
  ~Tokenizer();
  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;

  /// Ids of `text` (UTF-8) as the model gives them; no begin or end id added.
  /// Memory beside text and ids does not grow with a text that has spaces.
  std::vector<std::int32_t> encode(std::string_view text) const;
  /// Inverse of encode up to the model's own normalisation. Begin, end and
  /// other control ids give no text. Throws Error for an id outside
  /// [0, vocab_size).
  std::string decode(std::span<const std::int32_t> ids) const;

  /// The bytes that an id stands for behind other text: its piece with a space
  /// for each \u2581, one byte for a byte piece, " \u2047 " for <unk>, nothing
  /// for begin, end and other control ids. Throws Error for an id outside
  /// [0, vocab_size).
  std::string bytes_of(std::int32_t id) const;

  /// Throws Error (kBadInput) for more pieces than a model's vocabulary has;
  /// fewer, right for a padded vocabulary only, are a warning in the log.
  void check_fits(std::int64_t vocabulary) const;

  /// Ids are in [0, vocab_size()).
  std::int32_t vocab_size() const;
  /// Nothing where the model defines none.
  std::optional<std::int32_t> bos_id() const;
  std::optional<std::int32_t> eos_id() const;
  std::optional<std::int32_t> unk_id() const;

  /// The id of a piece as the model spells it ("\u2581the"); nothing when it is
  /// not in the vocabulary.
  std::optional<std::int32_t> id_of(std::string_view piece) const;
  /// Inverse of id_of; throws Error for an id outside [0, vocab_size).
  std::string piece_of(std::int32_t id) const;

  /// XXH3 (128 bits) of the model file: names the tokenizer in token shards.
  const Hash128& hash() const { return hash_; }
  /// SHA-256 of the model file, 64 hexadecimal digits.
  const std::string& sha256() const { return sha256_; }
  const std::filesystem::path& path() const { return path_; }

 private:
  struct Model;

  void check_id(std::int32_t id) const;

  std::filesystem::path path_;
  Hash128 hash_;
  std::string sha256_;
  std::unique_ptr<const Model> model_;
};

}  // namespace osdn::tokenizer
