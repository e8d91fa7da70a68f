#include "osdn/eval/text_data.h"

#include <map>
#include <set>
#include <utility>

#include "in_words.h"
#include "osdn/core/concat.h"
#include "osdn/core/error.h"
#include "osdn/core/file.h"
#include "osdn/core/log.h"
#include "osdn/core/path.h"
#include "osdn/core/utf8.h"
#include "osdn/data/text_reader.h"
#include "osdn/eval/task_data.h"
#include "osdn/eval/task_table.h"
#include "osdn/eval/wikitext.h"

namespace osdn::eval {
namespace {

namespace fs = std::filesystem;

DataSet describe(const std::vector<fs::path>& files) {
  DataSet set;
  std::map<std::string, int> times;
  for (const fs::path& file : files) ++times[file.filename().string()];
  for (const fs::path& file : files) {
    const std::string name = file.filename().string();
    set.name += set.name.empty() ? "" : ",";
    set.name += times[name] > 1 ? file.string() : name;
  }
  set.hash = hash_of_files(files);
  return set;
}

/// Whether the set has all documents that it may have, although there is one
/// more.
bool full(DataSet& set, const std::optional<std::int64_t>& limit) {
  set.limited = limit && std::ssize(set.documents) >= *limit;
  return set.limited;
}

/// Folders may be there for other tasks: of several inputs those count that
/// hold a text.
std::vector<fs::path> with_text(const std::vector<fs::path>& inputs) {
  std::vector<fs::path> some;
  for (const fs::path& input : inputs) {
    if (!is_folder(input) || data::holds_text(input)) some.push_back(input);
  }
  return some.empty() ? inputs : some;
}

/// Of several files the sets of tasks are there for those; none is read twice.
std::vector<fs::path> texts_among(const std::vector<fs::path>& inputs) {
  std::vector<fs::path> texts, sets;
  std::set<fs::path> seen;
  for (const fs::path& file : data::text_files(with_text(inputs))) {
    if (!seen.insert(fs::weakly_canonical(file)).second) continue;
    (has_name_of_set(file) ? sets : texts).push_back(file);
  }
  if (texts.empty()) return sets;
  if (!sets.empty()) {
    std::vector<std::string> names;
    names.reserve(sets.size());
    for (const fs::path& set : sets) names.push_back(set.string());
    log::info("not read as texts, since they have the names of tasks' sets: ",
              in_words(names));
  }
  return texts;
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
  const auto files = texts_among(options.inputs);
  DataSet set = describe(files);
  data::TextReader reader(files, text);
  while (const auto raw = reader.next()) {
    if (full(set, options.limit)) break;
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
    while (const auto raw = reader.next()) {
      if (full(set, limit)) break;
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
