#pragma once
// This rank's model among those of the other ranks: gradients summed over the
// ranks while the backward runs, optimizer state and master weights kept by
// parts (ZeRO stage 1), weights collected while the next forward runs.
//
//   before the step's last backward     gradients_follow
//   after it                            reduce_gradients
//   after the update                    spread_weights
//
// Parameters, and their gradients, lie in flat buckets in the order in which
// the backward comes to them. A bucket is packed when its last gradient is
// there, and sent then, or with the others in a burst near the end (kHeldBack).

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "osdn/config/config.h"
#include "osdn/dist/collectives.h"
#include "osdn/dist/world.h"
#include "osdn/model/language_model.h"
#include "osdn/optim/adamw.h"
#include "osdn/train/gradient_sum.h"
#include "osdn/train/host_state.h"

namespace osdn::train {

/// Where exchanges are better made in one burst, buckets are held back until
/// this part of the backward's matrix products is left.
inline constexpr double kHeldBack = 1.0 / 8;

class Replica {
 public:
  /// Moves the model's parameters, which have their values and are the same on
  /// all ranks, into buckets. With dist.shard_optimizer the model's own masters
  /// are given up for this rank's part of them. `collectives` are those of the
  /// model's device. Collective.
  Replica(model::LanguageModel& model, const config::Config& config,
          dist::World& world, std::unique_ptr<dist::Collectives> collectives);
  ~Replica();
  Replica(const Replica&) = delete;
  Replica& operator=(const Replica&) = delete;

  dist::World& world() const;

  /// What this rank's optimizer updates.
  std::vector<optim::OptimizedTensor> optimized() const;

  /// The next backward pass is the step's last on this rank; `earlier` holds
  /// the sums of those before.
  void gradients_follow(GradientSum& earlier);
  /// Collective: sends what is left (zeros where this rank had no pass) and
  /// gives optimized() its gradients, summed over the ranks.
  void reduce_gradients();
  /// optimized() is this rank's part of the parameters, not all of them.
  bool has_shards() const;
  /// Collective: this update's weights go to all ranks; the model's next
  /// forward waits for each part where it needs it.
  void spread_weights();

  /// Collective: this rank's share of weights and moments, in host memory.
  HostState host_state(const optim::AdamW& adamw);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace osdn::train
