#include "invocation.h"

#include <nlohmann/json.hpp>

#include "osdn/core/file.h"
#include "osdn/core/utc_time.h"
#include "osdn/core/version.h"

namespace osdn::train {

void record_invocation(const std::filesystem::path& run_dir,
                       const std::vector<std::string>& command_line,
                       std::int64_t from_step,
                       const std::filesystem::path& checkpoint) {
  const nlohmann::ordered_json line = {
      {"time", utc_now()},      {"command", command_line},
      {"version", version()},   {"commit", commit()},
      {"from_step", from_step}, {"checkpoint", checkpoint.string()}};
  File file = File::open_append(run_dir / "invocations.jsonl");
  // A command line may hold bytes that are no UTF-8.
  file.write(line.dump(-1, ' ', false,
                       nlohmann::ordered_json::error_handler_t::replace) +
             "\n");
  file.sync();
}

}  // namespace osdn::train
