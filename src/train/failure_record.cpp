#include "failure_record.h"

#include <exception>

#include "osdn/checkpoint/run_dir.h"
#include "osdn/core/concat.h"
#include "osdn/core/file.h"
#include "osdn/core/utc_time.h"

namespace osdn::train {

void record_failure(const std::filesystem::path& run_dir, int rank,
                    const std::string& line) noexcept {
  try {
    File::open_append(run_dir / checkpoint::kFailuresName)
        .write(concat(utc_now(), " rank ", rank, ": ", line));
  } catch (const std::exception&) {
    return;
  }
}

}  // namespace osdn::train
