#include "osdn/checkpoint/manifest.h"

#include <charconv>
#include <nlohmann/json.hpp>

#include "osdn/core/concat.h"
#include "osdn/core/error.h"
#include "osdn/core/file.h"
#include "osdn/core/hash.h"
#include "osdn/core/path.h"

namespace osdn::checkpoint {

namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

constexpr std::string_view kFormat = "osdn-checkpoint/1";

[[noreturn]] void fail(const fs::path& path, const std::string& what) {
  throw Error(concat(path.string(), ": ", what), ExitCode::kBadInput);
}

ordered_json to_json(const Manifest& manifest) {
  ordered_json files = ordered_json::array();
  for (const ManifestFile& file : manifest.files) {
    files.push_back({{"name", file.name},
                     {"size", file.size},
                     {"xxh3", to_hex(file.xxh3)}});
  }
  return {{"format", kFormat},
          {"step", manifest.step},
          {"commit", manifest.commit},
          {"time", manifest.time},
          {"files", files}};
}

// Over the text of everything else.
std::string checksum_of(const ordered_json& manifest) {
  return to_hex(xxh3_64(manifest.dump()));
}

std::string to_text(const ordered_json& manifest) {
  return manifest.dump(2) + "\n";
}

std::uint64_t from_hex(const std::string& text, const fs::path& path) {
  std::uint64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, value, 16);
  if (text.size() != 16 || result.ec != std::errc() || result.ptr != end) {
    fail(path,
         concat("\"", text, "\" is not a checksum of 16 hexadecimal digits"));
  }
  return value;
}

}  // namespace

void write_manifest(const fs::path& folder, const Manifest& manifest) {
  ordered_json object = to_json(manifest);
  object["checksum"] = checksum_of(object);
  File file = File::create(folder / kManifestName);
  file.write(to_text(object));
  file.sync();
  file.close();
}

Manifest read_manifest(const fs::path& folder) {
  const fs::path path = folder / kManifestName;
  if (!is_there(path)) {
    fail(folder, concat("has no ", kManifestName, ": it was never finished"));
  }
  Manifest manifest;
  try {
    const std::string text = read_file(path);
    ordered_json object = ordered_json::parse(text);
    const auto format = object.at("format").get<std::string>();
    if (format != kFormat) {
      fail(path, concat("has format \"", format, "\", this program reads \"",
                        kFormat, "\""));
    }
    // White space included: a checkpoint is as it was written or it is not.
    if (text != to_text(object)) {
      fail(path, "is not as it was written; it was changed or damaged");
    }
    const auto checksum = object.at("checksum").get<std::string>();
    object.erase("checksum");
    if (checksum != checksum_of(object)) {
      fail(path, concat("its checksum is ", checksum_of(object),
                        ", but it says ", checksum, "; it was damaged"));
    }
    manifest.step = object.at("step").get<std::int64_t>();
    manifest.commit = object.at("commit").get<std::string>();
    manifest.time = object.at("time").get<std::string>();
    for (const ordered_json& entry : object.at("files")) {
      manifest.files.push_back(
          {entry.at("name").get<std::string>(),
           entry.at("size").get<std::uint64_t>(),
           from_hex(entry.at("xxh3").get<std::string>(), path)});
    }
  } catch (const ordered_json::exception& error) {
    fail(path, concat("is not a manifest: ", error.what()));
  }
  return manifest;
}

std::string find_damage(const fs::path& folder, const Manifest& manifest,
                        Depth depth) {
  for (const ManifestFile& file : manifest.files) {
    const fs::path path = folder / file.name;
    try {
      const std::uint64_t size = size_of_file(path);
      if (size != file.size) {
        return concat(file.name, " has ", size, " bytes, expected ", file.size);
      }
      if (depth == Depth::kChecksums) {
        const std::uint64_t xxh3 = xxh3_64_of_file(path);
        if (xxh3 != file.xxh3) {
          return concat(file.name, " has checksum ", to_hex(xxh3),
                        ", expected ", to_hex(file.xxh3));
        }
      }
    } catch (const Error& error) {
      return error.what();
    }
  }
  return {};
}

}  // namespace osdn::checkpoint
