#include "osdn/data/shard_header.h"

#include <cstring>
#include <string_view>
#include <type_traits>

#include "osdn/core/concat.h"
#include "osdn/core/error.h"

namespace osdn::data {

namespace {

constexpr std::string_view kMagic = "OSDNTOKS";

// Offsets of the fields; what lies between and behind them is zero.
constexpr std::size_t kMagicAt = 0;
constexpr std::size_t kVersionAt = 8;
constexpr std::size_t kHeaderBytesAt = 12;
constexpr std::size_t kTokenBytesAt = 16;
constexpr std::size_t kFlagsAt = 20;
constexpr std::size_t kVocabSizeAt = 24;
constexpr std::size_t kTokenizerHashAt = 32;
constexpr std::size_t kBosIdAt = 48;
constexpr std::size_t kEosIdAt = 52;
constexpr std::size_t kTokenCountAt = 56;
constexpr std::size_t kDocumentCountAt = 64;
constexpr std::size_t kTokensOffsetAt = 72;
constexpr std::size_t kDocumentsOffsetAt = 80;
constexpr std::size_t kFileBytesAt = 88;
constexpr std::size_t kShardIndexAt = 96;
constexpr std::size_t kShardCountAt = 100;
constexpr std::size_t kPayloadHashAt = 104;
constexpr std::size_t kLabelsOffsetAt = 112;
constexpr std::size_t kHeaderHashAt = kShardHeaderBytes - 8;

constexpr std::uint32_t kBosAdded = 1;
constexpr std::uint32_t kEosAdded = 2;
constexpr std::uint32_t kLabelled = 4;

// Little endian, whatever the machine.
template <typename T>
void put(HeaderBytes& bytes, std::size_t at, T value) {
  const auto bits = static_cast<std::make_unsigned_t<T>>(value);
  for (std::size_t i = 0; i < sizeof(T); ++i) {
    bytes[at + i] = static_cast<std::byte>(bits >> (8 * i));
  }
}

template <typename T>
T get(std::span<const std::byte> bytes, std::size_t at) {
  std::make_unsigned_t<T> bits = 0;
  for (std::size_t i = 0; i < sizeof(T); ++i) {
    bits |= static_cast<std::make_unsigned_t<T>>(
        std::to_integer<std::make_unsigned_t<T>>(bytes[at + i]) << (8 * i));
  }
  return static_cast<T>(bits);
}

template <typename... Pieces>
[[noreturn]] void fail(const std::filesystem::path& path, std::uint64_t offset,
                       const Pieces&... pieces) {
  throw Error(concat(path.string(), ": offset ", offset, ": ", pieces...),
              ExitCode::kBadInput);
}

// `a` * `b` + `c`, for sizes that a file claims to have.
bool fits_product(std::uint64_t a, std::uint64_t b, std::uint64_t c,
                  std::uint64_t& out) {
  return !__builtin_mul_overflow(a, b, &out) &&
         !__builtin_add_overflow(out, c, &out);
}

}  // namespace

std::uint32_t token_bytes_for(std::uint64_t vocab_size, bool labels) {
  return vocab_size + (labels ? 1 : 0) <= 65536 ? 2 : 4;
}

void set_layout(ShardHeader& header) {
  const auto end_of = [&header](std::uint64_t begin) {
    return (begin + header.token_count * header.token_bytes + 7) / 8 * 8;
  };
  header.documents_offset = end_of(header.tokens_offset);
  if (header.labels_offset) {
    header.labels_offset = header.documents_offset;
    header.documents_offset = end_of(*header.labels_offset);
  }
  header.file_bytes = header.documents_offset + 8 * (header.document_count + 1);
}

HeaderBytes to_bytes(const ShardHeader& header) {
  HeaderBytes bytes{};
  std::memcpy(bytes.data() + kMagicAt, kMagic.data(), kMagic.size());
  put(bytes, kVersionAt, header.labels_offset ? 2U : 1U);
  put(bytes, kHeaderBytesAt, static_cast<std::uint32_t>(kShardHeaderBytes));
  put(bytes, kTokenBytesAt, header.token_bytes);
  put(bytes, kFlagsAt,
      (header.bos_id ? kBosAdded : 0U) | (header.eos_id ? kEosAdded : 0U) |
          (header.labels_offset ? kLabelled : 0U));
  put(bytes, kVocabSizeAt, header.vocab_size);
  put(bytes, kTokenizerHashAt, header.tokenizer_hash.low);
  put(bytes, kTokenizerHashAt + 8, header.tokenizer_hash.high);
  put(bytes, kBosIdAt, header.bos_id.value_or(-1));
  put(bytes, kEosIdAt, header.eos_id.value_or(-1));
  put(bytes, kTokenCountAt, header.token_count);
  put(bytes, kDocumentCountAt, header.document_count);
  put(bytes, kTokensOffsetAt, header.tokens_offset);
  put(bytes, kDocumentsOffsetAt, header.documents_offset);
  put(bytes, kFileBytesAt, header.file_bytes);
  put(bytes, kShardIndexAt, header.shard_index);
  put(bytes, kShardCountAt, header.shard_count);
  put(bytes, kPayloadHashAt, header.payload_hash);
  put(bytes, kLabelsOffsetAt, header.labels_offset.value_or(0));
  put(bytes, kHeaderHashAt, xxh3_64(bytes.data(), kHeaderHashAt));
  return bytes;
}

ShardHeader parse_header(std::span<const std::byte> bytes,
                         std::uint64_t file_bytes,
                         const std::filesystem::path& path) {
  // In this order, so that each fault is called by its name: a foreign file,
  // one of a later osdn (whose header we cannot judge), damage, a cut.
  const std::size_t present = std::min(bytes.size(), kMagic.size());
  if (present == 0 || std::memcmp(bytes.data(), kMagic.data(), present) != 0) {
    fail(path, kMagicAt, "is not a token shard (the first ", kMagic.size(),
         " bytes are not \"", kMagic, "\"); make one with osdn-data tokenize");
  }
  if (bytes.size() < kVersionAt + 4) {
    fail(path, bytes.size(), "the file was cut short inside the header of ",
         kShardHeaderBytes, " bytes");
  }
  const auto version = get<std::uint32_t>(bytes, kVersionAt);
  if (version > kShardVersion) {
    fail(path, kVersionAt, "shard format version ", version,
         ", this osdn reads up to ", kShardVersion, "; use a newer osdn");
  }
  if (bytes.size() < kShardHeaderBytes) {
    fail(path, bytes.size(), "the file was cut short inside the header of ",
         kShardHeaderBytes, " bytes");
  }
  const auto stored_hash = get<std::uint64_t>(bytes, kHeaderHashAt);
  const std::uint64_t real_hash = xxh3_64(bytes.data(), kHeaderHashAt);
  if (stored_hash != real_hash) {
    fail(path, kHeaderHashAt, "the header is damaged: its hash is ",
         to_hex(real_hash), ", stored is ", to_hex(stored_hash),
         "; make the shard again");
  }
  if (version == 0) {
    fail(path, kVersionAt,
         "shard format version 0 is not known, expected 1 to ", kShardVersion);
  }
  ShardHeader header;
  header.token_bytes = get<std::uint32_t>(bytes, kTokenBytesAt);
  header.vocab_size = get<std::uint64_t>(bytes, kVocabSizeAt);
  header.tokenizer_hash.low = get<std::uint64_t>(bytes, kTokenizerHashAt);
  header.tokenizer_hash.high = get<std::uint64_t>(bytes, kTokenizerHashAt + 8);
  const auto flags = get<std::uint32_t>(bytes, kFlagsAt);
  if ((flags & kBosAdded) != 0) {
    header.bos_id = get<std::int32_t>(bytes, kBosIdAt);
  }
  if ((flags & kEosAdded) != 0) {
    header.eos_id = get<std::int32_t>(bytes, kEosIdAt);
  }
  if ((flags & kLabelled) != 0) {
    header.labels_offset = get<std::uint64_t>(bytes, kLabelsOffsetAt);
  }
  header.token_count = get<std::uint64_t>(bytes, kTokenCountAt);
  header.document_count = get<std::uint64_t>(bytes, kDocumentCountAt);
  header.tokens_offset = get<std::uint64_t>(bytes, kTokensOffsetAt);
  header.documents_offset = get<std::uint64_t>(bytes, kDocumentsOffsetAt);
  header.file_bytes = get<std::uint64_t>(bytes, kFileBytesAt);
  header.shard_index = get<std::uint32_t>(bytes, kShardIndexAt);
  header.shard_count = get<std::uint32_t>(bytes, kShardCountAt);
  header.payload_hash = get<std::uint64_t>(bytes, kPayloadHashAt);

  if (file_bytes != header.file_bytes) {
    fail(path, std::min(file_bytes, header.file_bytes), "the file has ",
         file_bytes, " bytes, its header says ", header.file_bytes,
         file_bytes < header.file_bytes
             ? "; it was cut short, make it or copy it again"
             : "; something was added behind its end");
  }
  if (header.token_bytes != 2 && header.token_bytes != 4) {
    fail(path, kTokenBytesAt, "tokens of ", header.token_bytes,
         " bytes, expected 2 or 4");
  }
  if (header.vocab_size == 0 || header.vocab_size > (std::uint64_t{1} << 31)) {
    fail(path, kVocabSizeAt, "a vocabulary of ", header.vocab_size,
         " ids, expected 1 to 2^31");
  }
  if (header.token_bytes <
      token_bytes_for(header.vocab_size, header.labels_offset.has_value())) {
    fail(path, kTokenBytesAt, "tokens of 2 bytes cannot hold a vocabulary of ",
         header.vocab_size, " ids");
  }
  if (header.token_count == 0 || header.document_count == 0) {
    fail(path, kTokenCountAt, "the shard holds no tokens");
  }
  std::uint64_t tokens_end = 0;
  std::uint64_t labels_end = 0;
  std::uint64_t table_end = 0;
  const std::uint64_t labels_begin =
      header.labels_offset.value_or(header.documents_offset);
  if (header.tokens_offset < kShardHeaderBytes ||
      header.tokens_offset % 8 != 0 || header.documents_offset % 8 != 0 ||
      header.document_count > header.token_count ||
      !fits_product(header.token_count, header.token_bytes,
                    header.tokens_offset, tokens_end) ||
      tokens_end > labels_begin || labels_begin % 8 != 0 ||
      !fits_product(header.labels_offset ? header.token_count : 0,
                    header.token_bytes, labels_begin, labels_end) ||
      labels_end > header.documents_offset ||
      !fits_product(header.document_count + 1, 8, header.documents_offset,
                    table_end) ||
      table_end != header.file_bytes) {
    fail(path, kTokenCountAt, header.token_count, " tokens at offset ",
         header.tokens_offset, " and ", header.document_count,
         " documents at offset ", header.documents_offset,
         " do not fit a file of ", header.file_bytes, " bytes");
  }
  return header;
}

}  // namespace osdn::data
