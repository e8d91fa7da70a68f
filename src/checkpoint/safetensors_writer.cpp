#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "osdn/checkpoint/safetensors.h"
#include "osdn/core/concat.h"
#include "osdn/core/error.h"
#include "osdn/core/hash.h"
#include "safetensors_header.h"

namespace osdn::checkpoint {

namespace {

using nlohmann::ordered_json;

// Small enough to stay in cache between hashing and writing.
constexpr std::size_t kBlockBytes = std::size_t{1} << 20;
// What a disk of a megabyte a second takes within a minute.
constexpr std::uint64_t kSyncBytes = std::uint64_t{64} << 20;

// Largest element type first: then every offset is a multiple of the size of
// the elements that start there.
std::vector<const TensorView*> file_order(std::span<const TensorView> tensors,
                                          const std::string& where) {
  std::set<std::string_view> names;
  std::vector<const TensorView*> order;
  for (const TensorView& tensor : tensors) {
    if (tensor.name == "__metadata__" || !names.insert(tensor.name).second) {
      throw Error(concat(where, ": tensor \"", tensor.name,
                         tensor.name == "__metadata__"
                             ? "\" has a name that the format keeps"
                             : "\" is there twice"));
    }
    if (tensor.data == nullptr && tensor.bytes() > 0) {
      throw Error(
          concat(where, ": tensor \"", tensor.name, "\" points at no data"));
    }
    order.push_back(&tensor);
  }
  std::stable_sort(order.begin(), order.end(),
                   [](const TensorView* a, const TensorView* b) {
                     return size_of(a->dtype) > size_of(b->dtype);
                   });
  return order;
}

std::string header_text(const std::vector<const TensorView*>& order,
                        const Metadata& metadata, const std::string& where) {
  ordered_json header;
  header["__metadata__"] = metadata;
  std::uint64_t offset = 0;
  for (const TensorView* tensor : order) {
    const std::uint64_t end = offset + tensor->bytes();
    header[tensor->name] = {{"dtype", name_of(tensor->dtype)},
                            {"shape", tensor->shape},
                            {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text;
  try {
    text = header.dump();
  } catch (const nlohmann::json::exception& error) {
    throw Error(concat(
        where, ": a tensor name or metadata is not UTF-8: ", error.what()));
  }
  text.resize((text.size() + 7) / 8 * 8, ' ');
  if (text.size() > kMaxHeaderBytes) {
    throw Error(concat(where, ": the header would have ", text.size(),
                       " bytes; readers accept ", kMaxHeaderBytes));
  }
  return text;
}

void compare(const std::filesystem::path& path,
             const std::vector<const TensorView*>& order,
             const Metadata& metadata) {
  const SafetensorsFile file(path);
  const auto fail = [&](const std::string& what) {
    throw Error(concat(path.string(), ": re-opened after writing, ", what));
  };
  if (file.tensors().size() != order.size()) {
    fail(concat("it has ", file.tensors().size(), " tensors, expected ",
                order.size()));
  }
  for (const TensorView* tensor : order) {
    const TensorView& read = file.tensor(tensor->name);
    if (read.dtype != tensor->dtype || read.shape != tensor->shape) {
      fail(concat("tensor \"", tensor->name, "\" has another dtype or shape"));
    }
  }
  if (file.metadata() != metadata) {
    fail("it has other metadata");
  }
}

}  // namespace

WrittenFile write_safetensors(const std::filesystem::path& path,
                              std::span<const TensorView> tensors,
                              const Metadata& metadata,
                              WriteProgress* progress) {
  const std::string where = path.string();
  Metadata all = metadata;
  all.emplace("format", "pt");
  const std::vector<const TensorView*> order = file_order(tensors, where);
  const std::string header = header_text(order, all, where);

  const auto at = [&](const char* doing) {
    if (progress != nullptr) progress->at(doing, path);
  };
  at("writing");
  File file = File::create(path);
  Xxh3 hash;
  WrittenFile written;
  std::uint64_t unsynced = 0;
  const auto sync = [&] {
    at("syncing");
    file.sync();
    at("writing");
    unsynced = 0;
  };
  const auto put = [&](const void* data, std::size_t size) {
    const auto* bytes = static_cast<const char*>(data);
    for (std::size_t done = 0; done < size; done += kBlockBytes) {
      const std::size_t block = std::min(kBlockBytes, size - done);
      hash.update(bytes + done, block);
      file.write(bytes + done, block);
      if (progress != nullptr) progress->moved();
      unsynced += block;
      if (unsynced >= kSyncBytes) sync();
    }
    written.size += size;
  };
  std::string length;
  for (std::size_t i = 0; i < 8; ++i) {
    length += static_cast<char>(header.size() >> (8 * i) & 0xFF);
  }
  put(length.data(), length.size());
  put(header.data(), header.size());
  for (const TensorView* tensor : order) {
    put(tensor->data, tensor->bytes());
  }
  sync();
  file.close();
  written.xxh3 = hash.digest64();
  at("reading back");
  compare(path, order, all);
  return written;
}

}  // namespace osdn::checkpoint
