#include "muster/base/kernel_file.h"

#include <cerrno>

#include <fcntl.h>
#include <unistd.h>

#include "muster/base/file.h"

namespace muster {

std::optional<std::string> read_kernel_file(const std::filesystem::path& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return std::nullopt;
  std::string text;
  char bytes[4096];
  while (true) {
    const ssize_t count = ::read(fd.get(), bytes, sizeof bytes);
    if (count == 0) return text;
    if (count > 0)
      text.append(bytes, static_cast<size_t>(count));
    else if (errno != EINTR)
      return std::nullopt;
  }
}

}  // namespace muster
