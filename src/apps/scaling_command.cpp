#include "scaling_command.h"

#include <CLI/CLI.hpp>
#include <filesystem>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "command_line.h"
#include "osdn/bench/scaling.h"
#include "osdn/bench/scaling_fit.h"
#include "osdn/config/reader.h"
#include "osdn/core/concat.h"
#include "osdn/core/file.h"
#include "osdn/core/narrow.h"
#include "osdn/report/format.h"
#include "osdn/report/table.h"

namespace osdn::apps {

struct ScalingCommand::State {
  explicit State(CLI::App& app) {
    CLI::App& command = *app.add_subcommand(
        "scaling",
        "a model of data-parallel training on many GPUs (docs/scaling.md)");
    command_ = &command;
    command
        .add_option("--config", configs_, "configurations, separated by commas")
        ->delimiter(',')
        ->required();
    command
        .add_option("--set", overrides_,
                    "KEY=VALUE of every configuration (dist.bucket_mb=100); "
                    "may be repeated")
        ->allow_extra_args(false);
    command.add_option("--gpus", gpus_, "numbers of GPUs")
        ->delimiter(',')
        ->check(integer_from(1, 1 << 20))
        ->capture_default_str();
    add_computation(command);
    add_links(command);
    command
        .add_option("--fit", fit_,
                    "JSON of measured runs of several ranks: fit the links to "
                    "them first; several files, separated by commas")
        ->delimiter(',')
        ->check(check_path);
    command.add_option("--json", json_, "write the figures to this file")
        ->check(check_path);
  }

  bool parsed() const { return command_->parsed(); }

  ExitCode run() {
    static const std::map<std::string, bench::Algorithm> algorithms = {
        {"ring", bench::Algorithm::kRing},
        {"hierarchical", bench::Algorithm::kHierarchical},
        {"best", bench::Algorithm::kBest},
        {"peer", bench::Algorithm::kPeer}};
    cluster_.algorithm = algorithms.at(algorithm_);
    cluster_.intra = {intra_gb_ * 1e9, intra_us_ * 1e-6};
    cluster_.inter = {inter_gb_ * 1e9, inter_us_ * 1e-6};
    cluster_.launch_s = launch_us_ * 1e-6;
    cluster_.stall_s = stall_us_ * 1e-6;
    cluster_.overhead_s = overhead_ms_ * 1e-3;
    const bench::Measurements measured =
        measured_.empty() ? bench::h200_measurements()
                          : bench::read_measurements(measured_);
    cluster_.copy_bytes_per_s = copy_rate(measured);
    nlohmann::ordered_json out;
    if (!fit_.empty()) out["fit"] = fit();
    out["cluster"] = links();
    for (const std::string& name : configs_) {
      out["scaling"].push_back(one_configuration(name, measured));
    }
    if (!json_.empty()) write_file_atomic(json_, out.dump(2) + "\n");
    return ExitCode::kOk;
  }

  void add_computation(CLI::App& command) {
    command
        .add_option("--measured", measured_,
                    "JSON of osdn-bench train on one GPU; else the figures of "
                    "docs/results/h200.md")
        ->check(check_path);
    command
        .add_option("--tokens", tokens_,
                    "of a rank and step; the time of forward and backward "
                    "follows them from those measured (default: those)")
        ->check(integer_from(1));
    command
        .add_option("--micro-batches", micro_batches_,
                    "passes that share the tokens of a rank's step")
        ->check(integer_from(1, 1 << 20))
        ->capture_default_str();
    command
        .add_option("--step-ms", step_ms_,
                    "of a step of --tokens on one GPU, in place of a measured "
                    "one")
        ->check(CLI::PositiveNumber);
    command
        .add_option("--copy-gbs", copy_gb_,
                    "GB/s of a copy on the GPU, read and written, from which "
                    "the time of the update follows, and what --algorithm peer "
                    "takes from the computation (default: as measured)")
        ->check(CLI::PositiveNumber);
  }

