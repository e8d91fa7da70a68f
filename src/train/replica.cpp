#include "osdn/train/replica.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <optional>
#include <set>
#include <utility>

#include "gradient_hooks.h"
#include "osdn/arch/parameter_table.h"
#include "osdn/config/bucket_elements.h"
#include "osdn/core/concat.h"
#include "osdn/dist/shard_layout.h"
#include "osdn/ops/host_tensors.h"
#include "osdn/ops/pack.h"
#include "osdn/ops/side_stream.h"
#include "osdn/train/build.h"

namespace osdn::train {

namespace {

using Ticket = dist::Collectives::Ticket;

double products_of(const model::ModelParameter& parameter) {
  return static_cast<double>(arch::multiplied_elements(parameter.info));
}

struct FlatBucket {
  dist::Bucket layout;
  std::vector<dist::Piece> pieces;  // of this rank, one an item
  std::string name;
  std::set<std::int64_t> parts;  // of the model
  at::Tensor weights;            // [size], what the model computes with
  at::Tensor gradients;          // [size]
  // Of a sharded optimizer: this rank's part, [shard].
  at::Tensor masters, exp_avg, exp_avg_sq;
  std::vector<ops::PackedPart> parts_to_pack;  // this step's, as they come
  std::size_t missing = 0;
  std::optional<Ticket> under_way;

  dist::BucketMemory memory(const at::Tensor& flat,
                            const std::string& what) const {
    return {concat(what, " of ", name), ops::dtype_of(flat.scalar_type()),
            flat.data_ptr(), layout.shard};
  }
  at::Tensor of_item(const at::Tensor& flat, std::size_t item,
                     std::int64_t numel) const {
    return flat.narrow(0, layout.items[item].begin, numel);
  }
};

}  // namespace

struct Replica::State {
  State(model::LanguageModel& model_, const config::Config& config_,
        dist::World& world_, std::unique_ptr<dist::Collectives> collectives_)
      : model(model_),
        config(config_),
        world(world_),
        sharded(config_.dist.shard_optimizer),
        where(model_.parameters().size()),
        collectives(std::move(collectives_)),
        hooks(model_, [this](std::size_t i) { arrived(i); }) {}

  const std::vector<model::ModelParameter>& parameters() const {
    return model.parameters();
  }
  /// Buckets count tensors in backward order.
  std::size_t parameter_of(std::size_t tensor) const {
    return parameters().size() - 1 - tensor;
  }

  at::ScalarType reduce_type(at::ScalarType weights) const {
    if (weights == at::kDouble) return at::kDouble;
    // What a bf16 model computes in fp32 needs its gradients so, too.
    const bool fine = weights == at::kFloat && model.dtype() == at::kBFloat16;
    return config.dist.reduce_dtype == "bf16" && !fine ? at::kBFloat16
                                                       : at::kFloat;
  }

  void make_buckets();
  void fill(FlatBucket& bucket);
  void optimize_whole();
  void optimize_shards();
  void begin_exchange(GradientSum* sums);
  void arrived(std::size_t parameter);
  void take(std::size_t parameter);
  void pack(FlatBucket& bucket) const;
  void send_full_buckets();
  void await(FlatBucket& bucket);
  void await_all();
  at::Tensor gathered(const FlatBucket& bucket, const at::Tensor& shard);

