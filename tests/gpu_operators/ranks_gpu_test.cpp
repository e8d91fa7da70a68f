// Several ranks that share the GPU. A test starts mpirun with this program,
// whose ranks run one of the disabled tests below.

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "kernels/common/device_info.h"
#include "osdn/config/reader.h"
#include "osdn/core/concat.h"
#include "osdn/core/env.h"
#include "osdn/dist/gpu_choice.h"
#include "osdn/dist/world.h"
#include "osdn/ops/gpu.h"
#include "osdn/train/device_collectives.h"
#include "osdn/train/run.h"
#include "support/mpirun.h"
#include "support/program.h"
#include "train/tiny_run.h"

namespace osdn::train {
namespace {

namespace fs = std::filesystem;
using test::fingerprints;
using test::TinyRun;

constexpr const char* kConfigName = "OSDN_TEST_CONFIG";
constexpr const char* kResumeName = "OSDN_TEST_RESUME";

// ---- in the ranks
// ------------------------------------------------------------

class Exchange {
 public:
  Exchange() {
    dist::take_own_gpu(world_.place());
    if (!ops::gpu().usable) throw Error(ops::gpu().why_not);
    config::DistConfig config;
    config.gpu_exchange = "peer";
    collectives_ = device_collectives(world_, kDevice, config);
  }

  /// A bucket whose elements are value(rank, round, i).
  void add(std::int64_t shard, at::ScalarType type) {
    buckets_.push_back(
        at::zeros({shard * ranks()}, at::device(kDevice).dtype(type)));
  }

  void reach() {
    std::vector<dist::BucketMemory> all;
    for (const at::Tensor& bucket : buckets_) all.push_back(memory(bucket));
    collectives_->reach(all);
  }

  /// Every operation on every bucket. A rank fills its buckets late in its
  /// turn, which the others must wait for, and all write over them at once when
  /// an operation is said to be done, which must not reach anybody.
  void round(int number) {
    for (at::Tensor& bucket : buckets_) {
      const at::Tensor mine = values(bucket, rank(), number);
      const auto begin = rank() * bucket.numel() / ranks();
      const auto count = bucket.numel() / ranks();

      be_late(number);
      bucket.copy_(mine);
      done(collectives_->sum_to_shards(memory(bucket)));
      const at::Tensor shard = bucket.narrow(0, begin, count).clone();
      bucket.fill_(-1);
      const at::Tensor total = sum(bucket, number);
      EXPECT_TRUE(at::equal(shard, total.narrow(0, begin, count)));

      be_late(number + 1);
      bucket.copy_(mine);
      done(collectives_->sum(memory(bucket)));
      const at::Tensor whole = bucket.clone();
      bucket.fill_(-2);
      EXPECT_TRUE(at::equal(whole, total));

      be_late(number + 2);
      bucket.copy_(mine);
      gather_and_check(bucket, number);
      // Of memory that was not announced, and is larger than the window.
      at::Tensor unknown = at::empty_like(bucket).copy_(mine);
      gather_and_check(unknown, number);
    }
  }

 private:
  inline static const at::Device kDevice{at::kCUDA, 0};

  int rank() const { return world_.place().rank; }
  int ranks() const { return world_.place().size; }

  static dist::BucketMemory memory_of(const at::Tensor& tensor, int ranks) {
    return {"a bucket",
            tensor.scalar_type() == at::kFloat ? DType::kF32 : DType::kBF16,
            tensor.data_ptr(), tensor.numel() / ranks};
  }
  dist::BucketMemory memory(const at::Tensor& tensor) const {
    return memory_of(tensor, ranks());
  }

  // Not sums of powers of two: the order of the additions shows.
  static at::Tensor values(const at::Tensor& like, int of_rank, int number) {
    const at::Tensor index =
        at::arange(like.numel(), like.options().dtype(at::kFloat));
    return at::sin(index * 0.37 + of_rank * 1.7 + number * 0.11)
        .mul(std::pow(10.0, of_rank))
        .to(like.scalar_type());
  }

  // In rank order, in fp32, rounded once.
  at::Tensor sum(const at::Tensor& like, int number) const {
    at::Tensor total = values(like, 0, number).to(at::kFloat);
    for (int other = 1; other < ranks(); ++other) {
      total = total + values(like, other, number).to(at::kFloat);
    }
    return total.to(like.scalar_type());
  }

