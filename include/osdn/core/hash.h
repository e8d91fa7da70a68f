#pragma once
// Checksums: XXH3 to notice damage quickly, SHA-256 to name content.

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

namespace osdn {

/// A 128-bit XXH3 value.
struct Hash128 {
  std::uint64_t high = 0;
  std::uint64_t low = 0;
  bool operator==(const Hash128&) const = default;
};

/// Lower-case hexadecimal, most significant digit first: 16, 32 and 64 digits.
std::string to_hex(std::uint64_t hash);
std::string to_hex(const Hash128& hash);
std::string to_hex(const std::array<std::uint8_t, 32>& hash);

/// XXH3 over pieces; 64 and 128 bits of the same input are both there. Seed 0.
class Xxh3 {
 public:
  Xxh3();
  ~Xxh3();
  Xxh3(Xxh3&&) noexcept;
  Xxh3& operator=(Xxh3&&) noexcept;

  void update(const void* bytes, std::size_t size);
  void update(std::string_view bytes) { update(bytes.data(), bytes.size()); }
  std::uint64_t digest64() const;
  Hash128 digest128() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

std::uint64_t xxh3_64(const void* bytes, std::size_t size);
inline std::uint64_t xxh3_64(std::string_view bytes) {
  return xxh3_64(bytes.data(), bytes.size());
}
Hash128 xxh3_128(const void* bytes, std::size_t size);
inline Hash128 xxh3_128(std::string_view bytes) {
  return xxh3_128(bytes.data(), bytes.size());
}
std::uint64_t xxh3_64_of_file(const std::filesystem::path& path);
Hash128 xxh3_128_of_file(const std::filesystem::path& path);

/// SHA-256 (FIPS 180-4) over pieces.
class Sha256 {
 public:
  void update(const void* bytes, std::size_t size);
  void update(std::string_view bytes) { update(bytes.data(), bytes.size()); }
  /// Of everything so far; more may follow.
  std::array<std::uint8_t, 32> digest() const;

 private:
  void compress(const std::uint8_t* block);

  std::array<std::uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372,
                                         0xa54ff53a, 0x510e527f, 0x9b05688c,
                                         0x1f83d9ab, 0x5be0cd19};
  std::array<std::uint8_t, 64> block_{};
  std::uint64_t size_ = 0;
};

/// As 64 hexadecimal digits.
std::string sha256(std::string_view bytes);
std::string sha256_of_file(const std::filesystem::path& path);

}  // namespace osdn
