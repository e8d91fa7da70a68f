#include "osdn/data/train_tokenizer.h"

#include <optional>

#include "osdn/core/concat.h"
#include "osdn/core/error.h"
#include "osdn/core/file.h"
#include "osdn/core/narrow.h"
#include "osdn/report/progress.h"

namespace osdn::data {

tokenizer::Tokenizer train_tokenizer(const TrainTokenizerOptions& options) {
  if (!options.overwrite && std::filesystem::exists(options.output)) {
    throw Error(concat(options.output.string(),
                       ": exists already; choose another output or give "
                       "--overwrite to replace it"),
                ExitCode::kUsage);
  }
  TextReader reader(text_files(options.inputs), options.text);
  std::optional<report::Progress> progress;
  if (options.progress) {
    progress.emplace(report::ProgressOptions{
        .label = "read",
        .unit = "B",
        .total = narrow<std::int64_t>(reader.bytes_total())});
  }
  const std::string model =
      tokenizer::train(options.train, [&](std::string& text) {
        const std::optional<RawDocument> document = reader.next();
        if (document) {
          text = reader.text_of(*document);
        }
        if (progress) {
          progress->update(narrow<std::int64_t>(reader.bytes_done()));
          if (!document) {
            progress->finish();
          }
        }
        return document.has_value();
      });
  write_file_atomic(options.output, model);
  return tokenizer::Tokenizer(options.output);
}

}  // namespace osdn::data
