#include "muster/formats/image/divided_folders.h"

#include <cerrno>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "muster/base/error.h"
#include "muster/base/file.h"
#include "muster/base/path_names.h"
#include "muster/base/text.h"
#include "muster/formats/partial_folder.h"

namespace muster::formats {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse_read(const fs::path& path, std::string value) {
  throw environment_error({.refused = path.string(),
                           .rule = "it is a file that can be read",
                           .value = std::move(value),
                           .hint = "mend it, or leave it out"});
}

/// Throws for what cannot be divided, which would else be said of where it goes.
void check_readable(const fs::path& from) {
  struct stat found {};
  if (::stat(from.c_str(), &found) != 0) {
    const int why = errno;
    std::error_code ignored;
    const bool is_link = fs::is_symlink(fs::symlink_status(from, ignored));
    refuse_read(
        from,
        is_link && why == ENOENT ? std::string("a link that leads nowhere") : errno_text(why));
  }
  if (!S_ISREG(found.st_mode)) refuse_read(from, "a pipe, a socket or a device");
}

/// With its permissions and its time of change.
void copy_bytes(const fs::path& from, const fs::path& to) {
  constexpr size_t kBytesAtOnce = 1 << 18;
  const UniqueFd in(::open(from.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat found {};
  if (!in || ::fstat(in.get(), &found) != 0) refuse_read(from, errno_text(errno));
  const UniqueFd out(::open(to.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!out) refuse_write(to, errno);
  std::string bytes(kBytesAtOnce, '\0');
  for (;;) {
    const ssize_t got = ::read(in.get(), bytes.data(), bytes.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) refuse_read(from, errno_text(errno));
    if (got == 0) break;
    write_all(out.get(), std::string_view(bytes).substr(0, static_cast<size_t>(got)), to);
  }
  const timespec times[2] = {found.st_atim, found.st_mtim};
  if (::fchmod(out.get(), found.st_mode & 07777) != 0 || ::futimens(out.get(), times) != 0)
    refuse_write(to, errno);
}

void transfer(const fs::path& from, const fs::path& to, FileTransfer how) {
  check_readable(from);
  if (how == FileTransfer::kLink) {
    if (::linkat(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), AT_SYMLINK_FOLLOW) != 0)
      refuse_write(to, errno, "where no hard link can lead, copy the files: --copy");
    return;
  }
  copy_bytes(from, to);
}

}  // namespace

std::vector<size_t> divide_files(const ClassFolders& files,
                                 const std::vector<double>& shares,
                                 uint64_t seed) {
  std::vector<int64_t> labels;
  labels.reserve(files.files.size());
  for (const ClassFile& file : files.files) labels.push_back(file.label);
  return divide_labels(labels, files.classes, shares, seed);
}

bool write_divided_folders(const ClassFolders& files,
                           const std::vector<size_t>& part_of,
                           const std::vector<std::string>& names,
                           const fs::path& said,
                           FileTransfer how,
                           const DivisionStops& stops) {
  const fs::path target = without_slash(said);
  require_apart(files.root, target);
  for (const std::string& name : files.classes) require_apart(files.root / name, target);
  require_absent(target);
  PartialFolder partial(target);
  std::set<fs::path> made;
  for (size_t at = 0; at < files.files.size(); ++at) {
    if (stops && stops()) return false;
    const fs::path to = partial.path() / names[part_of[at]] / files.files[at].path;
    std::error_code failed;
    if (made.insert(to.parent_path()).second) fs::create_directories(to.parent_path(), failed);
    if (failed) refuse_write(to.parent_path(), failed.value());
    transfer(files.path_of(at), to, how);
  }
  partial.rename_to(target);
  return true;
}

}  // namespace muster::formats
