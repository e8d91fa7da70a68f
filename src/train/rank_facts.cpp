#include "rank_facts.h"

#include <nlohmann/json.hpp>

#include "osdn/core/concat.h"
#include "osdn/core/hash.h"
#include "osdn/core/log.h"
#include "osdn/train/rank_devices.h"
#include "osdn/train/resume_rules.h"

namespace osdn::train {

namespace {

using nlohmann::json;

json to_json(const RankFacts& facts, const dist::Place& place) {
  return {{"program", facts.program},       {"config", facts.config},
          {"start", facts.start},           {"data", facts.data},
          {"validation", facts.validation}, {"device", facts.device},
          {"dtype", facts.dtype},           {"gpu_uuid", facts.gpu_uuid},
          {"where", facts.where},           {"host", place.host}};
}

std::string name_of(const std::vector<json>& ranks, std::size_t rank) {
  return rank_name(rank, ranks[rank]["host"].get<std::string>());
}

std::string config_difference(const json& a, const json& b) {
  std::string text;
  for (const KeyChange& change :
       changed_keys(a.get<std::string>(), b.get<std::string>())) {
    text +=
        concat("\n  ", change.key, ": ", change.before, " and ", change.after);
  }
  return text;
}

// How `rank` differs from rank 0; empty when it does not.
std::string difference(const std::vector<json>& ranks, std::size_t rank) {
  const json& first = ranks.front();
  const json& other = ranks[rank];
  if (first["config"] != other["config"]) {
    return concat("their configurations differ:",
                  config_difference(first["config"], other["config"]));
  }
  const auto differ = [&](const char* key, const char* what) {
    return first[key] == other[key]
               ? std::string()
               : concat(what, ": ", first[key].get<std::string>(), " and ",
                        other[key].get<std::string>());
  };
  for (const auto& [key, what] :
       {std::pair{"program",
                  "they run different builds of the program, hashes"},
        std::pair{"start", "their options differ"},
        std::pair{"data", "data.train holds different tokens, fingerprints"},
        std::pair{"validation",
                  "data.validation holds different tokens, fingerprints"},
        std::pair{"dtype", "they compute in different precisions"}}) {
    std::string text = differ(key, what);
    if (!text.empty()) return text;
  }
  return "";
}

}  // namespace

void check_ranks(dist::World& world, const RankFacts& facts, bool share_gpus) {
  std::vector<json> ranks;
  for (const std::string& text :
       world.all(to_json(facts, world.place()).dump())) {
    ranks.push_back(json::parse(text));
  }
  std::string problems;
  std::vector<RankDevice> devices;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const auto uuid = ranks[rank]["gpu_uuid"].get<std::string>();
    log::info(name_of(ranks, rank), ": ",
              ranks[rank]["where"].get<std::string>(), uuid.empty() ? "" : ", ",
              uuid);
    const std::string what = difference(ranks, rank);
    if (!what.empty()) {
      problems += concat("\n", name_of(ranks, 0), " and ", name_of(ranks, rank),
                         ": ", what);
    }
    devices.push_back({ranks[rank]["device"].get<std::string>(), uuid,
                       ranks[rank]["host"].get<std::string>()});
  }
  problems += device_problems(devices, share_gpus);
  if (!problems.empty()) {
    world.throw_agreed(concat("the ranks do not fit together:", problems),
                       ExitCode::kUsage);
  }
}

std::string start_text(const RunRequest& request) {
  std::string text = "--resume never";
  if (request.resume == ResumeMode::kAuto) {
    text = "--resume auto";
  } else if (request.resume == ResumeMode::kFrom) {
    text = concat("--resume ", request.resume_from.string());
  }
  return request.overwrite ? concat(text, " --overwrite") : text;
}

std::string program_hash() {
  return to_hex(xxh3_128_of_file("/proc/self/exe"));
}

}  // namespace osdn::train
