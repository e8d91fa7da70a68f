#include "osdn/eval/text_data.h"

#include <utility>

#include "osdn/core/concat.h"
#include "osdn/core/error.h"
#include "osdn/core/file.h"
#include "osdn/core/hash.h"
#include "osdn/core/path.h"
#include "osdn/core/utf8.h"
#include "osdn/data/text_reader.h"
#include "osdn/eval/wikitext.h"

namespace osdn::eval {
namespace {

namespace fs = std::filesystem;

DataSet describe(const std::vector<fs::path>& files) {
  DataSet set;
  std::string hashes;
  for (const fs::path& file : files) {
    set.name += set.name.empty() ? "" : ",";
    set.name += file.filename().string();
    hashes += sha256_of_file(file);
  }
  set.hash = files.size() == 1 ? hashes : sha256(hashes);
  return set;
}

bool full(const DataSet& set, const std::optional<std::int64_t>& limit) {
  return limit && std::ssize(set.documents) >= *limit;
}

/// Counted before the detokenisation, read after it.
EvalDocument wikitext_document(const std::string& page) {
  return {detokenise_wikitext(page), count_words(page),
          static_cast<std::int64_t>(page.size())};
}

}  // namespace

DataSet read_text_documents(const DataOptions& options) {
  if (options.inputs.empty()) {
    throw Error("--data is missing", ExitCode::kUsage);
  }
  data::TextOptions text;
  data::set_split(text, options.split);
  text.field = options.field;
  const auto files = data::text_files(options.inputs);
  DataSet set = describe(files);
  data::TextReader reader(files, text);
  while (!full(set, options.limit)) {
    const auto raw = reader.next();
    if (!raw) break;
    EvalDocument document{reader.text_of(*raw), 0, 0};
    if (document.text.empty()) {
      ++set.dropped;
      continue;
    }
    document.words = count_words(document.text);
    document.bytes = static_cast<std::int64_t>(document.text.size());
    set.documents.push_back(std::move(document));
  }
  return set;
}

DataSet read_wikitext(const fs::path& file,
                      const std::optional<std::int64_t>& limit) {
  DataSet set = describe({file});
  const std::string name = file.filename().string();
  if (name.ends_with(".jsonl") || name.ends_with(".jsonl.zst")) {
    data::TextOptions text;
    text.field = "page";
    data::TextReader reader({file}, text);
    while (!full(set, limit)) {
      const auto raw = reader.next();
      if (!raw) break;
      set.documents.push_back(wikitext_document(reader.text_of(*raw)));
    }
    return set;
  }
  if (file.extension() == ".zst") {
    throw Error(
        concat(file.string(), ": is compressed; unpack it with zstd -d"),
        ExitCode::kBadInput);
  }
  const std::string raw = read_file(file);
  if (const auto offset = first_invalid_utf8(raw)) {
    throw Error(concat(file.string(), ": offset ", *offset,
                       " is not UTF-8; the file has to be read as it was made"),
                ExitCode::kBadInput);
  }
  for (const std::string& page : split_wikitext(raw)) {
    if (full(set, limit)) break;
    set.documents.push_back(wikitext_document(page));
  }
  return set;
}

}  // namespace osdn::eval
