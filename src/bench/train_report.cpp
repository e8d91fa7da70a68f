#include "osdn/bench/train_report.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "osdn/core/concat.h"
#include "osdn/report/format.h"
#include "osdn/report/table.h"

namespace osdn::bench {
namespace {

using nlohmann::ordered_json;
using report::Align;
using report::format_fixed;

std::string milliseconds(double seconds) {
  return format_fixed(seconds * 1e3, 1);
}

std::string percent(double share) {
  return concat(format_fixed(100 * share, 1), " %");
}

std::string gib(std::int64_t bytes) {
  return bytes > 0 ? format_fixed(static_cast<double>(bytes) / (1 << 30), 1)
                   : "n/a";
}

ordered_json to_json(const RankStep& rank, bool linked) {
  ordered_json out = {{"step_s", rank.step_s}, {"update_s", rank.update_s}};
  if (linked) {
    out["gradients_wait_s"] = rank.gradients_wait_s;
    out["weights_wait_s"] = rank.weights_wait_s;
  }
  out["memory_bytes"] = rank.memory_bytes;
  out["host_share"] = rank.host_share;
  return out;
}

}  // namespace

std::string TrainReport::Entry::exchange() const {
  switch (speed.company) {
    case Company::kAlone:
      return "none";
    case Company::kBeside:
      return "none, all at once";
    case Company::kLinked:
      break;
  }
  return concat(dist.shard_optimizer ? "sharded " : "whole ", dist.reduce_dtype,
                ", ", dist.bucket_mb, " MB, ", speed.exchange);
}

void TrainReport::add(const config::LoadRequest& asked,
                      const config::Config& config, const TrainSpeed& speed) {
  Entry entry{asked, config.dist, speed};
  if (speed.company == Company::kLinked) {
    for (const Entry& before : entries_) {
      const double step_s = before.speed.step_s();
      if (before.speed.company == Company::kAlone) {
        entry.first_alone_s = entry.slowest_apart_s = step_s;
      } else if (before.speed.company == Company::kBeside) {
        entry.slowest_apart_s = step_s;
      }
    }
  }
  entries_.push_back(std::move(entry));
}

std::optional<double> TrainReport::utilisation(const TrainSpeed& speed) const {
  if (!peak_flops_ || speed.device != "cuda") return {};
  return speed.flops_per_token * speed.tokens_per_s() / *peak_flops_;
}

std::string TrainReport::speeds() const {
  report::Table table({{"configuration", Align::kLeft},
                       {"parameters"},
                       {"compute", Align::kLeft},
                       {"ranks"},
                       {"exchange", Align::kLeft},
                       {"tokens a rank"},
                       {"step ms"},
                       {"tokens/s a rank"},
                       {"of rank 0 alone"},
                       {"of the slowest"},
                       {"memory GiB"},
                       {"model FLOP utilisation"}});
  for (const Entry& entry : entries_) {
    const TrainSpeed& speed = entry.speed;
    const double step_s = speed.step_s();
    const auto against = [&](double other_s) {
      return other_s > 0 ? percent(other_s / step_s) : "";
    };
    const std::optional<double> used = utilisation(speed);
    table.add_row({entry.asked.config, std::to_string(speed.parameters),
                   concat(speed.device, " ", speed.dtype),
                   std::to_string(speed.ranks.size()), entry.exchange(),
                   speed.micro_batches == 1
                       ? std::to_string(speed.tokens_per_step)
                       : concat(speed.micro_batches, " x ",
                                speed.tokens_per_step / speed.micro_batches),
                   milliseconds(step_s),
                   report::format_si(speed.tokens_per_s()),
                   against(entry.first_alone_s), against(entry.slowest_apart_s),
                   gib(speed.memory_bytes()), used ? percent(*used) : "n/a"});
  }
  return table.text();
}

std::string TrainReport::ranks() const {
  report::Table table({{"configuration", Align::kLeft},
                       {"exchange", Align::kLeft},
                       {"rank"},
                       {"step ms"},
                       {"waits for gradients ms"},
                       {"for weights ms"},
                       {"update ms"},
                       {"", Align::kLeft}});
  for (const Entry& entry : entries_) {
    const TrainSpeed& speed = entry.speed;
    const bool linked = speed.company == Company::kLinked;
    for (std::size_t i = 0; i < speed.ranks.size(); ++i) {
      const RankStep& rank = speed.ranks[i];
      table.add_row({entry.asked.config, entry.exchange(), std::to_string(i),
                     milliseconds(rank.step_s),
                     linked ? milliseconds(rank.gradients_wait_s) : "",
                     linked ? milliseconds(rank.weights_wait_s) : "",
                     milliseconds(rank.update_s),
                     speed.ranks.size() == 1 ? ""
                     : i == speed.slowest()  ? "slowest"
                     : i == speed.fastest()  ? "fastest"
                                             : ""});
    }
  }
  return table.text();
}

std::string TrainReport::text() const {
  const bool several =
      std::any_of(entries_.begin(), entries_.end(), [](const Entry& entry) {
        return entry.speed.company != Company::kAlone;
      });
  return several ? concat(speeds(), "\n", ranks()) : speeds();
}

ordered_json TrainReport::row(const Entry& entry) const {
  const TrainSpeed& speed = entry.speed;
  const bool linked = speed.company == Company::kLinked;
  const std::optional<double> used = utilisation(speed);
  ordered_json row = {
      {"config", entry.asked.config},
      {"set", entry.asked.overrides},
      {"parameters", speed.parameters},
      {"ranks", linked ? speed.ranks.size() : 1},
      {"tokens_per_step", speed.tokens_per_step},
      {"micro_batches", speed.micro_batches},
      {"document_tokens", speed.document_tokens},
      {"device", speed.device},
      {"dtype", speed.dtype},
      {"step_s", speed.step_s()},
      {"tokens_per_s", speed.tokens_per_s()},
      {"memory_bytes", speed.memory_bytes()},
      {"flops_per_token", speed.flops_per_token},
      {"model_flop_utilisation", used ? ordered_json(*used) : ordered_json()},
      {"loss_first", speed.loss_first},
      {"loss_last", speed.loss_last},
      {"steps", speed.steps}};
  if (speed.company == Company::kBeside) {
    row["ranks_at_once"] = speed.ranks.size();
  }
  if (linked) {
    row["hosts"] = static_cast<int>(speed.ranks.size()) / place_.local_size;
    row["shard_optimizer"] = entry.dist.shard_optimizer;
    row["reduce_dtype"] = entry.dist.reduce_dtype;
    row["bucket_mb"] = entry.dist.bucket_mb;
    row["exchange"] = speed.exchange;
    row["one_rank_step_s"] = entry.first_alone_s;
    row["slowest_apart_step_s"] = entry.slowest_apart_s;
    row["exposed_share"] = 1 - entry.slowest_apart_s / speed.step_s();
  }
  if (speed.company != Company::kAlone) {
    row["fastest_rank"] = speed.fastest();
    row["slowest_rank"] = speed.slowest();
  }
  for (const RankStep& rank : speed.ranks) {
    row["of_ranks"].push_back(to_json(rank, linked));
  }
  return row;
}

ordered_json TrainReport::json() const {
  ordered_json rows = ordered_json::array();
  for (const Entry& entry : entries_) rows.push_back(row(entry));
  return rows;
}

}  // namespace osdn::bench
