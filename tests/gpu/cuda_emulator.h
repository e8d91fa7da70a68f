#pragma once
// Runs kernels on the CPU, so that their indexing, fragment layouts and masks
// are tested where there is no GPU. Include before any kernel source (g++
// -include); the wrappers of kernels/common then call this file.
//
// Every thread of a block is a fiber. Warp-wide instructions wait for all 32
// lanes, barriers for all threads. Blocks run one after another. Shared memory
// starts as NaN in every block. Not modelled: races between barriers, memory
// spaces, the timing of asynchronous copies (they complete at once).

#include <ucontext.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <stdexcept>
#include <vector>

#define OSDN_CUDA_EMULATOR 1
#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __align__(n) alignas(n)

namespace osdn::emulator {

struct Index {
  unsigned x = 0, y = 0, z = 0;
};

struct Warp {
  int arrived = 0;
  void* operands[32] = {};
};

struct Fiber {
  ucontext_t context{};
  std::unique_ptr<unsigned char[]> stack;
  bool blocked = false, finished = false;
  unsigned thread = 0;
};

struct Block {
  std::vector<Fiber> fibers;
  std::vector<Warp> warps;
  std::vector<unsigned char> shared;
  ucontext_t scheduler{};
  Fiber* running = nullptr;
  Index block_index, block_size, grid_size;
  int waiting = 0;
  const std::function<void()>* body = nullptr;
};

inline Block& block() {
  static Block instance;
  return instance;
}

inline void yield() {
  Block& b = block();
  swapcontext(&b.running->context, &b.scheduler);
}

inline void fiber_main() {
  Block& b = block();
  (*b.body)();
  b.running->finished = true;
  yield();
}

inline constexpr std::size_t kStackBytes = 256 * 1024;

inline void run_grid(std::int64_t blocks, int threads,
                     std::int64_t shared_bytes,
                     const std::function<void()>& body) {
  Block& b = block();
  b.body = &body;
  b.block_size.x = static_cast<unsigned>(threads);
  b.grid_size.x = static_cast<unsigned>(blocks);
  const std::size_t count = static_cast<std::size_t>(threads);
  if (b.fibers.size() < count) b.fibers.resize(count);
  b.shared.resize(static_cast<std::size_t>(shared_bytes) + 1024);
  for (std::int64_t i = 0; i < blocks; ++i) {
    b.block_index.x = static_cast<unsigned>(i);
    b.waiting = 0;
    b.warps.assign(count / 32, Warp{});
    std::fill(b.shared.begin(), b.shared.end(), 0xff);
    for (std::size_t t = 0; t < count; ++t) {
      Fiber& fiber = b.fibers[t];
      if (!fiber.stack) {
        fiber.stack = std::make_unique<unsigned char[]>(kStackBytes);
      }
      fiber.blocked = fiber.finished = false;
      fiber.thread = static_cast<unsigned>(t);
      getcontext(&fiber.context);
      fiber.context.uc_stack.ss_sp = fiber.stack.get();
      fiber.context.uc_stack.ss_size = kStackBytes;
      fiber.context.uc_link = nullptr;
      makecontext(&fiber.context, fiber_main, 0);
    }
    for (std::size_t finished = 0; finished < count;) {
      bool progress = false;
      for (std::size_t t = 0; t < count; ++t) {
        Fiber& fiber = b.fibers[t];
        if (fiber.finished || fiber.blocked) continue;
        progress = true;
        b.running = &fiber;
        swapcontext(&b.scheduler, &fiber.context);
        if (fiber.finished) ++finished;
      }
      if (!progress) {
        throw std::runtime_error(
            "emulator: all threads wait: a barrier or warp instruction is not "
            "reached by every thread");
      }
    }
  }
}

inline Index thread_index() {
  return {block().running->thread, 0, 0};
}
inline unsigned char* dynamic_shared() {
  const auto at = reinterpret_cast<std::uintptr_t>(block().shared.data());
  return reinterpret_cast<unsigned char*>((at + 1023) / 1024 * 1024);
}

inline void barrier() {
  Block& b = block();
  const int count = static_cast<int>(b.block_size.x);
  if (++b.waiting == count) {
    b.waiting = 0;
    for (int t = 0; t < count; ++t) {
      b.fibers[static_cast<std::size_t>(t)].blocked = false;
    }
    return;
  }
  b.running->blocked = true;
  yield();
}

/// Waits for the warp; the last lane to arrive runs `all` on the operands of
/// the 32 lanes.
template <typename Operand, typename All>
void warp_instruction(Operand& mine, const All& all) {
  Block& b = block();
  const unsigned thread = b.running->thread;
  Warp& warp = b.warps[thread / 32];
  warp.operands[thread % 32] = &mine;
  if (++warp.arrived == 32) {
    warp.arrived = 0;
    Operand* lanes[32];
    for (int l = 0; l < 32; ++l) {
      lanes[l] = static_cast<Operand*>(warp.operands[l]);
    }
    all(lanes);
    for (unsigned l = 0; l < 32; ++l) {
      b.fibers[thread / 32 * 32 + l].blocked = false;
    }
    return;
  }
  b.running->blocked = true;
  yield();
}

// ---- arithmetic -------------------------------------------------------------

inline float bit_cast_float(std::uint32_t bits) {
  float x;
  std::memcpy(&x, &bits, 4);
  return x;
}
inline std::uint32_t bf16_bits(float x) {
  std::uint32_t bits;
  std::memcpy(&bits, &x, 4);
  if (std::isnan(x)) return 0x7fff;
  return (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
}
inline std::uint32_t pack_bf16(float low, float high) {
  return bf16_bits(low) | bf16_bits(high) << 16;
}
inline float exp2_ftz(float x) {
  if (!(x <= 0)) throw std::runtime_error("emulator: exp2 of a positive value");
  const float y = std::exp2(x);
  return y < 1.17549435e-38f ? 0.f : y;
}
inline float exp_ftz(float x) {
  const float y = std::exp(x);
  return y < 1.17549435e-38f ? 0.f : y;
}
inline float tf32(float x) {
  std::uint32_t bits;
  std::memcpy(&bits, &x, 4);
  return bit_cast_float((bits + 0x1000u) & 0xffffe000u);
}

// ---- warp instructions ------------------------------------------------------

inline float element(const std::uint32_t* packed, int index) {
  const std::uint32_t word = packed[index / 2];
  return bit_cast_float(index % 2 ? word & 0xffff0000u : word << 16);
}

inline void mma_bf16(float (&c)[4], const std::uint32_t (&a)[4],
                     std::uint32_t b0, std::uint32_t b1) {
  struct Operand {
    float* c;
    const std::uint32_t* a;
    std::uint32_t b[2];
  } mine{c, a, {b0, b1}};
  warp_instruction(mine, [](Operand** lanes) {
    float A[16][16], B[16][8];
    for (int l = 0; l < 32; ++l) {
      const int g = l / 4, t = l % 4;
      for (int r = 0; r < 4; ++r) {
        for (int e = 0; e < 2; ++e) {
          A[g + (r % 2) * 8][2 * t + e + (r / 2) * 8] =
              element(lanes[l]->a, 2 * r + e);
          if (r < 2) B[2 * t + e + r * 8][g] = element(lanes[l]->b, 2 * r + e);
        }
      }
    }
    for (int l = 0; l < 32; ++l) {
      const int g = l / 4, t = l % 4;
      for (int r = 0; r < 4; ++r) {
        float sum = lanes[l]->c[r];
        for (int k = 0; k < 16; ++k) {
          sum += A[g + (r / 2) * 8][k] * B[k][2 * t + r % 2];
        }
        lanes[l]->c[r] = sum;
      }
    }
  });
}

inline void mma_tf32(float (&c)[4], const float (&a)[4], float b0, float b1) {
  struct Operand {
    float* c;
    const float* a;
    float b[2];
  } mine{c, a, {b0, b1}};
  warp_instruction(mine, [](Operand** lanes) {
    float A[16][8], B[8][8];
    for (int l = 0; l < 32; ++l) {
      const int g = l / 4, t = l % 4;
      for (int r = 0; r < 4; ++r) {
        A[g + (r % 2) * 8][t + (r / 2) * 4] = tf32(lanes[l]->a[r]);
        if (r < 2) B[t + r * 4][g] = tf32(lanes[l]->b[r]);
      }
    }
    for (int l = 0; l < 32; ++l) {
      const int g = l / 4, t = l % 4;
      for (int r = 0; r < 4; ++r) {
        for (int k = 0; k < 8; ++k) {
          lanes[l]->c[r] += A[g + (r / 2) * 8][k] * B[k][2 * t + r % 2];
        }
      }
    }
  });
}

inline void load_matrix(std::uint32_t (&r)[4], const void* row,
                        bool transposed) {
  struct Operand {
    std::uint32_t* r;
    const void* row;
  } mine{r, row};
  warp_instruction(mine, [transposed](Operand** lanes) {
    for (int m = 0; m < 4; ++m) {
      std::uint16_t matrix[8][8];
      for (int i = 0; i < 8; ++i) {
        std::memcpy(matrix[i], lanes[m * 8 + i]->row, 16);
      }
      for (int l = 0; l < 32; ++l) {
        const int g = l / 4, t = l % 4;
        const std::uint32_t low =
            transposed ? matrix[2 * t][g] : matrix[g][2 * t];
        const std::uint32_t high =
            transposed ? matrix[2 * t + 1][g] : matrix[g][2 * t + 1];
        lanes[l]->r[m] = low | high << 16;
      }
    }
  });
}

inline void store_matrix(void* row, const std::uint32_t (&r)[4],
                         bool transposed) {
  struct Operand {
    const std::uint32_t* r;
    void* row;
  } mine{r, row};
  warp_instruction(mine, [transposed](Operand** lanes) {
    for (int m = 0; m < 4; ++m) {
      std::uint16_t matrix[8][8];
      for (int l = 0; l < 32; ++l) {
        const int g = l / 4, t = l % 4;
        for (int e = 0; e < 2; ++e) {
          const auto value =
              static_cast<std::uint16_t>(lanes[l]->r[m] >> (16 * e));
          (transposed ? matrix[2 * t + e][g] : matrix[g][2 * t + e]) = value;
        }
      }
      for (int i = 0; i < 8; ++i) {
        std::memcpy(lanes[m * 8 + i]->row, matrix[i], 16);
      }
    }
  });
}

struct MatrixDescriptor {
  const unsigned char* start;
  int leading;
};

/// Element (n, k) of B: the address is formed first, then its bits 4 to 6 are
/// exchanged by bits 7 to 9, as the 128-byte swizzle does.
inline float described_element(const MatrixDescriptor& b, int n, int k,
                               bool transposed) {
  const std::int64_t offset =
      transposed ? n / 64 * b.leading + k / 8 * 1024 + k % 8 * 128 + n % 64 * 2
                 : n / 8 * 1024 + n % 8 * 128 + k * 2;
  auto address = reinterpret_cast<std::uintptr_t>(b.start) +
                 static_cast<std::uintptr_t>(offset);
  address ^= (address >> 7 & 7) << 4;
  std::uint16_t half;
  std::memcpy(&half, reinterpret_cast<const void*>(address), 2);
  return bit_cast_float(static_cast<std::uint32_t>(half) << 16);
}

/// One warp's 16 rows of a warpgroup's product; complete at once.
template <int N>
void wgmma(float* d, const std::uint32_t (&a)[4], MatrixDescriptor b,
           bool transposed, bool accumulate) {
  struct Operand {
    float* d;
    const std::uint32_t* a;
  } mine{d, a};
  warp_instruction(mine, [=](Operand** lanes) {
    float A[16][16];
    std::vector<float> B(16 * N);
    for (int l = 0; l < 32; ++l) {
      const int g = l / 4, t = l % 4;
      for (int r = 0; r < 4; ++r) {
        for (int e = 0; e < 2; ++e) {
          A[g + (r % 2) * 8][2 * t + e + (r / 2) * 8] =
              element(lanes[l]->a, 2 * r + e);
        }
      }
    }
    for (int n = 0; n < N; ++n) {
      for (int k = 0; k < 16; ++k) {
        B[static_cast<std::size_t>(n * 16 + k)] =
            described_element(b, n, k, transposed);
      }
    }
    for (int l = 0; l < 32; ++l) {
      const int g = l / 4, t = l % 4;
      for (int i = 0; i < N / 2; ++i) {
        const int row = g + i % 4 / 2 * 8, n = i / 4 * 8 + 2 * t + i % 2;
        float sum = accumulate ? lanes[l]->d[i] : 0.f;
        for (int k = 0; k < 16; ++k) {
          sum += A[row][k] * B[static_cast<std::size_t>(n * 16 + k)];
        }
        lanes[l]->d[i] = sum;
      }
    }
  });
}

inline void copy16(void* to, const void* from, bool valid) {
  if (valid) {
    std::memcpy(to, from, 16);
  } else {
    std::memset(to, 0, 16);
  }
}

}  // namespace osdn::emulator

namespace osdn::kernels {
namespace emulator = osdn::emulator;

/// The emulator knows the matrix units' instructions.
inline bool runs_hopper_code() {
  return true;
}
}  // namespace osdn::kernels

#define threadIdx (osdn::emulator::thread_index())
#define blockIdx (osdn::emulator::block().block_index)
#define gridDim (osdn::emulator::block().grid_size)
#define blockDim (osdn::emulator::block().block_size)

inline void __syncthreads() {
  osdn::emulator::barrier();
}
inline void __syncwarp() {
  int nothing = 0;
  osdn::emulator::warp_instruction(nothing, [](int**) {});
}
/// Every lane takes the value of the lane that it names.
template <typename T>
T __shfl_sync(unsigned, T x, int source) {
  struct Operand {
    T in, out;
    int source;
  } mine{x, x, source};
  osdn::emulator::warp_instruction(mine, [](Operand** lanes) {
    for (int l = 0; l < 32; ++l) {
      lanes[l]->out = lanes[lanes[l]->source & 31]->in;
    }
  });
  return mine.out;
}
template <typename T>
T __shfl_xor_sync(unsigned mask, T x, int bits) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  return __shfl_sync(mask, x, lane ^ bits);
}
template <typename T>
T __shfl_up_sync(unsigned mask, T x, int count) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  return __shfl_sync(mask, x, lane >= count ? lane - count : lane);
}
template <typename T>
T __shfl_down_sync(unsigned mask, T x, int count) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  return __shfl_sync(mask, x, lane + count < 32 ? lane + count : lane);
}
inline float fmaxf(float a, float b) {
  return a > b ? a : b;
}
inline float fminf(float a, float b) {
  return a < b ? a : b;
}
inline float rsqrtf(float x) {
  return 1.f / std::sqrt(x);
}
inline float __frsqrt_rn(float x) {
  return static_cast<float>(1.0 / std::sqrt(static_cast<double>(x)));
}
inline float __fadd_rn(float a, float b) {
  return a + b;
}
inline float __fmul_rn(float a, float b) {
  return a * b;
}
inline float __fdiv_rn(float a, float b) {
  return a / b;
}
inline float __fmaf_rn(float a, float b, float c) {
  return std::fma(a, b, c);
}
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
struct alignas(8) uint2 {
  unsigned x, y;
};
struct alignas(8) float2 {
  float x, y;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
inline float2 make_float2(float x, float y) {
  return {x, y};
}
