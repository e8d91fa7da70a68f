#include "osdn/data/tokenize_pipeline.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <exception>
#include <optional>
#include <span>
#include <thread>
#include <utility>

#include "osdn/core/concat.h"
#include "osdn/core/error.h"
#include "osdn/core/log.h"
#include "osdn/core/narrow.h"
#include "osdn/core/ordered_workers.h"
#include "osdn/core/threads.h"
#include "osdn/data/token_dataset.h"
#include "osdn/data/token_shard.h"
#include "osdn/report/format.h"
#include "osdn/report/progress.h"
#include "osdn/tokenizer/tokenizer.h"
#include "output_folder.h"
#include "shard_set_writer.h"

namespace osdn::data {

namespace {

constexpr std::uint64_t kBatchBytes = std::uint64_t{256} << 10;
constexpr std::uint64_t kPendingBytes = std::uint64_t{256} << 20;

using Batch = std::vector<RawDocument>;

struct EncodedBatch {
  std::vector<std::int32_t> ids;
  std::vector<std::size_t> lengths;  // of the documents in ids
  std::uint64_t empty_documents = 0;
  std::uint64_t text_bytes = 0;
};

std::optional<std::int32_t> chosen_id(AddId choice, bool automatic,
                                      std::optional<std::int32_t> id,
                                      std::string_view name,
                                      const tokenizer::Tokenizer& tokenizer) {
  if (choice == AddId::kOn && !id) {
    throw Error(concat(tokenizer.path().string(), ": the tokenizer has no ",
                       name, " id; use \"off\" or \"auto\""),
                ExitCode::kUsage);
  }
  const bool add =
      choice == AddId::kOn || (choice == AddId::kAuto && automatic);
  return add ? id : std::nullopt;
}

class Encoder {
 public:
  Encoder(const TextReader& reader, const tokenizer::Tokenizer& tokenizer,
          std::optional<std::int32_t> bos, std::optional<std::int32_t> eos)
      : reader_(reader), tokenizer_(tokenizer), bos_(bos), eos_(eos) {}

  EncodedBatch operator()(const Batch& batch) const {
    EncodedBatch encoded;
    for (const RawDocument& document : batch) {
      const std::string text = reader_.text_of(document);
      encoded.text_bytes += text.size();
      const std::vector<std::int32_t> ids = tokenizer_.encode(text);
      if (ids.empty()) {
        ++encoded.empty_documents;
        continue;
      }
      const std::size_t before = encoded.ids.size();
      if (bos_) {
        encoded.ids.push_back(*bos_);
      }
      encoded.ids.insert(encoded.ids.end(), ids.begin(), ids.end());
      if (eos_) {
        encoded.ids.push_back(*eos_);
      }
      encoded.lengths.push_back(encoded.ids.size() - before);
    }
    return encoded;
  }

 private:
  const TextReader& reader_;
  const tokenizer::Tokenizer& tokenizer_;
  const std::optional<std::int32_t> bos_;
  const std::optional<std::int32_t> eos_;
};

std::size_t thread_count(std::int64_t asked) {
  if (asked < 0 || asked > kMaxThreads) {
    throw Error(concat(asked, " threads; expected 1 to ", kMaxThreads,
                       ", or 0 for all"),
                ExitCode::kUsage);
  }
  if (asked > 0) {
    return static_cast<std::size_t>(asked);
  }
  return std::max(1U, std::thread::hardware_concurrency());
}

// Hands out documents in batches. A fault of the input is kept until all that
// stands before it went through, so that the first fault is the one reported.
class BatchReader {
 public:
  explicit BatchReader(TextReader& reader) : reader_(reader) {}

  bool done() const { return done_; }

  Batch next(std::uint64_t& bytes) {
    Batch batch;
    bytes = 0;
    try {
      while (bytes < kBatchBytes) {
        std::optional<RawDocument> document = reader_.next();
        if (!document) {
          done_ = true;
          break;
        }
        bytes += document->bytes.size();
        batch.push_back(std::move(*document));
      }
    } catch (...) {
      done_ = true;
      fault_ = std::current_exception();
    }
    return batch;
  }

