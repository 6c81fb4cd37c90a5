#include "cli/exec_torch.h"

#include <filesystem>
#include <vector>

#include <errno.h>
#include <unistd.h>

#include "muster/base/error.h"

namespace muster::cli {

void exec_torch(const std::string& command, std::span<const std::string> args) {
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe");
  const std::string sibling = (self.parent_path() / "muster-torch").string();
  std::vector<char*> argv{const_cast<char*>("muster"), const_cast<char*>(command.c_str())};
  for (const std::string& arg : args) argv.push_back(const_cast<char*>(arg.c_str()));
  argv.push_back(nullptr);
  ::execv(sibling.c_str(), argv.data());
  throw environment_error(
      {.refused = "cannot start " + sibling,
       .rule = errno_text(errno),
       .hint = "`muster " + command + "` needs LibTorch; build with -DMUSTER_WITH_TORCH=ON"});
}

}  // namespace muster::cli
