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
  add_document(ids, {});
}

void TokenShardWriter::add_document(std::span<const std::int32_t> ids,
                                    std::span<const std::int64_t> labels) {
  const auto refuse = [this](const auto&... pieces) {
    throw Error(concat(path().string(), ": document ", header_.document_count,
                       pieces...));
  };
  const auto vocab = static_cast<std::int64_t>(header_.vocab_size);
  if (ids.empty()) refuse(" is empty; leave empty documents out");
  const bool labelled = !labels.empty();
  if (labelled && labels.size() != ids.size()) {
    refuse(" has ", labels.size(), " labels for ", ids.size(), " ids");
  }
  if (header_.document_count == 0 && labelled) {
    header_.labels_offset = 0;  // until the layout is known
    header_.token_bytes = token_bytes_for(header_.vocab_size, true);
  }
  if (labelled != header_.labels_offset.has_value()) {
    refuse(labelled ? " has labels, those before it have none"
                    : " has no labels, those before it have some");
  }
  const auto put = [this](std::vector<std::uint8_t>& out, std::int64_t value) {
    for (std::uint32_t byte = 0; byte < header_.token_bytes; ++byte) {
      out.push_back(static_cast<std::uint8_t>(value >> (8 * byte)));
    }
  };
  document_begins_.push_back(header_.token_count);
  for (const std::int32_t id : ids) {
    if (id < 0 || id >= vocab) {
      refuse(": id ", id, " is outside the vocabulary, expected 0 to ",
             vocab - 1);
    }
    put(buffer_, id);
    if (buffer_.size() >= kBufferBytes) flush();
  }
  for (const std::int64_t label : labels) {
    if (label != kNoLabel && (label < 0 || label >= vocab)) {
      refuse(": label ", label, " is outside the vocabulary, expected 0 to ",
             vocab - 1, ", or ", kNoLabel, " for none");
    }
    put(labels_, label == kNoLabel ? vocab : label);
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
  if (header_.labels_offset) {
    pad_to(*header_.labels_offset);
    append(labels_);
  }
  pad_to(header_.documents_offset);
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

void TokenShardWriter::pad_to(std::uint64_t offset) {
  const std::uint64_t at = written_ + buffer_.size();
  buffer_.insert(buffer_.end(), static_cast<std::size_t>(offset - at), 0);
}

void TokenShardWriter::append(std::span<const std::uint8_t> bytes) {
  flush();
  payload_.update(bytes.data(), bytes.size());
  out_.file().write(bytes.data(), bytes.size());
  written_ += bytes.size();
}

void TokenShardWriter::flush() {
  payload_.update(buffer_.data(), buffer_.size());
  out_.file().write(buffer_.data(), buffer_.size());
  written_ += buffer_.size();
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