  void add_links(CLI::App& command) {
    const auto positive = [&](const char* name, auto& value, const char* what) {
      command.add_option(name, value, what)
          ->check(CLI::PositiveNumber)
          ->capture_default_str();
    };
    command.add_option("--gpus-per-host", cluster_.gpus_per_host)
        ->check(integer_from(1, 1 << 16))
        ->capture_default_str();
    positive("--intra-gbs", intra_gb_,
             "GB/s of a GPU to the next in its host, one direction");
    positive("--intra-us", intra_us_, "latency of such a hop");
    positive("--inter-gbs", inter_gb_,
             "GB/s of a GPU's share of its host's network");
    positive("--inter-us", inter_us_, "latency of a hop between hosts");
    positive("--launch-us", launch_us_, "of any operation");
    command.add_option("--algorithm", algorithm_)
        ->check(CLI::IsMember({"ring", "hierarchical", "best", "peer"}))
        ->capture_default_str();
    command
        .add_option("--slowdown", cluster_.slowdown,
                    "part of its speed that the computation loses beside "
                    "communication")
        ->check(CLI::Range(0.0, 0.9))
        ->capture_default_str();
    command
        .add_option("--stall-us", stall_us_,
                    "that the computation loses to each bucket")
        ->check(CLI::NonNegativeNumber)
        ->capture_default_str();
    command
        .add_option("--overhead-ms", overhead_ms_, "of a step of several ranks")
        ->check(CLI::NonNegativeNumber)
        ->capture_default_str();
  }

  nlohmann::ordered_json fit() {
    const bench::ScalingFit fit =
        bench::fit_scaling(bench::read_measurements(fit_), cluster_);
    cluster_ = fit.cluster;
    nlohmann::ordered_json out;
    report::Table values(
        {{"fitted", report::Align::kLeft}, {"value"}, {"standard deviation"}});
    for (const bench::FittedValue& value : fit.values) {
      values.add_row({value.name, report::format_scientific(value.value, 3),
                      !value.determined  ? "not determined"
                      : value.error == 0 ? "n/a"
                                         : percent(value.error)});
      out["values"].push_back({{"name", value.name},
                               {"value", value.value},
                               {"determined", value.determined},
                               {"relative_deviation", value.error}});
    }
    report::Table points({{"measured run", report::Align::kLeft},
                          {"measured ms"},
                          {"model ms"},
                          {"error"}});
    for (const bench::FittedPoint& point : fit.points) {
      points.add_row({point.what, milliseconds(point.measured_s),
                      milliseconds(point.model_s), percent(point.error())});
      out["points"].push_back({{"what", point.what},
                               {"measured_s", point.measured_s},
                               {"model_s", point.model_s}});
    }
    out["rms_error"] = fit.rms_error;
    out["max_error"] = fit.max_error;
    std::cout << values.text() << "\n"
              << points.text() << "\nerror: " << percent(fit.rms_error)
              << " root mean square, " << percent(fit.max_error)
              << " at most\n\n";
    return out;
  }

  double copy_rate(const bench::Measurements& measured) const {
    return copy_gb_ ? *copy_gb_ * 1e9 : measured.copy_bytes_per_s;
  }

  nlohmann::ordered_json links() const {
    return {{"gpus_per_host", cluster_.gpus_per_host},
            {"intra_bytes_per_s", cluster_.intra.bytes_per_s},
            {"intra_latency_s", cluster_.intra.latency_s},
            {"inter_bytes_per_s", cluster_.inter.bytes_per_s},
            {"inter_latency_s", cluster_.inter.latency_s},
            {"launch_s", cluster_.launch_s},
            {"algorithm", algorithm_},
            {"slowdown", cluster_.slowdown},
            {"stall_s", cluster_.stall_s},
            {"overhead_s", cluster_.overhead_s}};
  }

  /// What one GPU does in a step, as asked.
  bench::ScalingCase scaling_case(const std::string& name,
                                  const bench::Measurements& measured) const {
    const config::Config config = config::load({name, overrides_});
    bench::ScalingCase scaling;
    scaling.model = config.model;
    scaling.dist = config.dist;
    scaling.micro_batches = micro_batches_;
    const double copy = copy_rate(measured);
    if (step_ms_) {
      if (!tokens_) {
        throw Error("--step-ms needs --tokens: those of that step",
                    ExitCode::kUsage);
      }
      scaling.tokens = *tokens_;
      scaling.compute = bench::split_step(config.model, *step_ms_ * 1e-3, copy);
    } else {
      const bench::MeasuredStep one =
          bench::reference_of(measured.steps, {name, overrides_}, 0);
      scaling.tokens = tokens_.value_or(one.tokens);
      scaling.compute = bench::split_step(config.model, one.step_s, copy);
      const double ratio =
          static_cast<double>(scaling.tokens) / static_cast<double>(one.tokens);
      scaling.compute.forward_s *= ratio;
      scaling.compute.backward_s *= ratio;
      if (scaling.tokens == one.tokens && micro_batches_ == 1) {
        scaling.memory_bytes = one.memory_bytes;
      }
    }
    div_exact(scaling.tokens, std::int64_t{micro_batches_},
              "the number of tokens of a step");
    return scaling;
  }

