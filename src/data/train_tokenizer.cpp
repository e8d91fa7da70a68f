#include "osdn/data/train_tokenizer.h"

#include <chrono>
#include <optional>

#include "osdn/core/concat.h"
#include "osdn/core/error.h"
#include "osdn/core/file.h"
#include "osdn/core/narrow.h"
#include "osdn/core/path.h"
#include "osdn/report/format.h"
#include "osdn/report/live_line.h"
#include "osdn/report/progress.h"

namespace osdn::data {

namespace {

using Clock = std::chrono::steady_clock;

std::string begin_of_learning(const tokenizer::TrainOptions& options,
                              const tokenizer::SampleSize& size) {
  const auto short_form = [](std::int64_t count) {
    return report::format_si(static_cast<double>(count));
  };
  return concat(
      "learning ", options.vocab_size, " pieces from ", short_form(size.kept),
      " sentences, ", short_form(size.bytes), "B",
      size.kept < size.seen
          ? concat(" (a sample of ", short_form(size.seen), " sentences)")
          : std::string(),
      "; nothing is printed until that is done, seconds for megabytes, minutes "
      "for gigabytes");
}

}  // namespace

tokenizer::Tokenizer train_tokenizer(const TrainTokenizerOptions& options) {
  if (!options.overwrite && is_there(options.output)) {
    throw Error(concat(options.output.string(),
                       ": exists already; choose another output or give "
                       "--overwrite to replace it"),
                ExitCode::kUsage);
  }
  check_creatable(options.output);
  TextReader reader(text_files(options.inputs), options.text);
  std::optional<report::Progress> progress;
  if (options.progress) {
    progress.emplace(report::ProgressOptions{
        .label = "read",
        .unit = "B",
        .total = narrow<std::int64_t>(reader.bytes_total())});
  }
  const auto next_text = [&](std::string& text) {
    const std::optional<RawDocument> document = reader.next();
    if (document) {
      text = reader.text_of(*document);
    }
    if (progress) {
      progress->update(narrow<std::int64_t>(reader.bytes_done()));
    }
    return document.has_value();
  };
  Clock::time_point learning;
  const auto on_sample = [&](const tokenizer::SampleSize& size) {
    learning = Clock::now();
    if (progress) {
      progress->finish();
      progress.reset();
      report::LiveLine().print(begin_of_learning(options.train, size));
    }
  };
  const std::string model =
      tokenizer::train(options.train, next_text, on_sample);
  write_file_atomic(options.output, model);
  if (options.progress) {
    const std::chrono::duration<double> seconds = Clock::now() - learning;
    report::LiveLine().print(
        concat("learned in ", report::format_duration(seconds.count())));
  }
  return tokenizer::Tokenizer(options.output);
}

}  // namespace osdn::data
