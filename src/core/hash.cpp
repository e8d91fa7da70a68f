#include "osdn/core/hash.h"

#include <xxhash.h>

#include <new>
#include <vector>

#include "osdn/core/file.h"

namespace osdn {

namespace {

template <typename Bytes>
std::string hex_of(const Bytes& bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string out;
  for (const std::uint8_t byte : bytes) {
    out += kDigits[byte >> 4];
    out += kDigits[byte & 15];
  }
  return out;
}

std::array<std::uint8_t, 8> big_endian(std::uint64_t value) {
  std::array<std::uint8_t, 8> bytes{};
  for (std::size_t i = 0; i < 8; ++i) {
    bytes[i] = static_cast<std::uint8_t>(value >> (56 - 8 * i));
  }
  return bytes;
}

// Reads, not maps: a mapping of a file that shrinks would end the process.
template <typename Hasher>
void update_from_file(Hasher& hasher, const std::filesystem::path& path) {
  File file = File::open_read(path);
  std::vector<char> buffer(std::size_t{1} << 20);
  for (;;) {
    const std::size_t got = file.read(buffer.data(), buffer.size());
    hasher.update(buffer.data(), got);
    if (got < buffer.size()) {
      return;
    }
  }
}

}  // namespace

std::string to_hex(std::uint64_t hash) {
  return hex_of(big_endian(hash));
}

std::string to_hex(const Hash128& hash) {
  return to_hex(hash.high) + to_hex(hash.low);
}

std::string to_hex(const std::array<std::uint8_t, 32>& hash) {
  return hex_of(hash);
}

struct Xxh3::State {
  State() : state(XXH3_createState()) {
    if (state == nullptr) {
      throw std::bad_alloc();
    }
    XXH3_128bits_reset(state);
  }
  ~State() { XXH3_freeState(state); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  XXH3_state_t* state;
};

Xxh3::Xxh3() : state_(std::make_unique<State>()) {}
Xxh3::~Xxh3() = default;
Xxh3::Xxh3(Xxh3&&) noexcept = default;
Xxh3& Xxh3::operator=(Xxh3&&) noexcept = default;

void Xxh3::update(const void* bytes, std::size_t size) {
  // The 64- and the 128-bit form share their state and its update.
  XXH3_128bits_update(state_->state, bytes, size);
}

std::uint64_t Xxh3::digest64() const {
  return XXH3_64bits_digest(state_->state);
}

Hash128 Xxh3::digest128() const {
  const XXH128_hash_t hash = XXH3_128bits_digest(state_->state);
  return {hash.high64, hash.low64};
}

std::uint64_t xxh3_64(const void* bytes, std::size_t size) {
  return XXH3_64bits(bytes, size);
}

Hash128 xxh3_128(const void* bytes, std::size_t size) {
  const XXH128_hash_t hash = XXH3_128bits(bytes, size);
  return {hash.high64, hash.low64};
}

std::uint64_t xxh3_64_of_file(const std::filesystem::path& path) {
  Xxh3 hasher;
  update_from_file(hasher, path);
  return hasher.digest64();
}

Hash128 xxh3_128_of_file(const std::filesystem::path& path) {
  Xxh3 hasher;
  update_from_file(hasher, path);
  return hasher.digest128();
}

std::string sha256(std::string_view bytes) {
  Sha256 hasher;
  hasher.update(bytes);
  return to_hex(hasher.digest());
}

std::string sha256_of_file(const std::filesystem::path& path) {
  Sha256 hasher;
  update_from_file(hasher, path);
  return to_hex(hasher.digest());
}

}  // namespace osdn