  model::LanguageModel& model;
  const config::Config& config;
  dist::World& world;
  const bool sharded;
  std::vector<FlatBucket> buckets;  // in the order of the backward
  struct Where {
    std::size_t bucket = 0;
    std::size_t item = 0;
  };
  std::vector<Where> where;  // by parameter
  std::vector<optim::OptimizedTensor> optimized;
  std::vector<at::Tensor> summed;  // their gradients, in the buckets
  double all_products = 0;         // of the backward
  std::unique_ptr<dist::Collectives> collectives;  // gone before the buckets
  // Of this step's exchange, while it goes on.
  bool exchanging = false;
  GradientSum* earlier = nullptr;  // null on a rank without a pass
  std::vector<bool> taken;         // by parameter
  std::optional<ops::HomeStream> home;
  std::size_t next_to_send = 0;
  double to_come = 0;  // of all_products, by gradients that are missing
  GradientHooks hooks;
};

void Replica::State::make_buckets() {
  std::vector<dist::FlatTensor> tensors;
  for (auto p = parameters().rbegin(); p != parameters().rend(); ++p) {
    tensors.push_back(
        {ops::dtype_of(p->tensor.scalar_type()), p->info.numel()});
    all_products += products_of(*p);
  }
  for (dist::Bucket& layout : dist::make_buckets(
           tensors, world.place().size, config::bucket_elements(config.dist))) {
    FlatBucket& bucket = buckets.emplace_back();
    bucket.pieces = dist::pieces_of(layout, tensors, world.place().rank);
    bucket.layout = std::move(layout);
    bucket.name = concat("bucket ", buckets.size());
    fill(bucket);
  }
  std::vector<dist::BucketMemory> exchanged;
  for (const FlatBucket& bucket : buckets) {
    exchanged.push_back(bucket.memory(bucket.gradients, "gradients"));
    if (sharded) exchanged.push_back(bucket.memory(bucket.weights, "weights"));
  }
  collectives->reach(exchanged);
}

void Replica::State::fill(FlatBucket& bucket) {
  const at::NoGradGuard no_grad;
  const dist::Bucket& layout = bucket.layout;
  const at::TensorOptions options =
      at::TensorOptions()
          .dtype(ops::scalar_type_of(layout.dtype))
          .device(model.device());
  bucket.weights = at::zeros({layout.size}, options);
  bucket.gradients = at::zeros(
      {layout.size}, options.dtype(reduce_type(bucket.weights.scalar_type())));
  const bool own_masters = layout.dtype != DType::kBF16;
  if (sharded) {
    const auto state =
        options.dtype(own_masters ? bucket.weights.scalar_type() : at::kFloat);
    bucket.exp_avg = at::zeros({layout.shard}, state);
    bucket.exp_avg_sq = at::zeros({layout.shard}, state);
    if (!own_masters) bucket.masters = at::zeros({layout.shard}, state);
  }
  const std::int64_t first = world.place().rank * layout.shard;
  for (std::size_t i = 0; i < layout.items.size(); ++i) {
    const std::size_t index = parameter_of(layout.items[i].tensor);
    const model::ModelParameter& p = parameters()[index];
    where[index] = {buckets.size() - 1, i};
    bucket.parts.insert(model.part_of(p.info));
    const at::Tensor place = bucket.of_item(bucket.weights, i, p.info.numel());
    place.copy_(p.tensor.detach().view(-1));
    at::Tensor tensor = p.tensor;
    tensor.set_data(place.view(p.info.shape));
    const dist::Piece& piece = bucket.pieces[i];
    if (bucket.masters.defined() && piece.count > 0) {
      bucket.masters.narrow(0, piece.at - first, piece.count)
          .copy_(p.master.view(-1).narrow(0, piece.begin, piece.count));
    }
  }
}

void Replica::State::optimize_whole() {
  optimized = optimized_tensors(model, config.optimizer);
  for (std::size_t i = 0; i < parameters().size(); ++i) {
    const arch::Parameter& info = parameters()[i].info;
    const FlatBucket& bucket = buckets[where[i].bucket];
    summed.push_back(
        bucket.of_item(bucket.gradients, where[i].item, info.numel())
            .view(info.shape));
  }
}

void Replica::State::optimize_shards() {
  log_decay_groups(model, config.optimizer);
  for (const FlatBucket& bucket : buckets) {
    const std::int64_t first = world.place().rank * bucket.layout.shard;
    for (const dist::Piece& piece : bucket.pieces) {
      const arch::Parameter& info =
          parameters()[parameter_of(piece.tensor)].info;
      const auto part = [&](const at::Tensor& shard) {
        return shard.defined() ? shard.narrow(0, piece.at - first, piece.count)
                               : at::Tensor();
      };
      optimized.push_back(
          {info.name, bucket.weights.narrow(0, piece.at, piece.count),
           arch::is_decayed(info, config.optimizer.decay_exempt),
           part(bucket.masters), part(bucket.exp_avg), part(bucket.exp_avg_sq),
           info.shape, piece.begin});
      summed.push_back(bucket.gradients.narrow(0, piece.at, piece.count));
    }
  }
}

void Replica::State::begin_exchange(GradientSum* sums) {
  await_all();  // weights of the last update
  for (FlatBucket& bucket : buckets) {
    bucket.missing = bucket.layout.items.size();
  }
  exchanging = true;
  earlier = sums;
  taken.assign(parameters().size(), false);
  home.emplace(model.device());
  next_to_send = 0;
  to_come = all_products;
}

void Replica::State::arrived(std::size_t parameter) {
  if (!exchanging) return;  // a pass that another one follows
  take(parameter);
  send_full_buckets();
}

void Replica::State::take(std::size_t parameter) {
  const Where& at = where[parameter];
  FlatBucket& bucket = buckets[at.bucket];
  const at::Tensor total =
      earlier ? earlier->take_total(parameter) : at::Tensor();
  home->follow({total});  // gradients come on more streams than one
  bucket.parts_to_pack.push_back({total, bucket.layout.items[at.item].begin,
                                  parameters()[parameter].info.numel()});
  taken[parameter] = true;
  to_come -= products_of(parameters()[parameter]);
  if (--bucket.missing == 0) pack(bucket);
}

void Replica::State::pack(FlatBucket& bucket) const {
  const at::NoGradGuard no_grad;
  const ops::HomeStream::Visit visit(*home);
  ops::pack(bucket.gradients, bucket.parts_to_pack);
  bucket.parts_to_pack.clear();
}

void Replica::State::send_full_buckets() {
  if (collectives->prefers_bursts() && to_come > kHeldBack * all_products) {
    return;
  }
  const ops::HomeStream::Visit visit(*home);
  // In the same order on all ranks, whatever comes first.
  for (; next_to_send < buckets.size() && buckets[next_to_send].missing == 0;
       ++next_to_send) {
    FlatBucket& bucket = buckets[next_to_send];
    const dist::BucketMemory memory =
        bucket.memory(bucket.gradients, "gradients");
    bucket.under_way =
        sharded ? collectives->sum_to_shards(memory) : collectives->sum(memory);
  }
}

void Replica::State::await(FlatBucket& bucket) {
  if (!bucket.under_way) return;
  collectives->wait(*bucket.under_way);
  bucket.under_way.reset();
}

void Replica::State::await_all() {
  for (FlatBucket& bucket : buckets) await(bucket);
}

at::Tensor Replica::State::gathered(const FlatBucket& bucket,
                                    const at::Tensor& shard) {
  at::Tensor whole = at::empty({bucket.layout.size}, shard.options());
  whole.narrow(0, world.place().rank * bucket.layout.shard, bucket.layout.shard)
      .copy_(shard);
  collectives->wait(
      collectives->gather_shards(bucket.memory(whole, "optimizer state")));
  return whole;
}

Replica::Replica(model::LanguageModel& model, const config::Config& config,
                 dist::World& world,
                 std::unique_ptr<dist::Collectives> collectives)
    : state_(std::make_unique<State>(model, config, world,
                                     std::move(collectives))) {
  State& s = *state_;
  s.make_buckets();
  if (!s.sharded) {
    s.optimize_whole();
    return;
  }
  s.optimize_shards();
  model.release_masters();
  model.set_arrival([&s](std::int64_t part) {
    for (FlatBucket& bucket : s.buckets) {
      if (bucket.parts.contains(part)) s.await(bucket);
    }
  });
}

Replica::~Replica() {
  state_->model.set_arrival(nullptr);
}

dist::World& Replica::world() const {
  return state_->world;
}

std::vector<optim::OptimizedTensor> Replica::optimized() const {
  return state_->optimized;
}

void Replica::gradients_follow(GradientSum& earlier) {
  state_->begin_exchange(&earlier);
}

void Replica::reduce_gradients() {
  State& s = *state_;
  if (!s.exchanging) s.begin_exchange(nullptr);
  for (std::size_t i = 0; i < s.taken.size(); ++i) {
    if (!s.taken[i]) s.take(i);
  }
  s.to_come = 0;
  s.send_full_buckets();
  s.exchanging = false;
  s.await_all();
  for (std::size_t i = 0; i < s.optimized.size(); ++i) {
    const at::Tensor& tensor = s.optimized[i].tensor;
    tensor.mutable_grad() =
        tensor.is_cpu() ? s.summed[i].to(tensor.scalar_type()) : s.summed[i];
  }
}

bool Replica::has_shards() const {
  return state_->sharded;
}

void Replica::spread_weights() {
  State& s = *state_;
  if (!s.sharded) return;
  for (auto bucket = s.buckets.rbegin(); bucket != s.buckets.rend(); ++bucket) {
    bucket->under_way = s.collectives->gather_shards(
        bucket->memory(bucket->weights, "weights"));
  }
}

HostState Replica::host_state(const optim::AdamW& adamw) {
  State& s = *state_;
  s.await_all();
  HostState out(s.model, s.world.place().rank, s.world.place().size);
  for (std::size_t i = 0; i < s.parameters().size() && !s.sharded; ++i) {
    if (!out.owns(i)) continue;
    out.add_weight(i, s.parameters()[i].master);
    out.add_moments(i, adamw.exp_avg(i), adamw.exp_avg_sq(i));
  }
  if (!s.sharded) return out;
  for (const FlatBucket& bucket : s.buckets) {
    const at::Tensor weights = bucket.masters.defined()
                                   ? s.gathered(bucket, bucket.masters)
                                   : bucket.weights;
    const at::Tensor exp_avg = s.gathered(bucket, bucket.exp_avg);
    const at::Tensor exp_avg_sq = s.gathered(bucket, bucket.exp_avg_sq);
    for (std::size_t i = 0; i < bucket.layout.items.size(); ++i) {
      const std::size_t index = s.parameter_of(bucket.layout.items[i].tensor);
      const std::int64_t numel = s.parameters()[index].info.numel();
      if (!out.owns(index)) continue;
      out.add_weight(index, bucket.of_item(weights, i, numel));
      out.add_moments(index, bucket.of_item(exp_avg, i, numel),
                      bucket.of_item(exp_avg_sq, i, numel));
    }
  }
  return out;
}

}  // namespace osdn::train
