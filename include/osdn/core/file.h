#pragma once
// Files: whole or in parts, written so that a reader never sees half of one.
//
// Every failure is an Error that names the file, the offset where there is one
// and the system's reason. What cannot be read is ExitCode::kBadInput, what
// cannot be written ExitCode::kFailure. Sizes and offsets have 64 bits.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace osdn {

/// An open file; closed by the destructor. Reads and writes are complete:
/// interrupted and partial calls are continued.
class File {
 public:
  static File open_read(const std::filesystem::path& path);
  /// Created, or emptied when it exists; readable too.
  static File create(const std::filesystem::path& path);
  /// An existing file for reading and writing.
  static File open_update(const std::filesystem::path& path);
  /// Created when missing; every write goes to the end.
  static File open_append(const std::filesystem::path& path);

  File() = default;
  ~File();
  File(File&& other) noexcept;
  File& operator=(File&& other) noexcept;
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  bool is_open() const { return descriptor_ >= 0; }
  int descriptor() const { return descriptor_; }
  const std::filesystem::path& path() const { return path_; }

  /// Up to `size` bytes from the current place; less only at the end.
  std::size_t read(void* out, std::size_t size);
  /// Exactly `size` bytes at `offset`; an end before that is an Error.
  void read_at(std::uint64_t offset, void* out, std::size_t size) const;
  void write(const void* bytes, std::size_t size);
  void write(std::string_view bytes) { write(bytes.data(), bytes.size()); }
  void write_at(std::uint64_t offset, const void* bytes, std::size_t size);

  std::uint64_t size() const;
  void truncate(std::uint64_t size);
  /// fsync: on disk when this returns.
  void sync();
  /// Closes and reports what close() has to say, which the destructor cannot.
  void close();

 private:
  File(std::filesystem::path path, int flags);

  std::filesystem::path path_;
  int descriptor_ = -1;
};

/// A file that appears under its name complete and on disk, or not at all:
/// written to "<name>.tmp-<process>-<count>" beside it, and on commit() synced,
/// renamed over `path`, and the folder synced. Destroyed without commit(), the
/// temporary file is removed and `path` is as it was.
class AtomicFile {
 public:
  explicit AtomicFile(const std::filesystem::path& path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  File& file() { return file_; }
  const std::filesystem::path& path() const { return path_; }
  void commit();

 private:
  std::filesystem::path path_;
  std::filesystem::path temporary_;
  File file_;
  bool committed_ = false;
};

/// A whole file, read-only, in the address space. A file that another process
/// cuts while it is mapped ends this process (SIGBUS), as with any mapping.
class MappedFile {
 public:
  enum class Access { kNormal, kSequential, kRandom };

  MappedFile() = default;
  explicit MappedFile(const std::filesystem::path& path,
                      Access access = Access::kNormal);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::uint64_t size() const { return size_; }
  const std::byte* data() const { return data_; }
  std::span<const std::byte> bytes() const {
    return {data_, static_cast<std::size_t>(size_)};
  }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  const std::byte* data_ = nullptr;
  std::uint64_t size_ = 0;
};

std::string read_file(const std::filesystem::path& path);
std::uint64_t size_of_file(const std::filesystem::path& path);

/// AtomicFile in one call.
void write_file_atomic(const std::filesystem::path& path,
                       std::string_view content);

/// Renames and makes it last: the folders of both names are synced.
void rename_synced(const std::filesystem::path& from,
                   const std::filesystem::path& to);

/// fsync of a folder, so that the names in it are on disk.
void sync_folder(const std::filesystem::path& folder);

}  // namespace osdn
