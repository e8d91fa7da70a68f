#pragma once
// One operator call under test: inputs rounded to the element type, outputs
// and workspace poisoned, two runs that must agree bit for bit, comparison
// with float64.

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "gpu/device_memory.h"
#include "kernels/common/launcher.h"

namespace osdn::test {

using kernels::Element;
using Values = std::vector<double>;

/// x as the element type holds it.
inline double rounded(double x, Element element) {
  const auto narrow = static_cast<float>(x);
  if (element == Element::kF32) return static_cast<double>(narrow);
  std::uint32_t bits;
  std::memcpy(&bits, &narrow, 4);
  if (!std::isnan(narrow)) bits += 0x7fff + ((bits >> 16) & 1);
  bits &= 0xffff0000u;
  float wide;
  std::memcpy(&wide, &bits, 4);
  return static_cast<double>(wide);
}

/// Inputs of a test, reproducible by seed.
class Random {
 public:
  explicit Random(unsigned seed) : engine_(seed) {}
  Values normal(std::int64_t count, Element element, double scale = 1) {
    std::normal_distribution<double> draw(0, scale);
    return filled(count, element, [&] { return draw(engine_); });
  }
  Values uniform(std::int64_t count, double low, double high,
                 Element element = Element::kF32) {
    std::uniform_real_distribution<double> draw(low, high);
    return filled(count, element, [&] { return draw(engine_); });
  }

 private:
  template <typename Draw>
  static Values filled(std::int64_t count, Element element, Draw&& draw) {
    Values values(static_cast<std::size_t>(count));
    for (double& value : values) value = rounded(draw(), element);
    return values;
  }
  std::mt19937_64 engine_;
};

inline DeviceBuffer on_device(const Values& values, Element element) {
  DeviceBuffer buffer(values.size() *
                      static_cast<std::size_t>(bytes_of(element)));
  if (element == Element::kF32) {
    buffer.upload(std::vector<float>(values.begin(), values.end()));
  } else {
    std::vector<std::uint16_t> bits;
    for (const double value : values) {
      const auto narrow = static_cast<float>(rounded(value, element));
      std::uint32_t word;
      std::memcpy(&word, &narrow, 4);
      bits.push_back(static_cast<std::uint16_t>(word >> 16));
    }
    buffer.upload(bits);
  }
  return buffer;
}

inline DeviceBuffer on_device(const std::vector<std::int64_t>& values) {
  DeviceBuffer buffer(values.size() * sizeof(std::int64_t));
  buffer.upload(values);
  return buffer;
}

inline Values from_device(const DeviceBuffer& buffer, Element element) {
  if (element == Element::kF32) {
    const auto host = buffer.download<float>();
    return Values(host.begin(), host.end());
  }
  Values values;
  for (const std::uint16_t bits : buffer.download<std::uint16_t>()) {
    const std::uint32_t word = static_cast<std::uint32_t>(bits) << 16;
    float wide;
    std::memcpy(&wide, &word, 4);
    values.push_back(static_cast<double>(wide));
  }
  return values;
}

/// Rows of `columns` values as slices of rows of `stride`; NaN between them.
inline Values strided(const Values& values, std::int64_t columns,
                      std::int64_t stride) {
  const std::int64_t rows = static_cast<std::int64_t>(values.size()) / columns;
  Values wide(static_cast<std::size_t>(rows * stride), std::nan(""));
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < columns; ++c) {
      wide[static_cast<std::size_t>(r * stride + c)] =
          values[static_cast<std::size_t>(r * columns + c)];
    }
  }
  return wide;
}

/// |a - ref| / |ref| over all elements; NaN if any is NaN.
inline double relative_error(const Values& a, const Values& ref) {
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < ref.size(); ++i) {
    difference += (a[i] - ref[i]) * (a[i] - ref[i]);
    size += ref[i] * ref[i];
  }
  if (size == 0) return std::sqrt(difference);
  return std::sqrt(difference / size);
}

