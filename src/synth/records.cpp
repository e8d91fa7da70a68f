#include "osdn/synth/records.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "osdn/core/concat.h"
#include "osdn/core/error.h"
#include "osdn/synth/draw.h"
#include "record_layout.h"
#include "record_pieces.h"

namespace osdn::synth {
namespace {

constexpr std::array<std::pair<RecordMode, std::string_view>, 4> kNames = {
    {{RecordMode::kUnique, "unique"},
     {RecordMode::kSame, "same"},
     {RecordMode::kUpdate, "update"},
     {RecordMode::kScoped, "scoped"}}};

struct Record {
  std::string name;
  ValueKind kind;
  std::vector<std::string> values;   // one a page in `scoped`, else one
  std::vector<std::string> fillers;  // before it, empty: none; like values
};

/// One line of the document.
struct Line {
  std::string key;
  std::string value;
  std::string filler;
};

struct PageOfLines {
  std::string title;
  std::vector<Line> lines;
};

/// One document while it grows: what was drawn for n records stays when there
/// are n + 1.
class Draft {
 public:
  Draft(const RecordOptions& options, const WordLists& words,
        std::uint64_t seed, std::uint64_t index)
      : options_(options),
        pieces_(words, document_stream(seed, "records", index)) {
    Xoshiro256& random = pieces_.random();
    depth_ = (static_cast<double>(index % 10) + random.uniform()) / 10;
    pages_ = draw_between(random, std::max<std::int64_t>(3, copies() + 1),
                          std::max<std::int64_t>(6, copies() + 1));
    if (options.records) {
      pages_ = std::min(pages_, *options.records - copies());
    }
    for (std::int64_t p = 0; p < pages_; ++p)
      titles_.push_back(pieces_.title());
  }

  /// Lines that repeat the queried name.
  std::int64_t copies() const {
    const bool repeats = options_.mode == RecordMode::kSame ||
                         options_.mode == RecordMode::kUpdate;
    return repeats ? options_.repeat - 1 : 0;
  }
  /// One line a page, and the copies.
  std::int64_t least() const { return pages_ + copies(); }

  /// The document of `total` lines. Not counted: tokens.
  RecordDocument document(std::int64_t total) {
    RecordDocument out =
        options_.mode == RecordMode::kScoped ? scoped(total) : named(total);
    out.records = total;
    out.pages = pages_;
    return out;
  }

 private:
  void grow(std::int64_t names) {
    const std::int64_t values =
        options_.mode == RecordMode::kScoped ? pages_ : 1;
    while (static_cast<std::int64_t>(records_.size()) < names) {
      Record record{pieces_.name(), pieces_.kind(), {}, {}};
      for (std::int64_t v = 0; v < values; ++v) {
        record.values.push_back(pieces_.value(record.kind));
        const bool filler = pieces_.random().below(10) < 3;
        record.fillers.push_back(filler ? pieces_.filler() : "");
      }
      records_.push_back(std::move(record));
    }
  }

  /// Pages that share their names: page p has the first so many of them.
  RecordDocument scoped(std::int64_t total) {
    grow((total + pages_ - 1) / pages_);
    const auto labelled =
        static_cast<std::int64_t>(depth_ * static_cast<double>(total));
    RecordDocument out;
    std::vector<PageOfLines> pages;
    std::int64_t place = 0;
    for (std::size_t p = 0; p < titles_.size(); ++p) {
      PageOfLines& page = pages.emplace_back();
      page.title = titles_[p];
      const auto q = static_cast<std::int64_t>(p);
      const std::int64_t count = total * (q + 1) / pages_ - total * q / pages_;
      for (std::int64_t n = 0; n < count; ++n, ++place) {
        const Record& record = records_[static_cast<std::size_t>(n)];
        const Line line{concat(page.title, " - ", record.name),
                        record.values[p], record.fillers[p]};
        if (place == labelled) {
          out.key = line.key;
          out.value = line.value;
        } else {
          out.distractors.push_back(line.value);
        }
        page.lines.push_back(line);
      }
    }
    out.depth = depth_;
    out.text = text_of(pages);
    return out;
  }

  RecordDocument named(std::int64_t total) {
    const std::int64_t names = total - copies();
    grow(names);
    const bool update = options_.mode == RecordMode::kUpdate;
    // The first copy in `same`, the last one in `update`.
    const auto place =
        static_cast<std::int64_t>(depth_ * static_cast<double>(total));
    const std::int64_t queried = std::clamp<std::int64_t>(
        update ? place - copies() : place, 0, names - 1);
    // Anew for each length, so that the records do not depend on it.
    RecordPieces more = pieces_;
    std::vector<Page> layout =
        copies() == 0 ? even_pages(names, pages_)
        : update
            ? reversed(pages_with_copies(names, pages_, names - 1 - queried,
                                         copies(), 1 - depth_, more.random()),
                       names)
            : pages_with_copies(names, pages_, queried, copies(), depth_,
                                more.random());
    const Record& target = records_[static_cast<std::size_t>(queried)];
    RecordDocument out;
    out.key = target.name;
    out.value = target.values.front();
    std::vector<PageOfLines> pages;
    std::int64_t at = 0;
    for (std::size_t p = 0; p < layout.size(); ++p) {
      PageOfLines& page = pages.emplace_back();
      page.title = titles_[p];
      for (const std::int64_t r : layout[p]) {
        if (r == queried) out.depth = depth_of(at, total);
        ++at;
        if (r == kOtherCopy) {
          page.lines.push_back(
              {target.name, update ? more.value(target.kind) : out.value, ""});
          if (update) out.distractors.push_back(page.lines.back().value);
          continue;
        }
        const Record& record = records_[static_cast<std::size_t>(r)];
        page.lines.push_back(
            {record.name, record.values.front(), record.fillers.front()});
        if (!update && r != queried) {
          out.distractors.push_back(record.values.front());
        }
      }
    }
    out.text = text_of(pages);
    return out;
  }

