#include "osdn/data/token_shard.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "osdn/core/concat.h"
#include "osdn/core/error.h"

namespace osdn::data {

// The mapped arrays are read as they stand on disk.
static_assert(std::endian::native == std::endian::little,
              "token shards are little endian");

namespace {

// Widens while it looks for the largest id: one pass, no branch in it.
template <typename Stored>
std::uint32_t widen(const std::byte* from, std::span<std::int32_t> out) {
  std::uint32_t largest = 0;
  for (std::size_t i = 0; i < out.size(); ++i) {
    Stored value;
    std::memcpy(&value, from + i * sizeof(Stored), sizeof(Stored));
    largest = std::max<std::uint32_t>(largest, value);
    out[i] = static_cast<std::int32_t>(value);
  }
  return largest;
}

}  // namespace

TokenShard::TokenShard(const std::filesystem::path& path) : map_(path) {
  header_ = parse_header(
      map_.bytes().first(static_cast<std::size_t>(
          std::min<std::uint64_t>(map_.size(), kShardHeaderBytes))),
      map_.size(), path);
  check_document_table();
}

std::uint64_t TokenShard::document_begin(std::uint64_t document) const {
  std::uint64_t begin = 0;
  std::memcpy(&begin, map_.data() + header_.documents_offset + 8 * document,
              sizeof(begin));
  return begin;
}

void TokenShard::check_document_table() const {
  std::uint64_t last = 0;
  for (std::uint64_t i = 0; i <= header_.document_count; ++i) {
    const std::uint64_t begin = document_begin(i);
    const bool sound = i == 0                        ? begin == 0
                       : i == header_.document_count ? begin == token_count()
                                                     : begin < token_count();
    if (!sound || (i > 0 && begin <= last)) {
      throw Error(
          concat(path().string(), ": offset ", header_.documents_offset + 8 * i,
                 ": the document table is damaged: document ", i,
                 " begins at token ", begin, ", the one before at ", last, ", ",
                 token_count(), " tokens in all"),
          ExitCode::kBadInput);
    }
    last = begin;
  }
}

void TokenShard::read(std::uint64_t first, std::span<std::int32_t> out) const {
  if (first > token_count() || out.size() > token_count() - first) {
    throw Error(concat(path().string(), ": ", out.size(),
                       " tokens asked for from token ", first,
                       " on, the shard has ", token_count()));
  }
  const std::uint64_t offset =
      header_.tokens_offset + first * header_.token_bytes;
  const std::byte* from = map_.data() + offset;
  const std::uint32_t largest = header_.token_bytes == 2
                                    ? widen<std::uint16_t>(from, out)
                                    : widen<std::uint32_t>(from, out);
  if (largest < header_.vocab_size) {
    return;
  }
  const auto bad = std::find_if(out.begin(), out.end(), [&](std::int32_t id) {
    return static_cast<std::uint32_t>(id) >= header_.vocab_size;
  });
  const auto at = static_cast<std::uint64_t>(bad - out.begin());
  throw Error(
      concat(path().string(), ": offset ", offset + at * header_.token_bytes,
             ": id ", static_cast<std::uint32_t>(*bad), " (token ", first + at,
             ") is outside the vocabulary of ", header_.vocab_size,
             " ids; the file is damaged, make it again"),
      ExitCode::kBadInput);
}

void TokenShard::read_labels(std::uint64_t first,
                             std::span<std::int64_t> out) const {
  if (!header_.labels_offset || first > token_count() ||
      out.size() > token_count() - first) {
    throw Error(concat(path().string(), ": ", out.size(),
                       " labels asked for from token ", first,
                       " on, the shard has ",
                       header_.labels_offset ? token_count() : 0));
  }
  const std::uint64_t width = header_.token_bytes;
  const std::uint64_t offset = *header_.labels_offset + first * width;
  for (std::size_t i = 0; i < out.size(); ++i) {
    std::uint32_t value = 0;
    std::memcpy(&value, map_.data() + offset + i * width,
                static_cast<std::size_t>(width));
    if (value > header_.vocab_size) {
      throw Error(concat(path().string(), ": offset ", offset + i * width,
                         ": label ", value, " (of token ", first + i,
                         ") is outside the vocabulary of ", header_.vocab_size,
                         " ids; the file is damaged, make it again"),
                  ExitCode::kBadInput);
    }
    out[i] = value == header_.vocab_size ? kNoLabel
                                         : static_cast<std::int64_t>(value);
  }
}

void TokenShard::check_ids(std::uint64_t begin, std::uint64_t end,
                           std::vector<std::int32_t>& ids) const {
  const std::uint64_t width = header_.token_bytes;
  const std::uint64_t tokens_end =
      header_.tokens_offset + token_count() * width;
  begin = std::max(begin, header_.tokens_offset);
  end = std::min(end, tokens_end);
  if (begin < end) {
    ids.resize(static_cast<std::size_t>((end - begin) / width));
    read((begin - header_.tokens_offset) / width, ids);
  }
}

bool TokenShard::verify(const std::function<bool(std::uint64_t)>& go_on) const {
  // Small steps, so that the hash finds in the cache what the ids brought
  // there.
  constexpr std::uint64_t kStep = std::uint64_t{1} << 18;
  constexpr std::uint64_t kAskEvery = std::uint64_t{16} << 20;
  Xxh3 hash;
  std::vector<std::int32_t> ids;
  for (std::uint64_t at = kShardHeaderBytes; at < map_.size(); at += kStep) {
    const std::uint64_t done = at - kShardHeaderBytes;
    if (go_on && done > 0 && done % kAskEvery == 0 && !go_on(done)) {
      return false;
    }
    const std::uint64_t end = std::min(at + kStep, map_.size());
    // An id's message says more than that of the hash.
    check_ids(at, end, ids);
    hash.update(map_.data() + at, static_cast<std::size_t>(end - at));
  }
  if (hash.digest64() != header_.payload_hash) {
    throw Error(concat(path().string(), ": offset ", kShardHeaderBytes, " to ",
                       map_.size(), ": the tokens are damaged: their hash is ",
                       to_hex(hash.digest64()), ", the header says ",
                       to_hex(header_.payload_hash),
                       "; copy the shard again or make it anew"),
                ExitCode::kBadInput);
  }
  return true;
}

}  // namespace osdn::data