  void rethrow_fault() const {
    if (fault_) {
      std::rethrow_exception(fault_);
    }
  }

 private:
  TextReader& reader_;
  bool done_ = false;
  std::exception_ptr fault_;
};

}  // namespace

AddId add_id_from_name(std::string_view name) {
  if (name == "auto") {
    return AddId::kAuto;
  }
  if (name == "on") {
    return AddId::kOn;
  }
  if (name == "off") {
    return AddId::kOff;
  }
  throw Error(concat("\"", name, "\" is not known; use auto, on or off"),
              ExitCode::kUsage);
}

TokenizeResult tokenize(const TokenizeOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  const std::size_t threads = thread_count(options.threads);
  if (options.shard_tokens == 0) {
    throw Error("shards of 0 tokens; expected at least 1", ExitCode::kUsage);
  }
  const tokenizer::Tokenizer tokenizer(options.tokenizer);
  TextReader reader(text_files(options.inputs), options.text);

  ShardHeader description;
  description.vocab_size = static_cast<std::uint64_t>(tokenizer.vocab_size());
  description.tokenizer_hash = tokenizer.hash();
  description.bos_id =
      chosen_id(options.bos, true, tokenizer.bos_id(), "BOS", tokenizer);
  description.eos_id = chosen_id(options.eos, !description.bos_id,
                                 tokenizer.eos_id(), "EOS", tokenizer);

  OutputFolder folder(options.output, options.overwrite);
  ShardSetWriter writer(folder.working_path(), description,
                        options.shard_tokens);
  std::optional<report::Progress> progress;
  if (options.progress) {
    progress.emplace(report::ProgressOptions{
        .label = "tokenize",
        .unit = "B",
        .total = narrow<std::int64_t>(reader.bytes_total())});
  }

  TokenizeResult result;
  const Encoder encode(reader, tokenizer, description.bos_id,
                       description.eos_id);
  BatchReader batches(reader);
  OrderedWorkers<Batch, EncodedBatch> workers(
      threads, [&](Batch&& batch) { return encode(batch); });
  std::deque<std::uint64_t> pending_bytes;
  std::uint64_t pending_bytes_sum = 0;
  for (;;) {
    while (!batches.done() && workers.pending() < 4 * threads &&
           (pending_bytes_sum < kPendingBytes || workers.pending() == 0)) {
      std::uint64_t bytes = 0;
      workers.submit(batches.next(bytes));
      pending_bytes.push_back(bytes);
      pending_bytes_sum += bytes;
    }
    if (workers.pending() == 0) {
      break;
    }
    const EncodedBatch encoded = workers.take();
    pending_bytes_sum -= pending_bytes.front();
    pending_bytes.pop_front();
    std::span<const std::int32_t> ids = encoded.ids;
    for (const std::size_t length : encoded.lengths) {
      writer.add_document(ids.first(length));
      ids = ids.subspan(length);
    }
    result.documents += encoded.lengths.size();
    result.empty_documents += encoded.empty_documents;
    result.tokens += encoded.ids.size();
    result.text_bytes += encoded.text_bytes;
    if (progress) {
      progress->update(
          narrow<std::int64_t>(reader.bytes_done()),
          concat(report::format_si(static_cast<double>(result.tokens)),
                 " tokens"));
    }
  }
  batches.rethrow_fault();
  if (result.documents == 0) {
    throw Error(
        concat(reader.files().empty() ? std::string("no input")
                                      : reader.files().front().string(),
               ": the input holds no text: ", reader.files().size(), " files, ",
               result.empty_documents, " empty documents and no other"),
        ExitCode::kBadInput);
  }
  result.shards = writer.finish();
  folder.commit();
  if (progress) {
    progress->finish();
  }
  if (result.empty_documents > 0) {
    log::warn(result.empty_documents, " empty documents were left out");
  }
  result.seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
          .count();
  return result;
}

}  // namespace osdn::data