  /// As drawn, unless the copies left no room there.
  double depth_of(std::int64_t place, std::int64_t total) const {
    const double scaled = depth_ * static_cast<double>(total);
    const bool as_drawn = place == static_cast<std::int64_t>(scaled);
    return as_drawn ? depth_
                    : (static_cast<double>(place) + 0.5) /
                          static_cast<double>(total);
  }

  static std::string text_of(const std::vector<PageOfLines>& pages) {
    std::string text;
    for (const PageOfLines& page : pages) {
      text += (text.empty() ? "" : "\n\n") + page.title;
      for (std::size_t i = 0; i < page.lines.size(); ++i) {
        const Line& line = page.lines[i];
        if (i > 0 && !line.filler.empty()) text += "\n" + line.filler;
        text += concat("\n", line.key, ": ", line.value);
      }
    }
    return text;
  }

  const RecordOptions& options_;
  RecordPieces pieces_;
  double depth_ = 0;
  std::int64_t pages_ = 0;
  std::vector<std::string> titles_;
  std::vector<Record> records_;
};

[[noreturn]] void refuse(const std::string& what) {
  throw Error("records: " + what, ExitCode::kUsage);
}

}  // namespace

RecordMode record_mode_from_name(std::string_view name) {
  for (const auto& [mode, spelling] : kNames) {
    if (spelling == name) return mode;
  }
  throw Error(concat("mode '", name,
                     "' is not known; use unique, same, update or scoped"),
              ExitCode::kUsage);
}

std::string_view name_of(RecordMode mode) {
  return std::find_if(kNames.begin(), kNames.end(),
                      [&](const auto& entry) { return entry.first == mode; })
      ->second;
}

RecordGenerator::RecordGenerator(const RecordOptions& options,
                                 const WordLists& words,
                                 const tokenizer::Tokenizer* tokenizer,
                                 std::uint64_t seed)
    : options_(options), words_(words), tokenizer_(tokenizer), seed_(seed) {
  const bool repeats =
      options.mode == RecordMode::kSame || options.mode == RecordMode::kUpdate;
  if (repeats && (options.repeat < 2 || options.repeat > 20)) {
    refuse(concat("a name on ", options.repeat, " pages; expected 2 to 20"));
  }
  const std::int64_t least = repeats ? 2 * options.repeat - 1 : 1;
  if (options.records && *options.records < least) {
    refuse(concat(*options.records,
                  " records in a document; expected at least ", least));
  }
  if (!options.records && options.tokens < 1) {
    refuse(concat("documents of ", options.tokens,
                  " tokens; expected at least 1"));
  }
  if (!options.records && tokenizer == nullptr) {
    refuse(
        "a length in tokens needs a tokenizer (--tokenizer); --records "
        "fixes the number of records instead");
  }
}

RecordDocument RecordGenerator::document(std::uint64_t index) const {
  Draft draft(options_, words_, seed_, index);
  const auto made = [&](std::int64_t records) {
    RecordDocument document = draft.document(records);
    if (tokenizer_ != nullptr) {
      document.tokens =
          static_cast<std::int64_t>(tokenizer_->encode(document.text).size());
    }
    return document;
  };
  if (options_.records) return made(*options_.records);

  RecordDocument best = made(draft.least());
  if (best.tokens > options_.tokens) {
    refuse(concat("document ", index, " has ", best.tokens,
                  " tokens at its smallest, which do not fit --tokens ",
                  options_.tokens));
  }
  // The largest that fits: from what a record has so far, by steps of a
  // quarter, then by halves. Far beyond it the words may not give enough names.
  std::int64_t low = draft.least();
  std::optional<std::int64_t> too_many;
  std::int64_t next = std::max(low + 1, options_.tokens * low / best.tokens);
  while (!too_many || *too_many - low > 1) {
    RecordDocument document = made(next);
    if (document.tokens <= options_.tokens) {
      low = next;
      best = std::move(document);
    } else {
      too_many = next;
    }
    next = too_many ? low + (*too_many - low) / 2
                    : low + std::max<std::int64_t>(1, low / 4);
  }
  return best;
}

std::string training_text(const RecordDocument& document) {
  return concat(document.text, document.text.ends_with('.') ? "" : ".", " ",
                document.key, ": ", document.value);
}

}  // namespace osdn::synth
