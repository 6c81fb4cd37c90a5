// Files: read whole, written atomically. Paths in errors are as given.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace muster {

/// A file descriptor that closes itself.
class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(other.release()) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept;
  ~UniqueFd() { reset(); }

  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  int release();
  void reset(int fd = -1);

 private:
  int fd_ = -1;
};

/// Throws a usage error if the file is not there, an environment error if it cannot be read.
std::string read_file(const std::filesystem::path& path);

/// Writes all of `bytes` to `fd`, whatever the kernel takes at once. Throws an environment error
/// that names `path`.
void write_all(int fd, std::string_view bytes, const std::filesystem::path& path);

/// Readers see the old file or the new one, never a part: temporary file beside it, fsync, rename,
/// fsync of the folder. Throws an environment error (unwritable, full) and leaves the old file and
/// no temporary behind.
void write_file_atomic(const std::filesystem::path& path, std::string_view bytes);

/// Creates the folder and its parents and checks that a file can be written in it.
/// Throws an environment error that names the folder and the reason; `what` is its role ("output
/// folder").
void make_writable_folder(const std::filesystem::path& folder, std::string_view what);

/// Makes earlier renames in `folder` durable. Throws an environment error.
void sync_folder(const std::filesystem::path& folder);

}  // namespace muster
