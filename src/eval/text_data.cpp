#include "osdn/eval/text_data.h"

#include <utility>

#include "osdn/core/concat.h"
#include "osdn/core/error.h"
#include "osdn/core/file.h"
#include "osdn/core/hash.h"
#include "osdn/core/path.h"
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

bool full(const DataSet& set, const DataOptions& options) {
  return options.limit &&
         static_cast<std::int64_t>(set.documents.size()) >= *options.limit;
}

/// Counted before the detokenisation, read after it.
EvalDocument wikitext_document(const std::string& page) {
  return {detokenise_wikitext(page), count_words(page),
          static_cast<std::int64_t>(page.size())};
}

void require_inputs(const DataOptions& options) {
  if (options.inputs.empty()) {
    throw Error("--data is missing", ExitCode::kUsage);
  }
}

fs::path wikitext_file(const DataOptions& options) {
  require_inputs(options);
  if (options.inputs.size() != 1) {
    throw Error("--data names several files, expected one", ExitCode::kUsage);
  }
  const fs::path& input = options.inputs.front();
  if (!is_folder(input)) {
    return input;
  }
  for (const char* name :
       {"wikitext2_test.raw", "eval/wikitext2_test.raw", "wikitext.jsonl"}) {
    if (is_there(input / name)) return input / name;
  }
  throw Error(concat(input.string(),
                     " holds none of wikitext2_test.raw, "
                     "eval/wikitext2_test.raw and wikitext.jsonl"),
              ExitCode::kBadInput);
}

}  // namespace

DataSet read_text_documents(const DataOptions& options) {
  require_inputs(options);
  data::TextOptions text;
  data::set_split(text, options.split);
  text.field = options.field;
  const auto files = data::text_files(options.inputs);
  DataSet set = describe(files);
  data::TextReader reader(files, text);
  while (!full(set, options)) {
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

DataSet read_wikitext(const DataOptions& options) {
  const fs::path file = wikitext_file(options);
  if (file.extension() == ".jsonl") {
    DataSet set = describe({file});
    data::TextOptions text;
    text.field = "page";
    data::TextReader reader({file}, text);
    while (!full(set, options)) {
      const auto raw = reader.next();
      if (!raw) break;
      set.documents.push_back(wikitext_document(reader.text_of(*raw)));
    }
    return set;
  }
  const std::string raw = read_file(file);
  DataSet set = describe({file});
  for (const std::string& page : split_wikitext(raw)) {
    if (full(set, options)) break;
    set.documents.push_back(wikitext_document(page));
  }
  return set;
}

}  // namespace osdn::eval
