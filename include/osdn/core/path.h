#pragma once
// A look at what stands at a path, without the file system's exceptions.

#include <filesystem>
#include <vector>

namespace osdn {

/// What stands at a path; false, too, where that cannot be told (links that go
/// round in circles, a folder that may not be entered): opening it says why.
bool is_there(const std::filesystem::path& path);
bool is_folder(const std::filesystem::path& path);

/// What is in a folder and is no folder itself, by name. Throws Error
/// (kBadInput) when it cannot be listed.
std::vector<std::filesystem::path> files_in(
    const std::filesystem::path& folder);

/// Where a file of this name is written: a symbolic link's target, else the
/// path itself. Throws Error (kUsage) for a device, pipe or socket, which a
/// rename would put an end to.
std::filesystem::path file_to_write(const std::filesystem::path& path);

/// Throws Error (kUsage) when no file can be made under this name: for hours of
/// work whose result goes there at the end. Leaves nothing behind.
void check_creatable(const std::filesystem::path& path);

/// The same of files in a folder, which need not be there yet.
void check_folder_creatable(const std::filesystem::path& folder);

}  // namespace osdn
