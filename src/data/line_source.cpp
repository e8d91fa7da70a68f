#include "line_source.h"

#include "osdn/core/concat.h"
#include "osdn/core/error.h"

namespace osdn::data {

namespace {
constexpr std::size_t kReadBytes = std::size_t{256} << 10;
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
}  // namespace

LineSource::LineSource(const std::filesystem::path& path,
                       std::uint64_t max_line_bytes)
    : path_(path),
      max_line_bytes_(max_line_bytes),
      stream_(open_byte_stream(path)) {
  fill();
  if (std::string_view(buffer_).starts_with(kByteOrderMark)) {
    begin_ = kByteOrderMark.size();
    offset_ = begin_;
  }
}

bool LineSource::fill() {
  buffer_.erase(0, begin_);
  begin_ = 0;
  const std::size_t before = buffer_.size();
  buffer_.resize(before + kReadBytes);
  const std::size_t got = stream_->read(buffer_.data() + before, kReadBytes);
  buffer_.resize(before + got);
  return got > 0;
}

bool LineSource::next(Line& line) {
  std::size_t searched = 0;
  std::size_t end = 0;
  bool ended = true;
  while ((end = buffer_.find('\n', begin_ + searched)) == std::string::npos) {
    searched = buffer_.size() - begin_;
    if (searched > max_line_bytes_) {
      break;
    }
    if (!fill()) {
      end = buffer_.size();
      ended = false;
      break;
    }
  }
  const std::size_t size = end == std::string::npos ? searched : end - begin_;
  if (size > max_line_bytes_) {
    throw Error(
        concat(path_.string(), ": line ", number_ + 1, ", offset ", offset_,
               ": the line has more than ", max_line_bytes_,
               " bytes, the limit for a document; split it or raise the limit"),
        ExitCode::kBadInput);
  }
  if (size == 0 && !ended) {
    return false;
  }
  line.text = std::string_view(buffer_).substr(begin_, size);
  line.ended = ended;
  line.number = ++number_;
  line.offset = offset_;
  const std::size_t step = size + (ended ? 1 : 0);
  begin_ += step;
  offset_ += step;
  return true;
}

}  // namespace osdn::data
