#pragma once
// A folder of shards that appears under its name complete, or not at all.

#include <filesystem>
#include <string>

namespace osdn::data {

/// Files are made in "<path>.partial", which commit() renames. Destroyed
/// without it, that folder is removed; one that a killed run left is taken over
/// by the next. Two runs that write to the same path at once are noticed.
class OutputFolder {
 public:
  /// Throws Error (kUsage) when `path` exists and holds something, unless
  /// `overwrite` is set and it holds nothing but token shards.
  OutputFolder(const std::filesystem::path& path, bool overwrite);
  ~OutputFolder();
  OutputFolder(const OutputFolder&) = delete;
  OutputFolder& operator=(const OutputFolder&) = delete;

  /// Where the files are to be made.
  const std::filesystem::path& working_path() const { return partial_; }
  /// Everything in it must be on disk already.
  void commit();

 private:
  std::filesystem::path path_;
  std::filesystem::path partial_;
  int lock_ = -1;
  bool committed_ = false;
};

}  // namespace osdn::data
