#include "osdn/core/host.h"

#include <unistd.h>

#include <array>

#include "osdn/core/env.h"

namespace osdn {

std::string host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return "";
  return name.data();
}

std::optional<std::string> launched_rank() {
  return launched_rank(env);
}

bool launched_with_others() {
  constexpr std::array kNames = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE",
                                 "SLURM_STEP_NUM_TASKS"};
  for (const char* name : kNames) {
    if (const auto size = env(name)) return *size != "1";
  }
  return true;
}

std::optional<std::string> launched_rank(
    const std::function<std::optional<std::string>(const std::string&)>&
        variable) {
  constexpr std::array kNames = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK",
                                 "PMI_RANK", "PMI_ID"};
  for (const char* name : kNames) {
    if (auto rank = variable(name)) return rank;
  }
  return {};
}

}  // namespace osdn
