#include "osdn/data/loader.h"

#include <utility>

#include "deal.h"
#include "osdn/core/concat.h"
#include "osdn/core/error.h"
#include "osdn/core/hash.h"
#include "osdn/core/narrow.h"
#include "prefetch.h"

namespace osdn::data {

namespace {

void check(const LoaderOptions& options, std::int64_t first_sample) {
  check(options.packing);
  const auto refuse = [](const auto&... pieces) {
    throw Error(concat(pieces...), ExitCode::kUsage);
  };
  if (options.epochs < 0 || options.prefetch_steps < 0 || first_sample < 0) {
    refuse("epochs ", options.epochs, ", prefetch_steps ",
           options.prefetch_steps, ", first sample ", first_sample,
           "; expected at least 0 for each");
  }
  if (options.micro_batch < 1 || options.world_size < 1 || options.rank < 0 ||
      options.rank >= options.world_size) {
    refuse("micro_batch ", options.micro_batch, ", rank ", options.rank, " of ",
           options.world_size,
           "; expected at least one row and rank 0 to world size - 1");
  }
  const std::int64_t group = options.world_size * options.micro_batch;
  if (options.global_batch < 1 || options.global_batch % group != 0) {
    refuse("global_batch ", options.global_batch,
           " is not a multiple of world size * micro_batch = ",
           options.world_size, " * ", options.micro_batch, "; use ", group,
           ", ", 2 * group, ", ", 3 * group, ", ...");
  }
}

// Makes one step after another.
class StepMaker {
 public:
  StepMaker(std::shared_ptr<const TokenDataset> dataset,
            const LoaderOptions& options, std::int64_t first_sample)
      : dataset_(std::move(dataset)),
        options_(options),
        index_(*dataset_, options.packing, options.order),
        next_sample_(first_sample) {}

  std::optional<StepBatch> operator()() {
    const std::vector<Row> rows = next_rows();
    if (rows.empty()) {
      return std::nullopt;
    }
    StepBatch step;
    step.first_sample = next_sample_;
    step.next_sample = next_sample_ + static_cast<std::int64_t>(rows.size());
    step.first_epoch = rows.front().epoch;
    step.last_epoch = rows.back().epoch;
    const bool mask = options_.packing.mask_document_end;
    for (const Row& row : rows) {
      step.tokens += count_tokens(row.segments);
      step.valid_labels += count_valid_labels(*dataset_, row.segments, mask);
    }
    const Deal deal = {static_cast<std::int64_t>(rows.size()),
                       options_.micro_batch, options_.world_size};
    for (std::int64_t group = 0; group < deal.groups(); ++group) {
      MicroBatch& micro = step.micro_batches.emplace_back();
      const RowRange share = deal.share(group, options_.rank);
      for (std::int64_t r = share.begin; r < share.end; ++r) {
        append_row(*dataset_, rows[static_cast<std::size_t>(r)].segments, mask,
                   micro);
      }
    }
    next_sample_ = step.next_sample;
    return step;
  }

 private:
  struct Row {
    std::int64_t epoch;
    std::vector<Segment> segments;
  };

  // Of the whole step: every rank needs to know how many labels there are.
  std::vector<Row> next_rows() {
    std::vector<Row> rows;
    for (std::int64_t i = 0; i < options_.global_batch; ++i) {
      const auto sample = static_cast<std::uint64_t>(next_sample_ + i);
      const SamplePlace place = index_.place_of(sample);
      const auto epoch = narrow<std::int64_t>(place.epoch, "epoch");
      if (options_.epochs > 0 && epoch >= options_.epochs) {
        break;
      }
      rows.push_back({epoch, index_.rows_of(place.epoch).segments(place.row)});
    }
    return rows;
  }

  const std::shared_ptr<const TokenDataset> dataset_;
  const LoaderOptions options_;
  SampleIndex index_;
  std::int64_t next_sample_;
};

}  // namespace

struct Loader::State {
  State(std::shared_ptr<const TokenDataset> dataset,
        const LoaderOptions& options, std::int64_t first_sample)
      : maker(std::move(dataset), options, first_sample),
        prefetcher(static_cast<std::size_t>(options.prefetch_steps),
                   [this] { return maker(); }) {}

  StepMaker maker;
  Prefetcher<StepBatch> prefetcher;  // last: its thread uses the maker
};

Loader::Loader(std::shared_ptr<const TokenDataset> dataset,
               const LoaderOptions& options, std::int64_t first_sample) {
  check(options, first_sample);
  state_ = std::make_unique<State>(std::move(dataset), options, first_sample);
}

Loader::~Loader() = default;

std::optional<StepBatch> Loader::next_step() {
  return state_->prefetcher.next();
}

std::string data_fingerprint(const TokenDataset& dataset,
                             const PackingOptions& packing,
                             const OrderOptions& order) {
  // Without shuffling the seed decides nothing.
  return to_hex(xxh3_64(
      concat(to_hex(dataset.content_hash()), " packing ",
             packing.packing == Packing::kDocuments ? "documents" : "stream",
             " context ", packing.context_length, " sequence ",
             packing.sequence_length, " mask ", packing.mask_document_end,
             order.shuffle ? concat(" seed ", order.seed) : std::string())));
}

}  // namespace osdn::data
