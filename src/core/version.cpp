#include "osdn/core/version.h"

#include "osdn/core/concat.h"
#include "osdn_version.h"  // written by cmake/OsdnVersion.cmake

namespace osdn {

std::string version() {
  return OSDN_VERSION;
}

std::string commit() {
  return OSDN_COMMIT;
}

std::string version_line(std::string_view program) {
  return concat(program, " ", version(), " (", commit(), ")");
}

}  // namespace osdn
