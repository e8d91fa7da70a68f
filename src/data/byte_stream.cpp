#include "osdn/data/byte_stream.h"

#include <zstd.h>

#include <new>
#include <string>
#include <utility>
#include <vector>

#include "osdn/core/concat.h"
#include "osdn/core/error.h"
#include "osdn/core/file.h"

namespace osdn::data {

namespace {

class PlainStream : public ByteStream {
 public:
  explicit PlainStream(const std::filesystem::path& path)
      : file_(File::open_read(path)) {}

  std::size_t read(void* out, std::size_t size) override {
    const std::size_t got = file_.read(out, size);
    offset_ += got;
    return got;
  }
  std::uint64_t file_offset() const override { return offset_; }

 private:
  File file_;
  std::uint64_t offset_ = 0;
};

class ZstdStream : public ByteStream {
 public:
  explicit ZstdStream(const std::filesystem::path& path)
      : file_(File::open_read(path)),
        context_(ZSTD_createDCtx()),
        packed_(ZSTD_DStreamInSize()) {
    if (context_ == nullptr) {
      throw std::bad_alloc();
    }
  }

  std::size_t read(void* out, std::size_t size) override {
    ZSTD_outBuffer output = {out, size, 0};
    while (output.pos < output.size) {
      if (input_.pos == input_.size && !refill()) {
        // What the last block left inside the decoder still has to come out.
        if (!inside_frame_) {
          break;
        }
        const std::size_t before = output.pos;
        unpack(output);
        if (output.pos == before) {
          throw Error(concat(file_.path().string(),
                             ": the compressed data end at offset ", read_,
                             " in the middle of a frame; the file was cut "
                             "short, make it or fetch it again"),
                      ExitCode::kBadInput);
        }
        continue;
      }
      unpack(output);
    }
    return output.pos;
  }

  std::uint64_t file_offset() const override {
    return read_ - (input_.size - input_.pos);
  }

 private:
  bool refill() {
    const std::size_t got = file_.read(packed_.data(), packed_.size());
    read_ += got;
    input_ = {packed_.data(), got, 0};
    return got > 0;
  }

  void unpack(ZSTD_outBuffer& output) {
    const std::uint64_t at = file_offset();
    const std::size_t left =
        ZSTD_decompressStream(context_.get(), &output, &input_);
    if (ZSTD_isError(left) != 0) {
      throw Error(concat(file_.path().string(),
                         ": the compressed data at or after offset ", at,
                         " are damaged: ", ZSTD_getErrorName(left)),
                  ExitCode::kBadInput);
    }
    inside_frame_ = left != 0;
  }

  struct FreeContext {
    void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
  };

  File file_;
  std::unique_ptr<ZSTD_DCtx, FreeContext> context_;
  std::vector<char> packed_;
  ZSTD_inBuffer input_ = {nullptr, 0, 0};
  std::uint64_t read_ = 0;
  // True at the start: an empty file is no .zst file either.
  bool inside_frame_ = true;
};

}  // namespace

std::unique_ptr<ByteStream> open_byte_stream(
    const std::filesystem::path& path) {
  if (path.extension() == ".zst") {
    return std::make_unique<ZstdStream>(path);
  }
  return std::make_unique<PlainStream>(path);
}

}  // namespace osdn::data
