// AdamW and the global norm on the GPU against float64.

#include <gtest/gtest.h>

#include <algorithm>

#include "gpu/op_run.h"
#include "kernels/adamw/adamw.cuh"

namespace osdn::test {
namespace {

using namespace kernels;

constexpr double kBeta1 = 0.9, kBeta2 = 0.95, kEps = 1e-15, kLr = 1e-2;
constexpr int kStep = 3;

/// One tensor; `shift` elements before its start spoil its alignment.
struct Tensor {
  std::int64_t n;
  Element grad_element = Element::kF32;
  double weight_decay = 0.1;
  bool copy = true, has_grad = true;
  std::int64_t shift = 0;
};

struct Parts {
  Values master, m, v, grad;
};

std::vector<Parts> parts_of(const std::vector<Tensor>& tensors) {
  Random random(3);
  std::vector<Parts> parts;
  for (const Tensor& t : tensors) {
    const std::int64_t n = t.n + t.shift;
    Parts p;
    p.master = random.normal(n, Element::kF32);
    p.m = random.normal(n, Element::kF32, 0.1);
    p.v = random.uniform(n, 0, 0.01);
    p.grad = random.normal(n, t.grad_element);
    if (t.n > 2) p.v[2] = p.m[2] = p.grad[2] = 0;
    parts.push_back(p);
  }
  return parts;
}

double norm_of(const std::vector<Tensor>& tensors,
               const std::vector<Parts>& parts) {
  double sum = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (!tensors[i].has_grad) continue;
    for (std::size_t j = static_cast<std::size_t>(tensors[i].shift);
         j < parts[i].grad.size(); ++j) {
      sum += parts[i].grad[j] * parts[i].grad[j];
    }
  }
  return std::sqrt(sum);
}

struct Outcome {
  OpRun run;
  Values norm_and_clip;
};

void step(const std::vector<Tensor>& tensors, const std::vector<Parts>& parts,
          double max_norm, Outcome& outcome) {
  OpRun& run = outcome.run;
  std::vector<DeviceBuffer> grads;
  std::vector<AdamWTensor> table_of;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const Tensor& t = tensors[i];
    const std::string id = std::to_string(i);
    grads.push_back(on_device(parts[i].grad, t.grad_element));
    AdamWTensor at;
    at.master =
        run.in_place<float>("p" + id, parts[i].master, Element::kF32) + t.shift;
    at.m = run.in_place<float>("m" + id, parts[i].m, Element::kF32) + t.shift;
    at.v = run.in_place<float>("v" + id, parts[i].v, Element::kF32) + t.shift;
    if (t.has_grad) {
      at.grad = grads.back().as<char>() + t.shift * bytes_of(t.grad_element);
    }
    if (t.copy) {
      at.copy =
          run.in_place<char>("copy" + id, parts[i].master, Element::kBF16) +
          t.shift * 2;
    }
    at.n = t.n;
    at.weight_decay = static_cast<float>(t.weight_decay);
    at.grad_element = t.grad_element;
    table_of.push_back(at);
  }
  AdamWTable table;
  const std::vector<std::byte> bytes = adamw_pack_table(table_of, table);
  DeviceBuffer table_at(bytes.size());
  table_at.upload(bytes);
  table.device = table_at.as<void>();

  DeviceBuffer norm_and_clip(8);
  GlobalNormParams norm;
  norm.table = table;
  norm.max_norm = static_cast<float>(max_norm);
  norm.workspace =
      static_cast<double*>(run.workspace(global_norm_workspace_bytes(norm)));
  norm.norm_and_clip = norm_and_clip.as<float>();
  DeviceBuffer step_at(sizeof(AdamWStep));
  step_at.upload(std::vector<AdamWStep>{
      {static_cast<float>(kLr), static_cast<float>(1 - std::pow(kBeta1, kStep)),
       static_cast<float>(1 - std::pow(kBeta2, kStep))}});
  AdamWParams p;
  p.table = table;
  p.beta1 = static_cast<float>(kBeta1);
  p.beta2 = static_cast<float>(kBeta2);
  p.eps = static_cast<float>(kEps);
  p.step = step_at.as<AdamWStep>();
  p.clip = norm_and_clip.as<float>() + 1;
  run.run([&] {
    global_norm(norm, nullptr);
    adamw(p, nullptr);
  });
  outcome.norm_and_clip = from_device(norm_and_clip, Element::kF32);
}

