#include "osdn/bench/collective_speed.h"

#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "osdn/bench/timing.h"
#include "osdn/config/config.h"
#include "osdn/core/concat.h"
#include "osdn/core/error.h"
#include "osdn/core/narrow.h"
#include "osdn/dist/shard_layout.h"
#include "osdn/report/format.h"
#include "osdn/report/table.h"
#include "osdn/train/device_collectives.h"

namespace osdn::bench {
namespace {

using dist::Collectives;

struct Operation {
  const char* name;
  Collectives::Ticket (Collectives::*begin)(const dist::BucketMemory&);
  int passes;  ///< over the bucket
};
constexpr Operation kOperations[] = {
    {"reduce_scatter", &Collectives::sum_to_shards, 1},
    {"all_gather", &Collectives::gather_shards, 1},
    {"all_reduce", &Collectives::sum, 2}};

int passes_of(const CollectiveSpeed& speed) {
  return std::find_if(std::begin(kOperations), std::end(kOperations),
                      [&](const Operation& operation) {
                        return operation.name == speed.operation;
                      })
      ->passes;
}

/// Elements of a rank's shard in a bucket of that size.
std::int64_t shard_of(double megabytes, DType dtype, int ranks) {
  const double elements =
      std::ceil(megabytes * 1e6 / static_cast<double>(size_of(dtype)) / ranks);
  return div_up(static_cast<std::int64_t>(elements), dist::kShardAlignment) *
         dist::kShardAlignment;
}

struct TimedBucket {
  dist::BucketMemory bucket;
  double megabytes;
  at::Tensor memory;
};

std::vector<TimedBucket> make_buckets(at::Device device, int ranks,
                                      const std::vector<double>& sizes) {
  std::vector<TimedBucket> buckets;
  for (const auto& [dtype, type] : {std::pair{DType::kF32, at::kFloat},
                                    std::pair{DType::kBF16, at::kBFloat16}}) {
    for (const double megabytes : sizes) {
      TimedBucket& timed = buckets.emplace_back();
      timed.megabytes = megabytes;
      timed.bucket.dtype = dtype;
      timed.bucket.shard = shard_of(megabytes, dtype, ranks);
      timed.memory = at::zeros({timed.bucket.shard * ranks},
                               at::device(device).dtype(type));
      timed.bucket.data = timed.memory.data_ptr();
    }
  }
  return buckets;
}

void time_exchange(dist::World& world, at::Device device,
                   const std::string& exchange,
                   const CollectiveSpeedOptions& options,
                   std::vector<CollectiveSpeed>& speeds) {
  config::DistConfig config;
  config.gpu_exchange = exchange;
  std::vector<TimedBucket> buckets =
      make_buckets(device, world.place().size, options.megabytes);
  const auto collectives = train::device_collectives(world, device, config);
  std::vector<dist::BucketMemory> memory;
  memory.reserve(buckets.size());
  for (const TimedBucket& timed : buckets) memory.push_back(timed.bucket);
  collectives->reach(memory);
  for (TimedBucket& timed : buckets) {
    dist::BucketMemory& bucket = timed.bucket;
    for (const Operation& operation : kOperations) {
      bucket.what = concat(operation.name, " of ", timed.megabytes, " MB");
      const double mine = median(time_calls(
          [&] { collectives->wait((*collectives.*operation.begin)(bucket)); },
          device, options.warmup, options.runs));
      double slowest = 0;
      for (const auto& rank : world.all_numbers({mine})) {
        slowest = std::max(slowest, rank[0]);
      }
      speeds.push_back({collectives->name(), operation.name, bucket.dtype,
                        static_cast<std::int64_t>(timed.memory.nbytes()),
                        slowest});
    }
  }
}

}  // namespace

std::vector<CollectiveSpeed> time_collectives(
    dist::World& world, at::Device device,
    const CollectiveSpeedOptions& options) {
  if (world.place().alone()) {
    throw Error(
        "there are no other ranks to exchange anything with; start several "
        "with mpirun -n",
        ExitCode::kUsage);
  }
  std::vector<CollectiveSpeed> speeds;
  for (const std::string& exchange : options.gpu_exchanges) {
    time_exchange(world, device, exchange, options, speeds);
  }
  return speeds;
}

std::string collectives_table(const std::vector<CollectiveSpeed>& speeds,
                              const dist::Place& place) {
  report::Table table({{"exchange", report::Align::kLeft},
                       {"operation", report::Align::kLeft},
                       {"type", report::Align::kLeft},
                       {"MB"},
                       {"ms"},
                       {"GB/s"}});
  for (const CollectiveSpeed& speed : speeds) {
    const auto bytes = static_cast<double>(speed.bytes);
    const double sent =
        bytes * passes_of(speed) * (place.size - 1) / place.size;
    table.add_row({speed.exchange, speed.operation,
                   std::string(name_of(speed.dtype)),
                   report::format_fixed(bytes / 1e6, 2),
                   report::format_fixed(speed.seconds * 1e3, 3),
                   report::format_fixed(sent / speed.seconds / 1e9, 2)});
  }
  return table.text();
}

nlohmann::ordered_json collectives_json(
    const std::vector<CollectiveSpeed>& speeds, const dist::Place& place) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const CollectiveSpeed& speed : speeds) {
    rows.push_back({{"exchange", speed.exchange},
                    {"operation", speed.operation},
                    {"dtype", speed.dtype == DType::kBF16 ? "bf16" : "fp32"},
                    {"ranks", place.size},
                    {"hosts", place.size / place.local_size},
                    {"bytes", speed.bytes},
                    {"seconds", speed.seconds}});
  }
  return rows;
}

}  // namespace osdn::bench
