#include <utility>

#include "osdn/core/concat.h"
#include "osdn/core/error.h"
#include "osdn/data/token_shard.h"

namespace osdn::data {

namespace {
constexpr std::size_t kBufferBytes = std::size_t{1} << 20;
}

TokenShardWriter::TokenShardWriter(const std::filesystem::path& path,
                                   ShardHeader description)
    : header_(std::move(description)), out_(path) {
  if (header_.vocab_size == 0 ||
      header_.vocab_size > (std::uint64_t{1} << 31)) {
    throw Error(concat(path.string(), ": a vocabulary of ", header_.vocab_size,
                       " ids, expected 1 to 2^31"));
  }
  header_.token_bytes = token_bytes_for(header_.vocab_size);
  header_.token_count = 0;
  header_.document_count = 0;
  header_.tokens_offset = kShardHeaderBytes;
  // The header comes last; until then the file does not even have its magic.
  const HeaderBytes room{};
  out_.file().write(room.data(), room.size());
  buffer_.reserve(kBufferBytes + 8);
}

TokenShardWriter::~TokenShardWriter() = default;

void TokenShardWriter::add_document(std::span<const std::int32_t> ids) {
  if (ids.empty()) {
    throw Error(concat(path().string(), ": document ", header_.document_count,
                       " is empty; leave empty documents out"));
  }
  document_begins_.push_back(header_.token_count);
  for (const std::int32_t id : ids) {
    if (id < 0 || static_cast<std::uint64_t>(id) >= header_.vocab_size) {
      throw Error(concat(path().string(), ": document ", header_.document_count,
                         ": id ", id,
                         " is outside the vocabulary, expected 0 to ",
                         header_.vocab_size - 1));
    }
    const auto bits = static_cast<std::uint32_t>(id);
    for (std::uint32_t byte = 0; byte < header_.token_bytes; ++byte) {
      buffer_.push_back(static_cast<std::uint8_t>(bits >> (8 * byte)));
    }
    if (buffer_.size() >= kBufferBytes) {
      flush();
    }
  }
  header_.token_count += ids.size();
  ++header_.document_count;
}

ShardHeader TokenShardWriter::finish() {
  if (header_.document_count == 0) {
    throw Error(concat(path().string(), ": no document was added"));
  }
  document_begins_.push_back(header_.token_count);
  set_layout(header_);
  const std::uint64_t tokens_end =
      header_.tokens_offset + header_.token_count * header_.token_bytes;
  buffer_.insert(buffer_.end(), header_.documents_offset - tokens_end, 0);
  for (const std::uint64_t begin : document_begins_) {
    for (int byte = 0; byte < 8; ++byte) {
      buffer_.push_back(static_cast<std::uint8_t>(begin >> (8 * byte)));
    }
    if (buffer_.size() >= kBufferBytes) {
      flush();
    }
  }
  flush();
  header_.payload_hash = payload_.digest64();
  const HeaderBytes bytes = to_bytes(header_);
  out_.file().write_at(0, bytes.data(), bytes.size());
  out_.commit();
  return header_;
}

void TokenShardWriter::flush() {
  payload_.update(buffer_.data(), buffer_.size());
  out_.file().write(buffer_.data(), buffer_.size());
  buffer_.clear();
}

void rewrite_header(const std::filesystem::path& path,
                    const ShardHeader& header) {
  File file = File::open_update(path);
  const HeaderBytes bytes = to_bytes(header);
  file.write_at(0, bytes.data(), bytes.size());
  file.sync();
  file.close();
}

}  // namespace osdn::data
