#include "osdn/data/pack_ids.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "osdn/core/concat.h"
#include "osdn/core/error.h"
#include "osdn/core/json_text.h"
#include "osdn/data/text_reader.h"
#include "osdn/data/token_shard.h"
#include "output_folder.h"
#include "shard_set_writer.h"

namespace osdn::data {

namespace {

using nlohmann::json;

struct Ids {
  std::vector<std::int32_t> tokens;
  std::vector<std::int64_t> labels;
};

/// One line of a file, for messages.
class Place {
 public:
  Place(const TextReader& reader, const RawDocument& document)
      : text_(concat(reader.files()[document.file].string(), ":",
                     document.line)) {}

  template <typename... Pieces>
  [[noreturn]] void refuse(const Pieces&... pieces) const {
    throw Error(concat(text_, ": ", pieces...), ExitCode::kBadInput);
  }

 private:
  std::string text_;
};

/// The integers of a field: ids below `vocab`, or `none` if that is negative.
std::vector<std::int64_t> integers(const json& line, const char* field,
                                   std::int64_t vocab, std::int64_t none,
                                   const Place& place) {
  const auto found = line.find(field);
  if (found == line.end() || !found->is_array()) {
    place.refuse("expected \"", field, "\", an array of ids");
  }
  std::vector<std::int64_t> out;
  for (const json& value : *found) {
    // What no 64 bits with a sign hold would turn into another number.
    const bool integer = value.is_number_integer() &&
                         (!value.is_number_unsigned() ||
                          value.get<std::uint64_t>() <= std::uint64_t{1} << 62);
    const std::int64_t id = integer ? value.get<std::int64_t>() : -1;
    if (!integer || ((id < 0 || id >= vocab) && !(none < 0 && id == none))) {
      place.refuse("\"", field, "\" holds ", value.dump(),
                   ", expected a whole number from 0 to ", vocab - 1,
                   none < 0 ? concat(" or ", none) : std::string());
    }
    out.push_back(id);
  }
  return out;
}

Ids parse(const RawDocument& document, std::int64_t vocab, bool labelled,
          const Place& place) {
  json line;
  std::vector<RepeatedKey> repeated;
  try {
    line = parse_json(document.bytes, repeated);
  } catch (const json::exception& error) {
    place.refuse("is not JSON: ", error.what());
  }
  if (!line.is_object()) place.refuse("is not a JSON object");
  if (!repeated.empty()) {
    place.refuse("the key \"", repeated.front().key,
                 "\" is there more than once; expected it once");
  }
  if (line.contains("labels") != labelled) {
    place.refuse(labelled ? "has no \"labels\", the lines before it have some"
                          : "has \"labels\", the lines before it have none");
  }
  Ids ids;
  const auto tokens = integers(line, "tokens", vocab, 0, place);
  if (tokens.empty()) place.refuse("\"tokens\" is empty");
  ids.tokens.assign(tokens.begin(), tokens.end());
  if (labelled) {
    ids.labels = integers(line, "labels", vocab, kNoLabel, place);
    if (ids.labels.size() != ids.tokens.size()) {
      place.refuse(ids.labels.size(), " labels for ", ids.tokens.size(),
                   " tokens; expected one for each");
    }
  }
  return ids;
}

bool has_labels(const RawDocument& document) {
  // What is wrong with the line is said where it is read.
  const json line = json::parse(document.bytes, nullptr, false);
  return line.is_object() && line.contains("labels");
}

}  // namespace

PackIdsResult pack_ids(const PackIdsOptions& options) {
  constexpr std::int64_t kMostIds = std::int64_t{1} << 31;
  if (options.vocab_size < 1 || options.vocab_size > kMostIds) {
    throw Error(
        concat("--vocab-size is ", options.vocab_size, "; expected 1 to 2^31"),
        ExitCode::kUsage);
  }
  if (options.shard_tokens == 0) {
    throw Error("shards of 0 tokens; expected at least 1", ExitCode::kUsage);
  }
  const std::vector<std::filesystem::path> files = text_files(options.inputs);
  for (const std::filesystem::path& file : files) {
    if (file.filename().string().find(".jsonl") == std::string::npos) {
      throw Error(
          concat(file.string(), ": expected a .jsonl file of token ids"),
          ExitCode::kUsage);
    }
  }
  TextReader reader(files, {});
  ShardHeader description;
  description.vocab_size = static_cast<std::uint64_t>(options.vocab_size);
  OutputFolder folder(options.output, options.overwrite);
  ShardSetWriter writer(folder.working_path(), description,
                        options.shard_tokens);
  PackIdsResult result;
  bool labelled = false;
  while (const auto document = reader.next()) {
    if (result.documents == 0) labelled = has_labels(*document);
    const Ids ids = parse(*document, options.vocab_size, labelled,
                          Place(reader, *document));
    writer.add_document(ids.tokens, ids.labels);
    ++result.documents;
    result.tokens += ids.tokens.size();
    result.labels += static_cast<std::uint64_t>(
        std::count_if(ids.labels.begin(), ids.labels.end(),
                      [](std::int64_t label) { return label != kNoLabel; }));
  }
  if (result.documents == 0) {
    throw Error(
        concat(files.empty() ? std::string("no input") : files.front().string(),
               ": the input holds no document"),
        ExitCode::kBadInput);
  }
  result.shards = writer.finish();
  folder.commit();
  return result;
}

}  // namespace osdn::data
