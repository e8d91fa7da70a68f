#include "osdn/generate/state_file.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/from_blob.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <utility>

#include "osdn/checkpoint/finite_check.h"
#include "osdn/checkpoint/safetensors.h"
#include "osdn/core/concat.h"
#include "osdn/core/error.h"
#include "osdn/core/file.h"
#include "osdn/core/hash.h"
#include "osdn/model/model_state.h"
#include "osdn/ops/host_tensors.h"

namespace osdn::generate {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kFormat = "osdn-state/1";
constexpr const char* kFormatKey = "osdn_format";
constexpr const char* kStateKey = "osdn_state";
constexpr const char* kChecksumKey = "osdn_checksum";

[[noreturn]] void fail(const fs::path& path, const std::string& what) {
  throw Error(concat(path.string(), ": ", what), ExitCode::kBadInput);
}

std::string hex_of(const std::string& bytes) {
  std::string text;
  for (const char byte : bytes) {
    text += to_hex(std::uint64_t{static_cast<unsigned char>(byte)}).substr(14);
  }
  return text;
}

std::string bytes_of_hex(const std::string& text) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < text.size(); i += 2) {
    int byte = 0;
    std::from_chars(text.data() + i, text.data() + i + 2, byte, 16);
    bytes += static_cast<char>(byte);
  }
  return bytes;
}

json sampling_json(const SamplingOptions& s) {
  return {{"temperature", s.temperature},
          {"top_k", s.top_k},
          {"top_p", s.top_p},
          {"repetition_penalty", s.repetition_penalty},
          {"seed", s.seed}};
}

SamplingOptions sampling_of(const json& j) {
  SamplingOptions s;
  j.at("temperature").get_to(s.temperature);
  j.at("top_k").get_to(s.top_k);
  j.at("top_p").get_to(s.top_p);
  j.at("repetition_penalty").get_to(s.repetition_penalty);
  j.at("seed").get_to(s.seed);
  return s;
}

json sequence_json(const SequenceState& s) {
  return {{"index", s.index},
          {"fed", s.fed},
          {"drawn", s.drawn},
          {"pending_bytes", hex_of(s.pending.bytes)},
          {"pending_text", s.pending.text},
          {"finish", s.finish ? json(name_of(*s.finish)) : json()},
          {"layers", s.state.layers.size()}};
}

SequenceState sequence_of(const json& j, std::size_t& layers) {
  SequenceState s;
  j.at("index").get_to(s.index);
  j.at("fed").get_to(s.fed);
  j.at("drawn").get_to(s.drawn);
  s.pending.bytes = bytes_of_hex(j.at("pending_bytes").get<std::string>());
  j.at("pending_text").get_to(s.pending.text);
  if (!j.at("finish").is_null()) {
    s.finish = finish_from_name(j.at("finish").get<std::string>());
  }
  j.at("layers").get_to(layers);
  return s;
}

