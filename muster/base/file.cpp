#include "muster/base/file.h"

#include <utility>

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "muster/base/error.h"
#include "muster/base/path_names.h"
#include "muster/base/text.h"

namespace muster {
namespace {

/// How the names of temporary files begin. One that a kill left is nobody's, and can be told from
/// what people have made: the owner of a run's folder removes it.
constexpr std::string_view kUnfinished = ".unfinished-";

Error file_error(std::string_view doing, const std::filesystem::path& path, int errno_value) {
  std::string hint;
  if (errno_value == ENOSPC || errno_value == EDQUOT)
    hint = "free some space or choose another folder; earlier files are intact";
  if (errno_value == EACCES || errno_value == EROFS)
    hint = "choose a folder that this user may write";
  return environment_error({.refused = concat("cannot ", doing, " ", path.string()),
                            .rule = errno_text(errno_value),
                            .hint = hint});
}

constexpr size_t kTemporaryLetters = 6;

/// Creates a new file beside `path` of a name that nobody has, with kUnfinished in front and six
/// letters behind; as mkostemp, but for those that the umask lets in, as any file. -1 and errno if it cannot.
int create_beside(const std::filesystem::path& path, std::string& name) {
  constexpr std::string_view kLetters =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
  for (int tries = 0; tries < 100; ++tries) {
    unsigned char numbers[kTemporaryLetters];
    if (::getentropy(numbers, sizeof numbers) != 0) return -1;
    const size_t room = kLongestName - kUnfinished.size() - 1 - kTemporaryLetters;
    const std::string own = path.filename().string();
    // A name that is too long by itself stays so, and is refused.
    const std::string stem = own.size() > kLongestName ? own : own.substr(0, room);
    name = (path.parent_path() / concat(kUnfinished, stem, '-')).string();
    for (const unsigned char number : numbers) name += kLetters[number % kLetters.size()];
    const int fd = ::open(name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd >= 0 || errno != EEXIST) return fd;
  }
  return -1;
}

}  // namespace

UniqueFd& UniqueFd::operator=(UniqueFd&& other) noexcept {
  if (this != &other) reset(other.release());
  return *this;
}

int UniqueFd::release() { return std::exchange(fd_, -1); }

void UniqueFd::reset(int fd) {
  if (fd_ >= 0) ::close(fd_);
  fd_ = fd;
}

std::string read_file(const std::filesystem::path& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) {
    if (errno == ENOENT || errno == ENOTDIR)
      throw usage_error({.refused = "no such file: " + path.string()});
    throw file_error("open", path, errno);
  }
  std::string bytes;
  struct stat info {};
  if (::fstat(fd.get(), &info) == 0 && S_ISREG(info.st_mode))
    bytes.reserve(static_cast<size_t>(info.st_size));
  char buffer[1 << 16];
  for (;;) {
    const ssize_t got = ::read(fd.get(), buffer, sizeof buffer);
    if (got == 0) return bytes;
    if (got > 0) bytes.append(buffer, static_cast<size_t>(got));
    if (got < 0 && errno != EINTR) throw file_error("read", path, errno);
  }
}

void write_all(int fd, std::string_view bytes, const std::filesystem::path& path) {
  while (!bytes.empty()) {
    const ssize_t put = ::write(fd, bytes.data(), bytes.size());
    if (put >= 0) bytes.remove_prefix(static_cast<size_t>(put));
    if (put < 0 && errno != EINTR) throw file_error("write", path, errno);
  }
}

AtomicFile::AtomicFile(std::filesystem::path path) : path_(std::move(path)) {
  fd_.reset(create_beside(path_, temporary_));
  if (fd_) return;
  const int why = errno;
  throw file_error("create", path_, why);
}

AtomicFile::~AtomicFile() {
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void AtomicFile::write(std::string_view bytes) { write_all(fd_.get(), bytes, path_); }

void AtomicFile::commit(bool sync) {
  if (sync && ::fsync(fd_.get()) != 0) throw file_error("write", path_, errno);
  fd_.reset();
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) throw file_error("replace", path_, errno);
  temporary_.clear();
  if (sync) sync_folder(path_.has_parent_path() ? path_.parent_path() : ".");
}

void write_file_atomic(const std::filesystem::path& path, std::string_view bytes) {
  std::error_code none;
  const auto status = std::filesystem::status(path, none);
  const bool is_file = status.type() == std::filesystem::file_type::regular;
  const std::string text = path.string();
  if (exists(status) && !is_directory(status) &&
      (!is_file || text.starts_with("/dev/") || text.starts_with("/proc/"))) {
    const UniqueFd fd(::open(path.c_str(), O_WRONLY | O_TRUNC | O_CLOEXEC));
    if (!fd) throw file_error("open", path, errno);
    return write_all(fd.get(), bytes, path);
  }
  AtomicFile file(is_symlink(path, none) && is_file ? canonical(path) : path);
  file.write(bytes);
  file.commit();
}

void make_writable_folder(const std::filesystem::path& folder, std::string_view what) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) throw file_error(concat("create the ", what), folder, error.value());
  // A file without a name: a kill leaves nothing.
  if (const UniqueFd fd(::open(folder.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600)); fd) return;
  if (errno == EOPNOTSUPP || errno == EISDIR ||
      errno == ENOENT) {  // not every file system has those
    std::string probe = (folder / concat(kUnfinished, "write-test-XXXXXX")).string();
    const UniqueFd fd(::mkostemp(probe.data(), O_CLOEXEC));
    if (fd) {
      ::unlink(probe.c_str());
      return;
    }
  }
  throw file_error(concat("write into the ", what), folder, errno);
}

void sync_folder(const std::filesystem::path& folder) {
  const UniqueFd fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd) throw file_error("open", folder, errno);
  if (::fsync(fd.get()) != 0 && errno != EINVAL) throw file_error("sync", folder, errno);
}

}  // namespace muster
