#include "osdn/bench/scaling_fit.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "least_squares.h"
#include "osdn/config/reader.h"
#include "osdn/core/concat.h"
#include "osdn/core/error.h"

namespace osdn::bench {
namespace {

struct Point {
  std::string what;
  double measured_s;
  int hosts;
  std::function<double(const Cluster&)> model_s;
};

Cluster with_hosts(Cluster cluster, int ranks, int hosts) {
  cluster.gpus_per_host = ranks / hosts;
  return cluster;
}

Point point_of(const MeasuredTransfer& transfer) {
  return {concat(transfer.bytes / 1e6, " MB between ", transfer.ranks,
                 " ranks on ", transfer.hosts, " hosts"),
          transfer.seconds, transfer.hosts, [transfer](const Cluster& cluster) {
            return collective_seconds(
                with_hosts(cluster, transfer.ranks, transfer.hosts),
                transfer.ranks, transfer.bytes);
          }};
}

Point point_of(const MeasuredStep& step, const Measurements& measured) {
  const config::Config config = config::load({step.config, {}});
  ScalingCase scaling;
  scaling.model = config.model;
  scaling.dist = step.dist;
  scaling.tokens = step.tokens / step.ranks;
  scaling.micro_batches = step.micro_batches;
  const MeasuredStep one =
      reference_of(measured.steps, step.config, scaling.tokens);
  scaling.compute =
      split_step(config.model, one.step_s, measured.copy_bytes_per_s);
  return {
      concat(step.config, ", ", step.ranks, " ranks on ", step.hosts,
             " hosts, ", scaling.tokens, " tokens, ", step.dist.reduce_dtype,
             step.dist.shard_optimizer ? ", sharded" : ""),
      step.step_s, step.hosts, [scaling, step](const Cluster& cluster) {
        return simulate_step(scaling,
                             with_hosts(cluster, step.ranks, step.hosts),
                             step.ranks)
            .step_s;
      }};
}

/// A number of the cluster, whose logarithm is the unknown.
struct Unknown {
  std::string name;
  std::function<double&(Cluster&)> number;
};

void add_link(std::vector<Unknown>& unknowns, const std::string& name,
              Link Cluster::*link) {
  unknowns.push_back(
      {name + " bandwidth, bytes/s",
       [link](Cluster& c) -> double& { return (c.*link).bytes_per_s; }});
  unknowns.push_back({name + " latency, s", [link](Cluster& c) -> double& {
                        return (c.*link).latency_s;
                      }});
}

std::vector<Unknown> unknowns_of(const std::vector<Point>& points,
                                 bool with_steps) {
  const auto any = [&](bool several) {
    return std::any_of(points.begin(), points.end(), [&](const Point& point) {
      return (point.hosts > 1) == several;
    });
  };
  std::vector<Unknown> unknowns;
  if (any(false)) add_link(unknowns, "in a host", &Cluster::intra);
  if (any(true)) add_link(unknowns, "between hosts", &Cluster::inter);
  if (with_steps) {
    unknowns.push_back(
        {"slowdown", [](Cluster& c) -> double& { return c.slowdown; }});
  }
  return unknowns;
}

}  // namespace

ScalingFit fit_scaling(const Measurements& measured, const Cluster& start) {
  std::vector<Point> points;
  for (const MeasuredTransfer& transfer : measured.transfers) {
    points.push_back(point_of(transfer));
  }
  bool with_steps = false;
  for (const MeasuredStep& step : measured.steps) {
    if (step.ranks == 1) continue;
    points.push_back(point_of(step, measured));
    with_steps = true;
  }
  if (points.empty()) {
    throw Error(
        "nothing to fit: there are no collectives and no steps of several "
        "ranks among the measurements",
        ExitCode::kBadInput);
  }
  const std::vector<Unknown> unknowns = unknowns_of(points, with_steps);
  const auto cluster_at = [&](const std::vector<double>& x) {
    Cluster cluster = start;
    for (std::size_t j = 0; j < x.size(); ++j) {
      unknowns[j].number(cluster) = std::exp(x[j]);
    }
    cluster.slowdown = std::min(cluster.slowdown, 0.9);
    return cluster;
  };
  std::vector<double> x;
  Cluster from = start;
  from.slowdown = std::max(from.slowdown, 0.01);  // none has no logarithm
  for (const Unknown& unknown : unknowns) {
    x.push_back(std::log(unknown.number(from)));
  }
  const LeastSquares found = least_squares(
      [&](const std::vector<double>& at) {
        const Cluster cluster = cluster_at(at);
        std::vector<double> errors;
        for (const Point& point : points) {
          errors.push_back(point.model_s(cluster) / point.measured_s - 1);
        }
        return errors;
      },
      x);

  ScalingFit fit;
  fit.cluster = cluster_at(found.x);
  for (std::size_t j = 0; j < unknowns.size(); ++j) {
    fit.values.push_back({unknowns[j].name, unknowns[j].number(fit.cluster),
                          found.determined[j], found.deviation[j]});
  }
  for (const Point& point : points) {
    fit.points.push_back(
        {point.what, point.measured_s, point.model_s(fit.cluster)});
    const double error = std::abs(fit.points.back().error());
    fit.max_error = std::max(fit.max_error, error);
    fit.rms_error += error * error;
  }
  fit.rms_error = std::sqrt(fit.rms_error / static_cast<double>(points.size()));
  return fit;
}

}  // namespace osdn::bench
