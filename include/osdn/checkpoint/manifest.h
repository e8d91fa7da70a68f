#pragma once
// manifest.json of a checkpoint folder: what has to be in it. It is written
// last, so a folder without one was never finished.

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace osdn::checkpoint {

inline constexpr std::string_view kManifestName = "manifest.json";

struct ManifestFile {
  std::string name;
  std::uint64_t size = 0;
  std::uint64_t xxh3 = 0;  ///< XXH3-64 of its bytes
};

struct Manifest {
  std::int64_t step = 0;
  std::string commit;  ///< of the program that wrote it
  std::string time;    ///< UTC, 2026-01-31T23:59:59Z
  std::vector<ManifestFile> files;
};

/// Written and synced. The text holds its own checksum.
void write_manifest(const std::filesystem::path& folder,
                    const Manifest& manifest);

/// Throws Error (kBadInput) naming the file and what is wrong with it.
Manifest read_manifest(const std::filesystem::path& folder);

enum class Depth { kSizes, kChecksums };

/// Are the manifest's files there and as it says? Empty, or what is wrong.
std::string find_damage(const std::filesystem::path& folder,
                        const Manifest& manifest, Depth depth);

}  // namespace osdn::checkpoint