/// The outputs of one call.
class OpRun {
 public:
  /// Room for an output of `count` elements; NaN before each run.
  template <typename T = void>
  T* output(const std::string& name, std::int64_t count, Element element) {
    outputs_.push_back(
        {name,
         element,
         false,
         DeviceBuffer(static_cast<std::size_t>(count * bytes_of(element))),
         {}});
    return outputs_.back().buffer.template as<T>();
  }
  /// An operand that the call reads and overwrites: set again before each run.
  template <typename T = void>
  T* in_place(const std::string& name, const Values& start, Element element) {
    outputs_.push_back({name, element, true, on_device(start, element), {}});
    outputs_.back().start = start;
    return outputs_.back().buffer.template as<T>();
  }
  void* workspace(std::int64_t bytes) {
    workspace_ = DeviceBuffer(static_cast<std::size_t>(bytes));
    return bytes == 0 ? nullptr : workspace_.as<void>();
  }

  /// Two runs, the workspace NaN before the first and 1e30 before the second.
  void run(const std::function<void()>& launch) {
    std::vector<std::vector<unsigned char>> bits;
    for (int pass = 0; pass < 2; ++pass) {
      for (Output& output : outputs_) {
        output.buffer.poison();
        if (output.in_place) {
          output.buffer.upload(on_device(output.start, output.element)
                                   .template download<unsigned char>());
        }
      }
      workspace_.poison();
      if (pass == 1) workspace_.fill_word(0x7149f2ca);  // 1e30f
      launch();
      device_synchronize();
      for (std::size_t i = 0; i < outputs_.size(); ++i) {
        auto bytes = outputs_[i].buffer.template download<unsigned char>();
        if (pass == 0) {
          bits.push_back(std::move(bytes));
        } else {
          EXPECT_EQ(bits[i], bytes) << outputs_[i].name << ": two runs differ";
        }
        EXPECT_TRUE(outputs_[i].buffer.guard_is_whole())
            << outputs_[i].name << ": written behind its end";
      }
    }
    EXPECT_TRUE(workspace_.bytes() == 0 || workspace_.guard_is_whole())
        << "workspace: written behind its end";
  }

  Values values(const std::string& name) const {
    const Output& output = find(name);
    return from_device(output.buffer, output.element);
  }
  std::vector<unsigned char> bits(const std::string& name) const {
    return find(name).buffer.template download<unsigned char>();
  }

  void expect(const std::string& name, const Values& reference,
              double bound) const {
    const Values got = values(name);
    ASSERT_EQ(got.size(), reference.size()) << name;
    const double error = relative_error(got, reference);
    // Written so that NaN fails.
    EXPECT_TRUE(error <= bound)
        << name << ": relative error " << error << " above " << bound;
  }

 private:
  struct Output {
    std::string name;
    Element element;
    bool in_place;
    DeviceBuffer buffer;
    Values start;
  };
  const Output& find(const std::string& name) const {
    for (const Output& output : outputs_) {
      if (output.name == name) return output;
    }
    throw std::runtime_error("no output " + name);
  }
  std::deque<Output> outputs_;
  DeviceBuffer workspace_{0};
};

/// Bounds on relative errors: results rounded once to the element type, and
/// sums in fp32.
inline double element_bound(Element element) {
  return element == Element::kBF16 ? 3e-3 : 2e-6;
}

inline const char* name_of(Element element) {
  return element == Element::kBF16 ? "bf16" : "fp32";
}

inline std::vector<std::int64_t> boundaries(
    const std::vector<std::int64_t>& lengths) {
  std::vector<std::int64_t> cu_seqlens{0};
  for (const std::int64_t length : lengths) {
    cu_seqlens.push_back(cu_seqlens.back() + length);
  }
  return cu_seqlens;
}

inline double sigmoid_of(double x) {
  return 1 / (1 + std::exp(-x));
}

}  // namespace osdn::test
