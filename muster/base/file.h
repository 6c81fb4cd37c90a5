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

/// A file that is written piece by piece and appears under its name as a whole, or not at all: a
/// temporary file beside it, as the umask has it, renamed by `commit`. Without that (an exception)
/// the destructor removes it and the old file stays. One thread. All throw environment errors.
class AtomicFile {
 public:
  explicit AtomicFile(std::filesystem::path path);
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  ~AtomicFile();

  void write(std::string_view bytes);

  /// With `sync`, file and folder are on the disk when it returns; without, a power cut may lose
  /// the file or its end (a kill of the process does not).
  void commit(bool sync = true);

 private:
  std::filesystem::path path_;
  std::string temporary_;  // empty after `commit`
  UniqueFd fd_;
};

/// Readers see the old file or the new one, never a part: temporary file beside it, fsync, rename,
/// fsync of the folder. A link stays, and its file is replaced; a device, a pipe or a socket is
/// written to as it is. Throws an environment error (unwritable, full) and leaves the old file and
/// no temporary behind.
void write_file_atomic(const std::filesystem::path& path, std::string_view bytes);

/// Creates the folder and its parents and checks that a file can be written in it.
/// Throws an environment error that names the folder and the reason; `what` is its role ("output
/// folder").
void make_writable_folder(const std::filesystem::path& folder, std::string_view what);

/// Makes earlier renames in `folder` durable. Throws an environment error.
void sync_folder(const std::filesystem::path& folder);

}  // namespace muster
