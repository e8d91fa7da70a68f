#include "osdn/arch/dry_run.h"

#include <algorithm>
#include <cstdio>
#include <set>
#include <string_view>
#include <vector>

#include "osdn/arch/estimate.h"
#include "osdn/arch/memory.h"
#include "osdn/arch/parameter_table.h"
#include "osdn/config/reader.h"
#include "osdn/config/schedule.h"
#include "osdn/core/concat.h"

namespace osdn::arch {

namespace {

using config::Config;

// As their drivers say.
constexpr double kH100Bytes = 79.1 * 1024 * 1024 * 1024;
constexpr double kH200Bytes = 139.8 * 1024 * 1024 * 1024;

std::string left(std::string text, std::size_t width) {
  text.resize(std::max(width, text.size()), ' ');
  return text;
}

std::string right(const std::string& text, std::size_t width) {
  return std::string(width > text.size() ? width - text.size() : 0, ' ') + text;
}

std::string row(std::string_view name, const std::string& value,
                std::string_view remark = "") {
  return concat("  ", left(std::string(name), 16), right(value, 16),
                remark.empty() ? "" : "  ", remark, "\n");
}

std::string fixed(double value, int digits) {
  char text[64];
  std::snprintf(text, sizeof(text), "%.*f", digits, value);
  return text;
}

std::string scientific(double value) {
  char text[64];
  std::snprintf(text, sizeof(text), "%.4e", value);
  return text;
}

std::string bytes_text(double bytes) {
  constexpr double kMiB = 1024.0 * 1024.0;
  return bytes < 1024 * kMiB ? fixed(bytes / kMiB, 1) + " MiB"
                             : fixed(bytes / (1024 * kMiB), 2) + " GiB";
}

std::string parameters_text(const std::vector<Parameter>& table) {
  const Counts counts = count_parameters(table);
  std::string out = "Parameters\n";
  for (std::size_t part = 0; part < kNumParts; ++part) {
    if (counts.by_part[part] > 0) {
      out += row(name_of(static_cast<Part>(part)),
                 with_separators(counts.by_part[part]));
    }
  }
  return out + row("total", with_separators(counts.total)) +
         concat("  total_parameters = ", counts.total, "\n");
}

// The two groups of AdamW, with the kinds of parameter in the one that is free.
std::string decay_text(const Config& config,
                       const std::vector<Parameter>& table) {
  std::int64_t decayed = 0;
  std::int64_t exempt = 0;
  std::size_t decayed_tensors = 0;
  std::size_t exempt_tensors = 0;
  std::set<std::string> exempt_kinds;
  for (const Parameter& parameter : table) {
    if (is_decayed(parameter, config.optimizer.decay_exempt)) {
      decayed += parameter.numel();
      ++decayed_tensors;
      continue;
    }
    exempt += parameter.numel();
    ++exempt_tensors;
    // "model.layers.3.attn.A_log" -> "attn.A_log".
    const std::string layers = "model.layers.";
    std::string kind = parameter.name;
    if (kind.starts_with(layers)) {
      kind = kind.substr(kind.find('.', layers.size()) + 1);
    }
    exempt_kinds.insert(kind);
  }
  std::string out = concat("Weight decay ", config.optimizer.weight_decay, "\n",
                           row("decayed", with_separators(decayed),
                               concat("in ", decayed_tensors, " tensors")),
                           row("exempt", with_separators(exempt),
                               concat("in ", exempt_tensors, " tensors",
                                      exempt_kinds.empty() ? "" : ":")));
  for (const std::string& kind : exempt_kinds) {
    out += concat("    ", kind, "\n");
  }
  return out;
}

struct Place {
  Machine machine;
  Compute compute;
};

// Where and in what precision the run may compute: "auto" depends on the
// machine.
std::vector<Place> places_of(const config::TrainingConfig& training) {
  std::vector<Place> places;
  const std::string& dtype = training.dtype;
  if (training.device != "cuda" && dtype != "bf16") {
    places.push_back(
        {Machine::kCpu, dtype == "fp64" ? Compute::kF64 : Compute::kF32});
  }
  if (training.device != "cpu" && dtype != "fp64") {
    places.push_back(
        {Machine::kGpu, dtype == "fp32" ? Compute::kF32 : Compute::kBF16});
  }
  return places;
}

// Whether it fits: this machine's GPU, or without one those that are known.
std::string fit_text(const Memory& memory, const Config& config,
                     const GpuFound& gpu) {
  const double bytes = memory.total() + memory.program;
  const std::string advice =
      concat("; ", memory_advice(config.training), ".\n");
  const auto holds = [](double has) {
    return concat("(", bytes_text(has), ")");
  };
  if (gpu.memory_bytes > 0) {
    const auto has = static_cast<double>(gpu.memory_bytes);
    return bytes > has ? concat("  Warning: more than this machine's ",
                                gpu.name, " holds ", holds(has), advice)
                       : "";
  }
  if (bytes > kH200Bytes) {
    return concat("  Warning: more than an H200 holds ", holds(kH200Bytes),
                  advice);
  }
  return bytes > kH100Bytes
             ? concat("  Warning: more than an H100 of 80 GB holds ",
                      holds(kH100Bytes), ", an H200 has room; for the former ",
                      memory_advice(config.training), ".\n")
             : "";
}

std::string memory_text(const Config& config, int ranks, const GpuFound& gpu) {
  std::string out;
  for (const auto& [machine, compute] : places_of(config.training)) {
    const Pass pass = pass_of(config, machine, compute, ranks);
    const Memory memory =
        ranks == 0
            ? estimate_memory(config.model, pass)
            : estimate_rank_memory(config.model, config.dist, pass, ranks);
    const std::string whose =
        ranks == 0
            ? ""
            : concat(" of each of ", ranks, " ranks, optimizer ",
                     config.dist.shard_optimizer ? "sharded" : "on every one",
                     ",");
    out += concat(
        "Memory", whose, " on ", name_of(machine), ", estimated, computing in ",
        name_of(compute), " on micro-batches of ", with_separators(pass.tokens),
        " tokens\n", row("weights", bytes_text(memory.weights)),
        row("gradients", bytes_text(memory.gradients)),
        ranks == 0 ? "" : row("exchange", bytes_text(memory.buckets)),
        row("optimizer", bytes_text(memory.optimizer)),
        row("activations", bytes_text(memory.activations)),
        row("temporaries", bytes_text(memory.temporaries),
            concat("at the fullest, ", memory.moment)),
        row("total", bytes_text(memory.total())),
        row("beside", bytes_text(memory.program),
            machine == Machine::kGpu
                ? "CUDA and unused pieces, an allowance"
                : "the program and unused pieces, an allowance"),
        machine == Machine::kGpu ? fit_text(memory, config, gpu) : "", "\n");
  }
  return out;
}

std::string work_text(const Config& config, int ranks) {
  const bool documents = config.data.packing == "documents";
  const std::int64_t tokens =
      config.training.global_batch * config.data.sequence_length;
  const std::string at_most = documents ? "at most " : "";
  const Flops flops = flops_per_token(config.model, config.data.context_length);
  const std::int64_t micro_batches =
      config.training.global_batch / config.training.micro_batch;
  std::string out = concat(
      "Tokens a step: ", at_most, with_separators(tokens), " (",
      config.training.global_batch, " rows of ",
      with_separators(config.data.sequence_length), ", ", micro_batches,
      " micro-batches",
      ranks == 0 ? "" : concat(", ", micro_batches / ranks, " on each rank"),
      ")\n", "Tokens in all: ", at_most,
      with_separators(tokens * config.training.steps), " in ",
      with_separators(config.training.steps), " steps\n");
  if (documents) {
    out += "  Rows end between documents, so some places stay empty.\n";
  }
  out += concat("\nArithmetic: ", scientific(flops.total()),
                " FLOP a token, forward and backward\n  = ", flops_formula(),
                "\n", row("matrices", scientific(flops.matrices)));
  if (!config.model.is_transformer()) {
    out += concat(row("recurrence", scientific(flops.recurrence)),
                  row("convolution", scientific(flops.convolution)),
                  row("preconditioner", scientific(flops.preconditioner)));
  }
  if (flops.softmax > 0) {
    out += row("softmax", scientific(flops.softmax),
               concat("in documents of ", config.data.context_length,
                      " tokens, less in shorter ones"));
  }
  return out;
}

std::string schedule_text(const Config& config) {
  const config::ScheduleConfig& schedule = config.schedule;
  const std::int64_t steps = config.training.steps;
  const bool constant = schedule.kind == "constant";
  const std::int64_t length = constant ? steps : schedule.total_steps;
  std::set<std::int64_t> samples = {0, steps - 1};
  for (const std::int64_t step :
       {schedule.warmup_steps / 2, schedule.warmup_steps - 1, length / 4,
        length / 2, length / 4 * 3, length - schedule.decay_steps,
        length - 1}) {
    if (step >= 0 && step < steps) {
      samples.insert(step);
    }
  }
  std::string out = concat("Learning rate: ", schedule.kind);
  if (!constant) {
    out += concat(" over ", with_separators(length), " steps");
  }
  out += concat(", warm-up ", with_separators(schedule.warmup_steps), "\n");
  if (!constant && steps != length) {
    out += concat("  Training stops after ", with_separators(steps), " steps, ",
                  steps < length ? "before" : "past", " the schedule's end.\n");
  }
  for (const std::int64_t step : samples) {
    out += row(
        concat("step ", with_separators(step)),
        scientific(config::learning_rate(schedule, config.optimizer.lr, step)));
  }
  return out;
}

}  // namespace

std::string with_separators(std::int64_t number) {
  std::string digits = concat(number);
  const std::size_t first = number < 0 ? 1 : 0;
  for (std::size_t at = digits.size(); at > first + 3;) {
    at -= 3;
    digits.insert(at, 1, ',');
  }
  return digits;
}

std::string dry_run_report(const Config& config, int ranks,
                           const GpuFound& gpu) {
  const std::vector<Parameter> table = parameter_table(config.model);
  return concat("Configuration\n", config::to_json(config), "\n",
                parameters_text(table), "\n", decay_text(config, table), "\n",
                memory_text(config, ranks, gpu), work_text(config, ranks), "\n",
                schedule_text(config));
}

}  // namespace osdn::arch
