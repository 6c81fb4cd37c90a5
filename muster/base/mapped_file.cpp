#include "muster/base/mapped_file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "muster/base/error.h"
#include "muster/base/file.h"

namespace muster {

std::shared_ptr<MappedFile> MappedFile::open(const std::filesystem::path& path) {
  // O_NONBLOCK: a FIFO without a writer is refused below instead of waited for.
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd && (errno == ENOENT || errno == ENOTDIR))
    throw usage_error({.refused = "no such file: " + path.string()});
  struct stat info {};
  if (!fd || ::fstat(fd.get(), &info) != 0)
    throw environment_error({.refused = "cannot open " + path.string(), .rule = errno_text(errno)});
  if (!S_ISREG(info.st_mode)) throw usage_error({.refused = path.string() + " is not a file"});
  const auto size = static_cast<size_t>(info.st_size);
  if (size == 0) return std::shared_ptr<MappedFile>(new MappedFile(nullptr, 0));
  // NORESERVE: written pages are few, so memory for all of them need not be set aside.
  void* data = ::mmap(
      nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, fd.get(), /*offset=*/0);
  if (data == MAP_FAILED)
    throw environment_error({.refused = "cannot map " + path.string(), .rule = errno_text(errno)});
  ::madvise(data, size, MADV_WILLNEED);  // advice: a failure changes nothing
  return std::shared_ptr<MappedFile>(new MappedFile(static_cast<char*>(data), size));
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(data_, size_);
}

}  // namespace muster
