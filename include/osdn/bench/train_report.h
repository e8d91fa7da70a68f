#pragma once
// What `osdn-bench train` prints and writes.

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "osdn/bench/train_speed.h"
#include "osdn/config/config.h"
#include "osdn/config/reader.h"
#include "osdn/dist/place.h"

namespace osdn::bench {

class TrainReport {
 public:
  /// `peak_flops`: of the GPU, where it is known. `place`: of the rank that
  /// reports.
  TrainReport(std::optional<double> peak_flops, const dist::Place& place)
      : peak_flops_(peak_flops), place_(place) {}

  /// `asked` is the configuration by name and overrides, `config` what it came
  /// to, with the exchange that was measured. Speeds of a linked model are set
  /// against those apart that were added last.
  void add(const config::LoadRequest& asked, const config::Config& config,
           const TrainSpeed& speed);

  /// A line each; where there are several ranks, a line of each rank, too.
  std::string text() const;
  /// For "training", as read_measurements takes it.
  nlohmann::ordered_json json() const;

 private:
  struct Entry {
    config::LoadRequest asked{};
    config::DistConfig dist{};
    TrainSpeed speed{};
    // Steps apart that it is set against; 0 where there is none.
    double first_alone_s = 0;
    double slowest_apart_s = 0;

    std::string exchange() const;
  };
  std::optional<double> utilisation(const TrainSpeed& speed) const;
  std::string speeds() const;
  std::string ranks() const;
  nlohmann::ordered_json row(const Entry& entry) const;

  std::optional<double> peak_flops_;
  dist::Place place_;
  std::vector<Entry> entries_;
};

}  // namespace osdn::bench