/// Of the text and the tensors by name, so that no damage goes unnoticed.
std::string checksum(const std::string& text, std::vector<TensorView> tensors) {
  std::sort(tensors.begin(), tensors.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
  Xxh3 hash;
  hash.update(text);
  for (const TensorView& tensor : tensors) {
    hash.update(tensor.name);
    hash.update(tensor.data, tensor.bytes());
  }
  return to_hex(hash.digest64());
}

std::string ids_name(std::size_t sequence, const char* name) {
  return concat("sequences.", sequence, ".", name);
}

TensorView view_of_ids(const std::string& name,
                       const std::vector<std::int32_t>& ids) {
  return {name,
          DType::kI32,
          {static_cast<std::int64_t>(ids.size())},
          const_cast<std::int32_t*>(ids.data())};
}

std::vector<std::int32_t> ids_of(const TensorView& view, const fs::path& path) {
  if (view.dtype != DType::kI32 || view.shape.size() != 1) {
    fail(path, concat("tensor ", view.name, " is not I32 [n]"));
  }
  const auto* ids = static_cast<const std::int32_t*>(view.data);
  return {ids, ids + view.numel()};
}

/// Calls found(layer, member, name) for each tensor that a sequence may have.
template <typename Found>
void for_each_tensor(std::size_t sequence, std::size_t layers,
                     const Found& found) {
  for (std::size_t layer = 0; layer < layers; ++layer) {
    for (const model::StateTensor& entry : model::state_tensors()) {
      found(layer, entry.tensor,
            concat("sequences.", sequence, ".layers.", layer, ".", entry.name));
    }
  }
}

SavedState parse(const json& j, const checkpoint::SafetensorsFile& file) {
  SavedState saved;
  const json& owner = j.at("owner");
  saved.owner = {owner.at("model"), owner.at("config_hash"),
                 owner.at("weights_hash"), owner.at("tokenizer_hash"),
                 owner.at("dtype")};
  saved.sampling = sampling_of(j.at("sampling"));
  j.at("stop").get_to(saved.stops);
  std::size_t tensors = 0;
  for (const json& entry : j.at("sequences")) {
    const std::size_t i = saved.sequences.size();
    std::size_t layers = 0;
    SequenceState s = sequence_of(entry, layers);
    s.feed = ids_of(file.tensor(ids_name(i, "feed")), file.path());
    s.seen = ids_of(file.tensor(ids_name(i, "seen")), file.path());
    tensors += 2;
    s.state.layers.resize(layers);
    for_each_tensor(i, layers,
                    [&](std::size_t layer, auto member, const auto& name) {
                      if (!file.contains(name)) return;
                      const TensorView& view = file.tensor(name);
                      s.state.layers[layer].*member =
                          at::from_blob(view.data, view.shape,
                                        ops::scalar_type_of(view.dtype))
                              .clone();
                      ++tensors;
                    });
    if (s.feed.empty()) fail(file.path(), "a sequence has no id to be fed");
    if (s.index != i) fail(file.path(), "its sequences are not in order");
    saved.sequences.push_back(std::move(s));
  }
  if (saved.sequences.empty()) fail(file.path(), "it holds no sequence");
  if (tensors != file.tensors().size()) {
    fail(file.path(), concat("it has ", file.tensors().size(),
                             " tensors, of which ", tensors, " are known"));
  }
  return saved;
}

std::string state_json(const SavedState& saved) {
  const StateOwner& owner = saved.owner;
  json sequences = json::array();
  for (const SequenceState& s : saved.sequences) {
    sequences.push_back(sequence_json(s));
  }
  const json all = {{"owner",
                     {{"model", owner.model},
                      {"config_hash", owner.config_hash},
                      {"weights_hash", owner.weights_hash},
                      {"tokenizer_hash", owner.tokenizer_hash},
                      {"dtype", owner.dtype}}},
                    {"sampling", sampling_json(saved.sampling)},
                    {"stop", saved.stops},
                    {"sequences", std::move(sequences)}};
  return all.dump();
}

/// Under another name until it is whole and on disk.
void write_atomic(const fs::path& path, const std::vector<TensorView>& views,
                  const checkpoint::Metadata& metadata) {
  fs::path fresh = path;
  fresh += concat(".tmp-", ::getpid());
  try {
    checkpoint::write_safetensors(fresh, views, metadata);
    rename_synced(fresh, path);
  } catch (...) {
    std::error_code ignored;
    fs::remove(fresh, ignored);
    throw;
  }
}

}  // namespace

void save_state(const fs::path& path, const SavedState& saved) {
  ops::HostTensors tensors;
  std::vector<TensorView> views;
  for (std::size_t i = 0; i < saved.sequences.size(); ++i) {
    const SequenceState& s = saved.sequences[i];
    views.push_back(view_of_ids(ids_name(i, "feed"), s.feed));
    views.push_back(view_of_ids(ids_name(i, "seen"), s.seen));
    for_each_tensor(i, s.state.layers.size(),
                    [&](std::size_t layer, auto member, const auto& name) {
                      const at::Tensor& tensor = s.state.layers[layer].*member;
                      if (tensor.defined()) {
                        tensors.add(name, tensor.contiguous());
                      }
                    });
  }
  views.insert(views.end(), tensors.views().begin(), tensors.views().end());
  if (const auto bad = checkpoint::find_non_finite(views)) {
    throw Error(concat("the state is not saved: ", bad->tensor, " has ",
                       bad->value, " at element ", bad->index));
  }
  const std::string text = state_json(saved);
  write_atomic(path, views,
               {{kFormatKey, kFormat},
                {kStateKey, text},
                {kChecksumKey, checksum(text, views)}});
}

SavedState load_state(const fs::path& path) {
  const checkpoint::SafetensorsFile file(path);
  const checkpoint::Metadata& metadata = file.metadata();
  const auto value = [&](const char* key) {
    const auto found = metadata.find(key);
    if (found == metadata.end()) {
      fail(path, concat("its metadata have no ", key,
                        "; expected a file of osdn-generate --save-state"));
    }
    return found->second;
  };
  const std::string format = value(kFormatKey);
  if (format != kFormat) {
    fail(path,
         concat("its format is ", format, ", this program reads ", kFormat));
  }
  const std::string text = value(kStateKey);
  if (checksum(text, file.tensors()) != value(kChecksumKey)) {
    fail(path, "its checksum does not fit; the file is damaged");
  }
  try {
    return parse(json::parse(text), file);
  } catch (const json::exception& error) {
    fail(path,
         concat("its metadata ", kStateKey, " are not sound: ", error.what()));
  }
}

void check_owner(const StateOwner& saved, const StateOwner& now,
                 const fs::path& path) {
  const auto check = [&](const char* what, const std::string& then,
                         const std::string& here) {
    if (then == here) return;
    fail(path, concat("was saved with ", what, " ", then, " (", saved.model,
                      "), this one has ", here,
                      "; a state goes on with its own model only"));
  };
  check("the model configuration", saved.config_hash, now.config_hash);
  check("the weights", saved.weights_hash, now.weights_hash);
  check("the tokenizer", saved.tokenizer_hash, now.tokenizer_hash);
  check("dtype", saved.dtype, now.dtype);
}

}  // namespace osdn::generate
