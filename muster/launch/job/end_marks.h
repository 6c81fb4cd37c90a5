// What tells ranks that others of their machine have ended. Private to the room.
#pragma once

#include <cstdint>
#include <filesystem>
#include <utility>

namespace muster::launch {

/// The marks of one attempt, as muster/base/ended_ranks.h reads them. A mark that cannot be made (a
/// full disk) is left out: who waits for the rank then waits as long as without. Throws nothing.
class EndMarks {
 public:
  /// `folder` is empty where no logs are kept: then nothing is marked.
  EndMarks(std::filesystem::path folder, int64_t master_port)
      : folder_(std::move(folder)), master_port_(master_port) {}

  void add(int64_t rank) const;

 private:
  std::filesystem::path folder_;
  int64_t master_port_;
};

}  // namespace muster::launch