  nlohmann::ordered_json one_configuration(
      const std::string& name, const bench::Measurements& measured) const {
    const bench::ScalingCase scaling = scaling_case(name, measured);
    const bench::StepCompute& compute = scaling.compute;
    std::cout << name << ": " << scaling.tokens << " tokens a GPU and step, "
              << milliseconds(compute.total()) << " ms on one GPU (forward "
              << milliseconds(compute.forward_s) << ", backward "
              << milliseconds(compute.backward_s) << ", update "
              << milliseconds(compute.optimizer_s) << "), gradients in "
              << scaling.dist.reduce_dtype << ", buckets of "
              << scaling.dist.bucket_mb << " MB, optimizer "
              << (scaling.dist.shard_optimizer ? "sharded" : "on every rank")
              << "\n";
    report::Table table({{"GPUs"},
                         {"step ms"},
                         {"tokens/s a GPU"},
                         {"tokens/s"},
                         {"efficiency"},
                         {"communication ms"},
                         {"not hidden ms"},
                         {"memory GiB"}});
    nlohmann::ordered_json points;
    for (const int gpus : gpus_) {
      const bench::ScalingPoint p =
          bench::simulate_step(scaling, cluster_, gpus);
      table.add_row({std::to_string(gpus), milliseconds(p.step_s),
                     report::format_si(p.tokens_per_s),
                     report::format_si(p.tokens_per_s * gpus),
                     percent(p.efficiency), milliseconds(p.communication_s),
                     milliseconds(p.exposed_s),
                     p.memory_bytes > 0
                         ? report::format_fixed(p.memory_bytes / (1 << 30), 1)
                         : "n/a"});
      points.push_back({{"gpus", gpus},
                        {"step_s", p.step_s},
                        {"tokens_per_s_per_gpu", p.tokens_per_s},
                        {"efficiency", p.efficiency},
                        {"communication_s", p.communication_s},
                        {"exposed_s", p.exposed_s},
                        {"buckets", p.buckets},
                        {"memory_bytes", p.memory_bytes}});
    }
    std::cout << table.text() << "\n";
    return {{"config", name},
            {"set", overrides_},
            {"tokens_per_gpu", scaling.tokens},
            {"micro_batches", scaling.micro_batches},
            {"forward_s", compute.forward_s},
            {"backward_s", compute.backward_s},
            {"optimizer_s", compute.optimizer_s},
            {"reduce_dtype", scaling.dist.reduce_dtype},
            {"bucket_mb", scaling.dist.bucket_mb},
            {"shard_optimizer", scaling.dist.shard_optimizer},
            {"points", points}};
  }

  static std::string milliseconds(double seconds) {
    return report::format_fixed(seconds * 1e3, 1);
  }
  static std::string percent(double part) {
    return report::format_fixed(part * 100, 1) + " %";
  }

  CLI::App* command_ = nullptr;
  std::vector<std::string> configs_;
  std::vector<std::string> overrides_;
  std::vector<int> gpus_ = {1, 8, 16, 32, 64, 128, 256, 512, 1024};
  std::string measured_;
  std::optional<std::int64_t> tokens_;
  int micro_batches_ = 1;
  std::optional<double> step_ms_;
  std::optional<double> copy_gb_;
  bench::Cluster cluster_;
  double intra_gb_ = cluster_.intra.bytes_per_s / 1e9;
  double intra_us_ = cluster_.intra.latency_s * 1e6;
  double inter_gb_ = cluster_.inter.bytes_per_s / 1e9;
  double inter_us_ = cluster_.inter.latency_s * 1e6;
  double launch_us_ = cluster_.launch_s * 1e6;
  double stall_us_ = 0;
  double overhead_ms_ = 0;
  std::string algorithm_ = "ring";
  std::vector<std::filesystem::path> fit_;
  std::string json_;
};

ScalingCommand::ScalingCommand(CLI::App& app)
    : state_(std::make_unique<State>(app)) {}
ScalingCommand::~ScalingCommand() = default;
bool ScalingCommand::parsed() const {
  return state_->parsed();
}
ExitCode ScalingCommand::run() {
  return state_->run();
}

}  // namespace osdn::apps
