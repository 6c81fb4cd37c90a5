#include "muster/launch/job/end_marks.h"

#include <system_error>

#include <fcntl.h>

#include "muster/base/ended_ranks.h"
#include "muster/base/file.h"

namespace muster::launch {

void EndMarks::add(int64_t rank) const {
  if (folder_.empty()) return;
  std::error_code ignored;
  std::filesystem::create_directory(folder_, ignored);
  const std::filesystem::path mark = ended_mark(folder_, master_port_, rank);
  const UniqueFd made(::open(mark.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
}

}  // namespace muster::launch
