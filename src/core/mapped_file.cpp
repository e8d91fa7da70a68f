#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "osdn/core/concat.h"
#include "osdn/core/error.h"
#include "osdn/core/file.h"
#include "osdn/core/narrow.h"

namespace osdn {

namespace {

int advice_for(MappedFile::Access access) {
  switch (access) {
    case MappedFile::Access::kSequential:
      return MADV_SEQUENTIAL;
    case MappedFile::Access::kRandom:
      return MADV_RANDOM;
    case MappedFile::Access::kNormal:
      break;
  }
  return MADV_NORMAL;
}

void unmap(const std::byte* data, std::uint64_t size) {
  if (data != nullptr) {
    ::munmap(const_cast<std::byte*>(data), static_cast<std::size_t>(size));
  }
}

}  // namespace

MappedFile::MappedFile(const std::filesystem::path& path, Access access)
    : path_(path) {
  const File file = File::open_read(path);
  size_ = file.size();
  if (size_ == 0) {
    return;  // mmap refuses an empty range; an empty file is data() == null
  }
  const auto length = narrow<std::size_t>(size_, path.string() + ": size");
  void* mapped =
      ::mmap(nullptr, length, PROT_READ, MAP_SHARED, file.descriptor(), 0);
  if (mapped == MAP_FAILED) {
    throw Error(concat(path.string(), ": ", size_,
                       " bytes cannot be mapped: ", std::strerror(errno)),
                ExitCode::kBadInput);
  }
  data_ = static_cast<const std::byte*>(mapped);
  ::madvise(mapped, length, advice_for(access));
}

MappedFile::~MappedFile() {
  unmap(data_, size_);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  if (this != &other) {
    unmap(data_, size_);
    path_ = std::move(other.path_);
    data_ = std::exchange(other.data_, nullptr);
    size_ = std::exchange(other.size_, 0);
  }
  return *this;
}

}  // namespace osdn
