// The shipped configurations have exactly the parameters of layers.md 9; each
// that is named is there in both published sizes and in one for tests.

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "osdn/arch/dry_run.h"
#include "osdn/arch/parameter_table.h"
#include "osdn/config/reader.h"

namespace osdn::arch {
namespace {

struct Shipped {
  const char* name;
  std::int64_t parameters;
};

const std::vector<Shipped>& shipped() {
  static const std::vector<Shipped> all = {
      {"340m_deltanet", 374362112},
      {"340m_osdn", 374386688},
      {"340m_osdn_apf", 374583488},
      {"340m_gdn", 379888124},
      {"340m_gdn_osdn", 379904252},
      {"340m_gdn_osdn_apf", 380033402},
      {"340m_kda", 373600312},
      {"340m_kda_osdn", 373623864},
      {"340m_kda_osdn_apf", 373812464},
      {"1.3b_deltanet", 1365677056},
      {"1.3b_osdn", 1365726208},
      {"1.3b_osdn_apf", 1366513024},
      {"1.3b_gdn", 1387348732},
      {"1.3b_gdn_osdn", 1387380988},
      {"1.3b_gdn_osdn_apf", 1387639162},
      {"1.3b_kda", 1390941568},
      {"1.3b_kda_osdn", 1390990720},
      {"1.3b_kda_osdn_apf", 1391777536},
      // 24 (4 h^2 + 3 h i + 2 h) + 2 vocab h + h
      {"340m_transformer", 373867520},
      {"1.3b_transformer", 1364297728},
  };
  return all;
}

TEST(ShippedCounts, published_sizes_are_exact_and_printed) {
  for (const Shipped& one : shipped()) {
    const config::Config config = config::load(
        {std::string(OSDN_SOURCE_DIR) + "/configs/" + one.name, {}});
    EXPECT_EQ(count_parameters(parameter_table(config.model)).total,
              one.parameters)
        << one.name;
    EXPECT_NE(dry_run_report(config).find("total_parameters = " +
                                          std::to_string(one.parameters)),
              std::string::npos)
        << one.name;
  }
}

TEST(ShippedCounts, every_kind_has_every_size) {
  for (const std::string size : {"340m", "1.3b", "quickstart"}) {
    for (const std::string kind :
         {"deltanet", "osdn", "osdn_apf", "gdn", "gdn_osdn", "gdn_osdn_apf",
          "kda", "kda_osdn", "kda_osdn_apf", "transformer"}) {
      EXPECT_TRUE(
          std::filesystem::exists(std::filesystem::path(OSDN_SOURCE_DIR) /
                                  "configs" / (size + "_" + kind + ".json")))
          << size << " " << kind;
    }
  }
}

TEST(ShippedCounts, no_published_size_is_left_out) {
  std::set<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(
           std::filesystem::path(OSDN_SOURCE_DIR) / "configs")) {
    const std::string name = entry.path().stem().string();
    if (name.find("quickstart") == std::string::npos) {
      files.insert(name);
    }
  }
  std::set<std::string> named;
  for (const Shipped& one : shipped()) named.insert(one.name);
  EXPECT_EQ(files, named);
}

// One of each kind, small enough for tests; the counts follow from the
// formulas of layers.md 9 with h = 192, i = 512, L = 4 and 2,000 tokens.
TEST(ShippedCounts, a_small_size_of_each_kind) {
  const std::int64_t h = 192, i = 512, L = 4, W = 4;
  const auto model = [&](std::int64_t layer) {
    return L * layer + 2 * 2000 * h + h;
  };
  const auto common = [&](std::int64_t HV, std::int64_t K, std::int64_t V) {
    const std::int64_t kd = HV * K, vd = HV * V;
    return 2 * h * kd + 2 * h * vd + h * HV + W * (2 * kd + vd) + V + 2 * h +
           3 * h * i;
  };
  const std::int64_t deltanet = common(3, 64, 64);
  const std::int64_t gdn = common(3, 48, 96) + h * 288 + h * 3 + 6;
  const std::int64_t kda =
      common(3, 64, 64) + 2 * h * 64 + 64 * 192 + 64 * 192 + 192 + 3 + 192;
  const std::int64_t apf = 3 * (h + 1);
  const std::vector<std::pair<std::string, std::int64_t>> expected = {
      {"deltanet", model(deltanet)},
      {"osdn", model(deltanet + 192)},
      {"osdn_apf", model(deltanet + 192 + apf)},
      {"gdn", model(gdn)},
      {"gdn_osdn", model(gdn + 144)},
      {"gdn_osdn_apf", model(gdn + 144 + apf)},
      {"kda", model(kda)},
      {"kda_osdn", model(kda + 192)},
      {"kda_osdn_apf", model(kda + 192 + apf)},
      {"transformer", model(4 * h * h + 2 * h + 3 * h * i)},
  };
  for (const auto& [name, parameters] : expected) {
    const config::Config config = config::load(
        {std::string(OSDN_SOURCE_DIR) + "/configs/quickstart_" + name, {}});
    EXPECT_EQ(count_parameters(parameter_table(config.model)).total, parameters)
        << name;
  }
}

}  // namespace
}  // namespace osdn::arch
