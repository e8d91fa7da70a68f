// Cross-entropy on the GPU against float64.

#include <gtest/gtest.h>

#include <algorithm>

#include "gpu/op_run.h"
#include "kernels/cross_entropy/cross_entropy.cuh"

namespace osdn::test {
namespace {

using namespace kernels;

struct Case {
  std::int64_t rows = 5, vocab = 1000, padding = 0;
  Element element = Element::kBF16;
  double scale = 0.25, spread = 3;
  bool scale_on_device = false;
};

struct Problem {
  Values logits;
  std::vector<std::int64_t> labels;
};

Problem problem_of(const Case& c) {
  Random random(12);
  Problem p;
  p.logits = random.normal(c.rows * c.vocab, c.element, c.spread);
  for (std::int64_t r = 0; r < c.rows; ++r) {
    p.labels.push_back(r % 4 == 1 ? kNoLabel : r * 7919 % c.vocab);
  }
  return p;
}

struct Result {
  Values loss, grad;
  double sum = 0, count = 0;
};

Result reference(const Case& c, const Problem& p) {
  Result r;
  r.grad.resize(p.logits.size());
  for (std::int64_t row = 0; row < c.rows; ++row) {
    const double* x = &p.logits[static_cast<std::size_t>(row * c.vocab)];
    const std::int64_t label = p.labels[static_cast<std::size_t>(row)];
    r.loss.push_back(0);
    if (label == kNoLabel) continue;
    const double peak = *std::max_element(x, x + c.vocab);
    double sum = 0;
    for (std::int64_t j = 0; j < c.vocab; ++j) sum += std::exp(x[j] - peak);
    r.loss.back() = std::log(sum) + peak - x[label];
    for (std::int64_t j = 0; j < c.vocab; ++j) {
      r.grad[static_cast<std::size_t>(row * c.vocab + j)] =
          (std::exp(x[j] - peak) / sum - (j == label ? 1 : 0)) * c.scale;
    }
    r.sum += r.loss.back();
    r.count += 1;
  }
  return r;
}

/// The columns of rows of `stride`.
Values columns_of(const Values& wide, std::int64_t columns,
                  std::int64_t stride) {
  Values values;
  for (std::size_t first = 0; first < wide.size();
       first += static_cast<std::size_t>(stride)) {
    values.insert(values.end(), wide.begin() + static_cast<long>(first),
                  wide.begin() + static_cast<long>(first) + columns);
  }
  return values;
}

void expect_right(const Case& c) {
  SCOPED_TRACE(std::string(name_of(c.element)) + " rows " +
               std::to_string(c.rows) + " vocab " + std::to_string(c.vocab));
  const Problem p = problem_of(c);
  const Result r = reference(c, p);
  const std::int64_t stride = c.vocab + c.padding;
  const DeviceBuffer labels = on_device(p.labels);
  const DeviceBuffer half = on_device(Values{0.5}, Element::kF32);
  OpRun run;
  CrossEntropyParams params;
  params.rows = c.rows;
  params.vocab = c.vocab;
  params.element = c.element;
  params.logits =
      run.in_place("logits", strided(p.logits, c.vocab, stride), c.element);
  params.logits_stride = stride;
  params.labels = labels.as<std::int64_t>();
  params.scale = static_cast<float>(c.scale) * (c.scale_on_device ? 2 : 1);
  params.scale_device = c.scale_on_device ? half.as<float>() : nullptr;
  params.loss = run.output<float>("loss", c.rows, Element::kF32);
  DeviceBuffer sum(sizeof(double)), count(sizeof(std::int64_t));
  params.loss_sum = sum.as<double>();
  params.label_count = count.as<std::int64_t>();
  run.run([&] {
    sum.upload(std::vector<double>{100});
    count.upload(std::vector<std::int64_t>{7});
    cross_entropy(params, nullptr);
  });
  run.expect("loss", r.loss, 2e-6);
  const Values grad = columns_of(run.values("logits"), c.vocab, stride);
  EXPECT_TRUE(relative_error(grad, r.grad) <=
              std::max(element_bound(c.element), 1e-5))
      << relative_error(grad, r.grad);
  EXPECT_NEAR(sum.download<double>()[0], 100 + r.sum, 1e-5 * (1 + r.sum));
  EXPECT_EQ(count.download<std::int64_t>()[0],
            7 + static_cast<std::int64_t>(r.count));
}

TEST(CrossEntropyGpu, vocabularies_and_strides) {
  for (const Element element : {Element::kBF16, Element::kF32}) {
    for (const std::int64_t vocab :
         {1, 2, 37, 512, 1000, 4096, 32000, 50257, 70000}) {
      Case c;
      c.element = element;
      c.vocab = vocab;
      c.scale_on_device = vocab % 2 == 0;
      expect_right(c);
    }
    for (const std::int64_t padding : {8, 3}) {
      Case c;
      c.element = element;
      c.padding = padding;
      expect_right(c);
    }
    Case many;
    many.element = element;
    many.rows = 1500;
    many.vocab = 40;
    expect_right(many);
  }
}

TEST(CrossEntropyGpu, K1_large_logits) {
  Case c;
  c.element = Element::kF32;
  c.spread = 3000;
  expect_right(c);
}

TEST(CrossEntropyGpu, L3_rows_without_a_label_whatever_they_hold) {
  for (const std::int64_t vocab : {64, 37}) {
    OpRun run;
    Values logits(static_cast<std::size_t>(2 * vocab), std::nan(""));
    const DeviceBuffer labels =
        on_device(std::vector<std::int64_t>{kNoLabel, kNoLabel});
    CrossEntropyParams p;
    p.rows = 2;
    p.vocab = vocab;
    p.logits = run.in_place("logits", logits, Element::kBF16);
    p.labels = labels.as<std::int64_t>();
    p.loss = run.output<float>("loss", 2, Element::kF32);
    run.run([&] { cross_entropy(p, nullptr); });
    run.expect("loss", {0, 0}, 0);
    run.expect("logits", Values(logits.size(), 0.0), 0);
  }
}

TEST(CrossEntropyGpu, D6_a_label_past_the_vocabulary_is_not_silent) {
  for (const std::int64_t label : {64, -1, 1 << 30}) {
    OpRun run;
    const DeviceBuffer labels = on_device(std::vector<std::int64_t>{label});
    CrossEntropyParams p;
    p.rows = 1;
    p.vocab = 64;
    p.logits = run.in_place("logits", Values(64, 0.5), Element::kBF16);
    p.labels = labels.as<std::int64_t>();
    p.loss = run.output<float>("loss", 1, Element::kF32);
    run.run([&] { cross_entropy(p, nullptr); });
    EXPECT_TRUE(std::isnan(run.values("loss")[0])) << label;
    EXPECT_TRUE(std::isnan(run.values("logits")[0])) << label;
  }
}

TEST(CrossEntropyGpu, L4_without_a_gradient_the_logits_stay) {
  OpRun run;
  const Values logits = Random(1).normal(64, Element::kBF16);
  const DeviceBuffer labels = on_device(std::vector<std::int64_t>{3});
  CrossEntropyParams p;
  p.rows = 1;
  p.vocab = 64;
  p.write_gradient = false;
  p.logits = run.in_place("logits", logits, Element::kBF16);
  p.labels = labels.as<std::int64_t>();
  p.loss = run.output<float>("loss", 1, Element::kF32);
  run.run([&] { cross_entropy(p, nullptr); });
  EXPECT_EQ(run.values("logits"), logits);
}

}  // namespace
}  // namespace osdn::test