void expect_step(const std::vector<Tensor>& tensors,
                 const std::vector<Parts>& parts, double max_norm) {
  Outcome outcome;
  step(tensors, parts, max_norm, outcome);
  const double norm = norm_of(tensors, parts);
  const double clip =
      max_norm > 0 ? std::min(1.0, max_norm / (norm + 1e-6)) : 1;
  EXPECT_NEAR(outcome.norm_and_clip[0], norm, 1e-6 * norm);
  EXPECT_NEAR(outcome.norm_and_clip[1], clip, 1e-6);
  const double bias1 = 1 - std::pow(kBeta1, kStep);
  const double bias2 = 1 - std::pow(kBeta2, kStep);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const Tensor& t = tensors[i];
    Parts want = parts[i];
    Values copy = parts[i].master;
    for (double& value : copy) value = rounded(value, Element::kBF16);
    for (std::size_t j = static_cast<std::size_t>(t.shift);
         j < want.grad.size(); ++j) {
      const double g = t.has_grad ? want.grad[j] * clip : 0;
      want.m[j] = kBeta1 * want.m[j] + (1 - kBeta1) * g;
      want.v[j] = kBeta2 * want.v[j] + (1 - kBeta2) * g * g;
      want.master[j] -= kLr * t.weight_decay * want.master[j];
      want.master[j] -=
          kLr * (want.m[j] / bias1) / (std::sqrt(want.v[j] / bias2) + kEps);
      copy[j] = want.master[j];
    }
    const std::string id = std::to_string(i);
    SCOPED_TRACE("tensor " + id);
    outcome.run.expect("p" + id, want.master, 3e-6);
    outcome.run.expect("m" + id, want.m, 3e-6);
    outcome.run.expect("v" + id, want.v, 3e-6);
    if (t.copy) {
      outcome.run.expect("copy" + id, copy, 3e-3);
      // The copy is the rounded master, whatever the master is.
      Values master = outcome.run.values("p" + id);
      const Values got = outcome.run.values("copy" + id);
      for (std::size_t j = static_cast<std::size_t>(t.shift); j < master.size();
           ++j) {
        ASSERT_EQ(got[j], rounded(master[j], Element::kBF16)) << j;
      }
    }
  }
}

std::vector<Tensor> mixed() {
  std::vector<Tensor> tensors = {{1},
                                 {0},
                                 {5, Element::kBF16},
                                 {16384},
                                 {16385, Element::kBF16, 0},
                                 {40000},
                                 {1000},
                                 {1000, Element::kBF16}};
  tensors[3].copy = false;
  tensors[6].shift = 3;
  tensors[7].shift = 1;
  return tensors;
}

TEST(AdamWGpu, tensors_of_every_kind) {
  const std::vector<Tensor> tensors = mixed();
  const std::vector<Parts> parts = parts_of(tensors);
  expect_step(tensors, parts, 1.0);
  expect_step(tensors, parts, 0);
  expect_step(tensors, parts, 1e9);
}

TEST(AdamWGpu, a_tensor_without_gradient) {
  std::vector<Tensor> tensors = {{100}, {100}};
  tensors[1].has_grad = false;
  expect_step(tensors, parts_of(tensors), 1.0);
}

TEST(AdamWGpu, a_non_finite_norm_changes_nothing) {
  const std::vector<Tensor> tensors = mixed();
  for (const double bad :
       {std::nan(""), double(INFINITY), 3e38 /* its square overflows */}) {
    std::vector<Parts> parts = parts_of(tensors);
    parts[5].grad[777] = bad;
    Outcome outcome;
    step(tensors, parts, 1.0, outcome);
    EXPECT_FALSE(std::isfinite(outcome.norm_and_clip[0]));
    EXPECT_TRUE(std::isnan(outcome.norm_and_clip[1]));
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const std::string id = std::to_string(i);
      EXPECT_EQ(outcome.run.values("p" + id), parts[i].master);
      EXPECT_EQ(outcome.run.values("m" + id), parts[i].m);
      EXPECT_EQ(outcome.run.values("v" + id), parts[i].v);
    }
  }
}

TEST(AdamWGpu, no_tensors) {
  Outcome outcome;
  step({}, {}, 1.0, outcome);
  EXPECT_EQ(outcome.norm_and_clip[0], 0);
  EXPECT_EQ(outcome.norm_and_clip[1], 1);
}

TEST(AdamWGpu, a_broken_table_is_named) {
  std::vector<AdamWTensor> tensors(2);
  tensors[1].n = 4;
  AdamWTable table;
  try {
    adamw_pack_table(tensors, table);
    FAIL();
  } catch (const std::invalid_argument& error) {
    EXPECT_NE(std::string(error.what()).find("tensor 1 of 2"),
              std::string::npos);
  }
}

}  // namespace
}  // namespace osdn::test