  void be_late(int number) const {
    if (number % ranks() != rank()) return;
    const at::Tensor a =
        at::ones({2048, 2048}, at::device(kDevice).dtype(at::kFloat));
    for (int i = 0; i < 20; ++i) at::mm(a, a);
  }

  void done(dist::Collectives::Ticket ticket) { collectives_->wait(ticket); }

  void gather_and_check(at::Tensor& bucket, int number) {
    done(collectives_->gather_shards(memory(bucket)));
    const at::Tensor got = bucket.clone();
    bucket.fill_(-3);
    const auto count = bucket.numel() / ranks();
    for (int other = 0; other < ranks(); ++other) {
      EXPECT_TRUE(at::equal(
          got.narrow(0, other * count, count),
          values(bucket, other, number).narrow(0, other * count, count)))
          << "of rank " << other;
    }
  }

  dist::World world_;
  std::vector<at::Tensor> buckets_;
  std::unique_ptr<dist::Collectives> collectives_;
};

TEST(RankOnGpu, DISABLED_exchanges) {
  Exchange exchange;
  exchange.add(64, at::kFloat);
  exchange.add(64, at::kBFloat16);
  exchange.add(64 * 1001, at::kBFloat16);
  exchange.add(64 * 100003, at::kFloat);
  exchange.reach();
  for (int number = 0; number < 12; ++number) exchange.round(number);
}

TEST(RankOnGpu, DISABLED_trains) {
  RunRequest request;
  request.config = config::load({std::getenv(kConfigName), {}});
  if (std::getenv(kResumeName)) request.resume = ResumeMode::kAuto;
  run(request);
}

// ---- the tests
// ------------------------------------------------------------------

class RanksOnGpu : public test::MpirunTest {
 protected:
  void SetUp() override {
    MpirunTest::SetUp();
    given_gpus();
    if (IsSkipped() || HasFatalFailure()) return;
    tiny_.json["model"]["hidden_size"] = 128;
    tiny_.json["model"]["num_layers"] = 2;
    tiny_.json["model"]["intermediate_size"] = 192;
    tiny_.json["optimizer"]["lr"] = 0.002;
    tiny_.json["schedule"] = {{"total_steps", 100}, {"warmup_steps", 6}};
    tiny_.json["training"]["steps"] = 100;
    tiny_.json["training"]["validate_every"] = 50;
    tiny_.json["training"]["global_batch"] = 12;
    tiny_.json["training"]["device"] = "cuda";
    tiny_.json["training"]["dtype"] = "fp32";
    tiny_.json["checkpoint"] = {{"every", 0}};
    tiny_.json["dist"] = {
        {"timeout_s", 20}, {"share_gpus", true}, {"gpu_exchange", "peer"}};
  }

  static constexpr const char* kGpus = "CUDA_VISIBLE_DEVICES";

  /// As the first test found it.
  static const std::optional<std::string>& given_gpus() {
    static const std::optional<std::string> given = env(kGpus);
    return given;
  }

  void TearDown() override {
    ::unsetenv(kGpus);
    if (const auto given = given_gpus()) ::setenv(kGpus, given->c_str(), 1);
  }

  static fs::path self() { return fs::read_symlink("/proc/self/exe"); }

  /// `mark`: an argument by which to find the ranks.
  static std::vector<std::string> command(int ranks, const std::string& name,
                                          const std::string& mark = "") {
    // The ranks' own, of those that this process was given.
    ::unsetenv(kGpus);
    if (const auto given = given_gpus()) ::setenv(kGpus, given->c_str(), 1);
    if (ranks > kernels::device_info().count) {
      const std::string all = given_gpus().value_or("0");
      ::setenv(kGpus, all.substr(0, all.find(',')).c_str(), 1);
    }
    std::vector<std::string> all = test::mpirun(ranks);
    all.insert(all.end(),
               {self().string(), "--gtest_also_run_disabled_tests",
                concat("--gtest_filter=RankOnGpu.DISABLED_", name), mark});
    return all;
  }

  static void start(int ranks, const std::string& name) {
    test::Program program(command(ranks, name));
    EXPECT_EQ(program.wait(), 0) << program.out() << program.err();
  }

