#pragma once
// Names in a folder of checkpoints, and what they stand for.
//
//   step_000000100            a checkpoint
//   step_000000100.tmp-4711   being written by process 4711
//   step_000000100.del        being deleted

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace osdn::checkpoint {

std::string folder_name(std::int64_t step);
std::string temporary_name(std::int64_t step);
std::string deleted_name(std::int64_t step);

/// The step of a checkpoint's name; nothing for any other name.
std::optional<std::int64_t> step_of(std::string_view name);

/// True for a name that a save or a deletion which no longer runs left behind.
bool is_leaving(std::string_view name);

}  // namespace osdn::checkpoint
