#include "osdn/bench/scaling_fit.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <utility>

#include "least_squares.h"
#include "osdn/config/reader.h"
#include "osdn/core/concat.h"
#include "osdn/core/error.h"

namespace osdn::bench {
namespace {

/// A value that is e^2 times what it began with counts as much as a run that is
/// off by half a percent: figures that several values explain equally well are
/// explained by plausible ones.
constexpr double kTowardsStart = 0.0025;

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
  return {
      concat(transfer.all_reduce ? "sum of " : "", transfer.bytes / 1e6,
             " MB between ", transfer.ranks, " ranks on ", transfer.hosts,
             " hosts"),
      transfer.seconds, transfer.hosts, [transfer](const Cluster& cluster) {
        const Cluster on = with_hosts(cluster, transfer.ranks, transfer.hosts);
        return (transfer.all_reduce ? 2 : 1) *
                   collective_seconds(on, transfer.ranks, transfer.bytes) +
               (transfer.sums ? sum_seconds(on, transfer.ranks, transfer.bytes)
                              : 0);
      }};
}

Point point_of(const MeasuredStep& step, const Measurements& measured) {
  const config::Config config = config::load({step.config, step.overrides});
  ScalingCase scaling;
  scaling.model = config.model;
  scaling.dist = step.dist;
  scaling.tokens = step.tokens;
  scaling.micro_batches = step.micro_batches;
  const MeasuredStep one = reference_of(measured.steps, step);
  scaling.compute =
      split_step(config.model, one.step_s, measured.copy_bytes_per_s);
  return {concat(step.config, ", ", step.ranks, " ranks on ", step.hosts,
                 " hosts, ", scaling.tokens, " tokens, ",
                 step.dist.reduce_dtype, " in ", step.dist.bucket_mb, " MB",
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

void add_loss(std::vector<Unknown>& unknowns, const std::string& name,
              double Cluster::*loss) {
  unknowns.push_back({name, [loss](Cluster& c) -> double& { return c.*loss; }});
}

std::vector<Unknown> unknowns_of(const std::vector<Point>& points,
                                 bool with_steps, bool peer) {
  const auto any = [&](bool several) {
    return std::any_of(points.begin(), points.end(), [&](const Point& point) {
      return (point.hosts > 1) == several;
    });
  };
  std::vector<Unknown> unknowns;
  if (any(false)) add_link(unknowns, "in a host", &Cluster::intra);
  if (any(true)) add_link(unknowns, "between hosts", &Cluster::inter);
  if (with_steps) {
    if (!peer) {
      add_loss(unknowns, "slowdown beside communication", &Cluster::slowdown);
    }
    add_loss(unknowns, "stall of a bucket, s", &Cluster::stall_s);
    add_loss(unknowns, "overhead of a step, s", &Cluster::overhead_s);
  }
  return unknowns;
}

/// What was measured of several ranks that exchange in that way.
Measurements only(Measurements measured, bool peer) {
  std::erase_if(measured.transfers, [peer](const MeasuredTransfer& transfer) {
    return transfer.peer != peer;
  });
  std::erase_if(measured.steps, [peer](const MeasuredStep& step) {
    return step.ranks > 1 && step.peer != peer;
  });
  return measured;
}

std::vector<Point> points_of(const Measurements& measured, bool peer) {
  std::vector<Point> points;
  for (const MeasuredTransfer& transfer : measured.transfers) {
    points.push_back(point_of(transfer));
  }
  for (const MeasuredStep& step : measured.steps) {
    if (step.ranks > 1) points.push_back(point_of(step, measured));
  }
  if (points.empty()) {
    throw Error(
        concat("nothing to fit: there are no collectives and no steps of "
               "several ranks among the measurements, ",
               peer ? "\"exchange\" peer" : "but for \"exchange\" peer"),
        ExitCode::kBadInput);
  }
  return points;
}

std::vector<double> errors_of(const std::vector<Point>& points,
                              const Cluster& cluster) {
  std::vector<double> errors;
  errors.reserve(points.size());
  for (const Point& point : points) {
    errors.push_back(point.model_s(cluster) / point.measured_s - 1);
  }
  return errors;
}

double square(const std::vector<double>& errors) {
  return std::inner_product(errors.begin(), errors.end(), errors.begin(), 0.0);
}

/// Logarithms are the unknowns, and zero has none.
Cluster above_zero(Cluster cluster) {
  cluster.slowdown = std::max(cluster.slowdown, 0.01);
  cluster.stall_s = std::max(cluster.stall_s, 2e-5);
  cluster.overhead_s = std::max(cluster.overhead_s, 1e-3);
  return cluster;
}

/// Another place to begin: links of other orders of magnitude leave no trace of
/// themselves in a step that hides them.
Cluster nearest_start(const std::vector<Point>& points, const Cluster& start) {
  Cluster best = above_zero(start);
  double least = std::numeric_limits<double>::infinity();
  for (const double slower : {1.0, 8.0, 64.0, 512.0, 4096.0}) {
    Cluster cluster = above_zero(start);
    for (Link* link : {&cluster.intra, &cluster.inter}) {
      link->bytes_per_s /= slower;
    }
    const double errors = square(errors_of(points, cluster));
    if (errors < least) {
      least = errors;
      best = cluster;
    }
  }
  return best;
}

}  // namespace

ScalingFit fit_scaling(const Measurements& all, const Cluster& start) {
  const bool peer = start.algorithm == Algorithm::kPeer;
  const Measurements measured = only(all, peer);
  const std::vector<Point> points = points_of(measured, peer);
  const std::vector<Unknown> unknowns = unknowns_of(
      points,
      std::any_of(measured.steps.begin(), measured.steps.end(),
                  [](const MeasuredStep& s) { return s.ranks > 1; }),
      peer);
  const auto cluster_at = [&](const std::vector<double>& x) {
    Cluster cluster = start;
    for (std::size_t j = 0; j < x.size(); ++j) {
      unknowns[j].number(cluster) = std::exp(x[j]);
    }
    cluster.slowdown = std::min(cluster.slowdown, 0.9);
    return cluster;
  };
  const auto fit_from = [&](Cluster from) {
    std::vector<double> x;
    x.reserve(unknowns.size());
    for (const Unknown& unknown : unknowns) {
      x.push_back(std::log(unknown.number(from)));
    }
    return least_squares(
        [&](const std::vector<double>& at) {
          return errors_of(points, cluster_at(at));
        },
        x, kTowardsStart);
  };
  LeastSquares found = fit_from(above_zero(start));
  LeastSquares other = fit_from(nearest_start(points, start));
  if (square(other.residuals) < square(found.residuals)) {
    found = std::move(other);
  }

  ScalingFit fit;
  fit.cluster = cluster_at(found.x);
  for (std::size_t j = 0; j < unknowns.size(); ++j) {
    double& number = unknowns[j].number(fit.cluster);
    Cluster before = start;
    if (!found.determined[j]) number = unknowns[j].number(before);
    fit.values.push_back(
        {unknowns[j].name, number, found.determined[j], found.deviation[j]});
  }
  for (const Point& point : points) {
    fit.points.push_back(
        {point.what, point.measured_s, point.model_s(fit.cluster)});
    fit.max_error =
        std::max(fit.max_error, std::abs(fit.points.back().error()));
  }
  fit.rms_error = std::sqrt(square(errors_of(points, fit.cluster)) /
                            static_cast<double>(points.size()));
  return fit;
}

}  // namespace osdn::bench
