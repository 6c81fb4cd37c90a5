#include "muster/formats/tar/byte_source.h"

#include <cerrno>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "muster/base/error.h"
#include "muster/base/text.h"

namespace muster::formats {

FileBytes::FileBytes(const std::filesystem::path& path) : path_(path) {
  const std::string name = "file " + path.string();
  fd_.reset(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));  // a pipe is not waited for
  if (!fd_) {
    const int why = errno;
    if (why == ENOENT || why == ENOTDIR)
      throw usage_error({.refused = name, .rule = "there is no such file"});
    throw environment_error({.refused = name, .rule = "it can be read", .value = errno_text(why)});
  }
  struct stat found {};
  if (::fstat(fd_.get(), &found) != 0)
    throw environment_error(
        {.refused = name, .rule = "it can be read", .value = errno_text(errno)});
  if (!S_ISREG(found.st_mode)) {
    throw environment_error(
        {.refused = name,
         .rule = "it is a file",
         .value = S_ISDIR(found.st_mode) ? "a folder" : "a pipe, a socket or a device"});
  }
  size_ = found.st_size;
  ::posix_fadvise(fd_.get(), 0, 0, POSIX_FADV_RANDOM);  // advice: it is as good without
}

void FileBytes::read(int64_t offset, std::span<char> out) const {
  while (!out.empty()) {
    const ssize_t got = ::pread(fd_.get(), out.data(), out.size(), offset);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      throw environment_error(
          {.refused = "file " + path_.string(),
           .rule = concat("it can be read from offset ", offset, " on"),
           .value = got < 0 ? errno_text(errno) : "its end: it has become shorter meanwhile"});
    }
    out = out.subspan(static_cast<size_t>(got));
    offset += got;
  }
}

}  // namespace muster::formats
