// What one stream of a trial wrote, on disk. Private to the room.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "muster/base/file.h"

namespace muster::tune {

/// Appends to a file that is made at the first byte, so that silent trials leave none. Bounded: a
/// file of kMaxBytes becomes NAME.1, in place of an older one, so that the newest half at least
/// stays. One thread.
class TrialLog {
 public:
  static constexpr uint64_t kMaxBytes = 32 << 20;

  explicit TrialLog(std::filesystem::path path, uint64_t max_bytes = kMaxBytes)
      : path_(std::move(path)), max_bytes_(max_bytes) {}

  /// Empty, or, once, why nothing more will be written.
  std::string write(std::string_view bytes);

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  uint64_t max_bytes_;
  UniqueFd fd_;
  uint64_t size_ = 0;
  bool given_up_ = false;
};

}  // namespace muster::tune