  std::vector<report::StepRecord> train(
      int ranks, const std::string& name,
      ResumeMode resume = ResumeMode::kNever) {
    ::setenv(kConfigName, tiny_.config_file(name).c_str(), 1);
    if (resume == ResumeMode::kAuto) {
      ::setenv(kResumeName, "1", 1);
    } else {
      ::unsetenv(kResumeName);
    }
    start(ranks, "trains");
    return tiny_.log(name);
  }

  /// Without a launcher, here.
  std::vector<report::StepRecord> train_alone(
      const std::string& name, ResumeMode resume = ResumeMode::kNever) {
    RunRequest request = tiny_.request(name);
    request.resume = resume;
    run(request);
    return tiny_.log(name);
  }

  std::size_t steps_logged(const std::string& name) const {
    std::ifstream in(tiny_.run_dir(name) / "log.jsonl");
    std::size_t lines = 0;
    for (std::string line; std::getline(in, line);) ++lines;
    return lines;
  }

  static void expect_near(const std::vector<report::StepRecord>& a,
                          const std::vector<report::StepRecord>& b,
                          double tolerance) {
    ASSERT_EQ(a.size(), b.size());
    for (std::size_t i = 0; i < a.size(); ++i) {
      EXPECT_NEAR(a[i].loss, b[i].loss, tolerance) << "step " << a[i].step;
      EXPECT_EQ(a[i].valid_labels, b[i].valid_labels);
    }
  }

  TinyRun tiny_;
};

TEST_F(RanksOnGpu, exchange_in_rank_order_and_wait_for_one_another) {
  for (const int ranks : {1, 3}) start(ranks, "exchanges");
}

// fp32: sums in another order differ by a few units in the last place of each
// gradient; over 100 steps of a smooth loss of about 3 that stays below 1e-4.
TEST_F(RanksOnGpu, L2_follow_the_loss_of_one_and_give_the_same_bits_twice) {
  const auto one = train_alone("one");
  const auto two = train(2, "two");
  expect_near(two, one, 1e-4);
  EXPECT_LT(two.back().loss, two.front().loss - 0.5);
  EXPECT_EQ(fingerprints(train(2, "again")), fingerprints(two));
  tiny_.json["dist"]["bucket_mb"] = 0.01;
  tiny_.json["dist"]["shard_optimizer"] = false;
  expect_near(train(3, "three"), one, 1e-4);
}

TEST_F(RanksOnGpu, two_resume_as_two_to_the_last_bit_and_as_one) {
  tiny_.json["training"]["validate_every"] = 0;
  const auto whole = train(2, "whole");
  tiny_.json["training"]["steps"] = 41;
  train(2, "cut");
  fs::copy(tiny_.run_dir("cut"), tiny_.run_dir("fewer"),
           fs::copy_options::recursive);
  tiny_.json["training"]["steps"] = 100;
  EXPECT_EQ(fingerprints(train(2, "cut", ResumeMode::kAuto)),
            fingerprints(whole));
  expect_near(train_alone("fewer", ResumeMode::kAuto), whole, 1e-4);
}

// The other's GPU waits at a word that nobody will write.
TEST_F(RanksOnGpu, a_killed_rank_ends_the_other_in_mid_step) {
  tiny_.json["training"]["steps"] = 100000;
  tiny_.json["training"]["validate_every"] = 0;
  tiny_.json["schedule"]["total_steps"] = 100000;
  const std::string config = tiny_.config_file("killed").string();
  ::setenv(kConfigName, config.c_str(), 1);
  ::unsetenv(kResumeName);
  test::Program program(command(2, "trains", config));
  while (program.running() && steps_logged("killed") < 20) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  const auto ranks = test::running(self().filename(), config);
  ASSERT_EQ(ranks.size(), 2U) << program.err();
  const auto start = std::chrono::steady_clock::now();
  ::kill(ranks.back(), SIGKILL);
  EXPECT_NE(program.wait(), 0);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(60));
  EXPECT_TRUE(test::running(self().filename(), config).empty());
  EXPECT_NE(program.err().find("was killed or crashed"), std::string::npos)
      << program.err();
}

// bf16 gradients have 8 bits: the paths part by less than two seeds' do.
TEST_F(RanksOnGpu, sum_bf16_gradients) {
  tiny_.json["training"]["dtype"] = "bf16";
  const auto one = train_alone("one");
  tiny_.json["dist"]["reduce_dtype"] = "bf16";
  expect_near(train(2, "two"), one, 5e-2);
}

}  // namespace
}  // namespace osdn::train
