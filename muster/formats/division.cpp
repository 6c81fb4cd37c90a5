#include "muster/formats/division.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "muster/base/digest.h"
#include "muster/base/error.h"
#include "muster/base/path_names.h"
#include "muster/base/philox.h"
#include "muster/base/text.h"
#include "muster/formats/partial_folder.h"

namespace muster::formats {
namespace {

namespace fs = std::filesystem;

void check_shares(const std::vector<double>& shares) {
  const double sum = std::accumulate(shares.begin(), shares.end(), 0.0);
  const bool positive = std::ranges::all_of(shares, [](double share) { return share > 0; });
  if (shares.size() >= 2 && positive && std::abs(sum - 1) < 1e-5) return;
  std::vector<std::string> said;
  said.reserve(shares.size());
  for (const double share : shares) said.push_back(shortest(share));
  throw usage_error({.refused = "shares of a division",
                     .rule = "two or more, each above 0, which add up to 1",
                     .value = join(said, ",")});
}

std::vector<size_t> counts_of(size_t files, const std::vector<double>& shares) {
  std::vector<size_t> counts;
  std::vector<double> lost;
  for (const double share : shares) {
    const double exact = share * static_cast<double>(files);
    const double whole = std::floor(exact + 1e-9);
    counts.push_back(static_cast<size_t>(whole));
    lost.push_back(exact - whole);
  }
  size_t left = files - std::min(files, std::accumulate(counts.begin(), counts.end(), size_t{0}));
  for (; left > 0; --left) {
    const auto most = std::ranges::max_element(lost) - lost.begin();
    ++counts[static_cast<size_t>(most)];
    lost[static_cast<size_t>(most)] -= 1;
  }
  for (size_t& count : counts) {
    if (count > 0 || files < counts.size()) continue;
    --*std::ranges::max_element(counts);
    ++count;
  }
  return counts;
}

/// 0 … count-1 in an order of its own for each seed and class.
std::vector<size_t> drawn_order(size_t count, uint64_t seed, const std::string& name) {
  std::vector<size_t> order(count);
  std::iota(order.begin(), order.end(), 0);
  const uint64_t digest = digest_of(name);
  for (size_t i = count; i > 1; --i) {
    const auto drawn =
        philox4x32_10({static_cast<uint32_t>(i),
                       static_cast<uint32_t>(uint64_t{i} >> 32),
                       static_cast<uint32_t>(digest),
                       static_cast<uint32_t>(digest >> 32)},
                      {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
    const uint64_t number = uint64_t{drawn[0]} << 32 | drawn[1];
    std::swap(order[i - 1], order[number % i]);
  }
  return order;
}

fs::path folder_around(const fs::path& target) {
  return target.has_parent_path() ? target.parent_path() : fs::path(".");
}

/// How the names of partial folders for `target` begin; six letters follow.
std::string partial_prefix(const fs::path& target) {
  return concat('.', target.filename().string(), ".partial-");
}

struct FolderLock {
  UniqueFd fd;           ///< nothing if the folder is gone, held, or cannot be locked
  bool is_held = false;  ///< by another process
};

/// The lock ends with this process, however it ends.
FolderLock lock_folder(const fs::path& path) {
  FolderLock lock{UniqueFd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC))};
  if (!lock.fd || ::flock(lock.fd.get(), LOCK_EX | LOCK_NB) == 0) return lock;
  lock.is_held = errno == EWOULDBLOCK;
  lock.fd.reset();
  return lock;
}

}  // namespace

void refuse_write(const fs::path& path, int why, std::string hint) {
  throw environment_error({.refused = path.string(),
                           .rule = "it can be written",
                           .value = errno_text(why),
                           .hint = std::move(hint)});
}

PartialFolder::PartialFolder(const fs::path& target) {
  const fs::path parent = folder_around(target);
  // Between its making and its lock another process may take it for one that was left behind.
  for (int tries = 0; tries < 10; ++tries) {
    std::string pattern = (parent / concat(partial_prefix(target), "XXXXXX")).string();
    if (::mkdtemp(pattern.data()) == nullptr) refuse_write(parent, errno);
    path_ = pattern;
    FolderLock lock = lock_folder(path_);
    lock_ = std::move(lock.fd);
    std::error_code ignored;
    if (!lock.is_held && fs::is_directory(path_, ignored)) break;
  }
  const mode_t mask = ::umask(0);
  ::umask(mask);
  ::chmod(path_.c_str(), 0777 & ~mask);
}

PartialFolder::~PartialFolder() {
  std::error_code ignored;
  if (!path_.empty()) fs::remove_all(path_, ignored);
}

void PartialFolder::rename_to(const fs::path& target) {
  int status = ::renameat2(AT_FDCWD, path_.c_str(), AT_FDCWD, target.c_str(), RENAME_NOREPLACE);
  if (status != 0 && (errno == EINVAL || errno == ENOSYS))  // a file system that cannot do so
    status = ::rename(path_.c_str(), target.c_str());
  const int why = errno;
  if (status != 0) {
    if (why == EEXIST || why == ENOTEMPTY) require_absent(target);  // made by another meanwhile
    refuse_write(target, why);
  }
  path_.clear();
  sync_folder(folder_around(target));
}

std::vector<size_t> divide_labels(const std::vector<int64_t>& labels,
                                  const std::vector<std::string>& classes,
                                  const std::vector<double>& shares,
                                  uint64_t seed) {
  check_shares(shares);
  std::vector<std::vector<size_t>> of_class(classes.size());
  for (size_t at = 0; at < labels.size(); ++at)
    of_class[static_cast<size_t>(labels[at])].push_back(at);
  std::vector<size_t> part_of(labels.size());
  for (size_t label = 0; label < of_class.size(); ++label) {
    const std::vector<size_t>& own = of_class[label];
    const std::vector<size_t> order = drawn_order(own.size(), seed, classes[label]);
    size_t next = 0, part = 0;
    for (const size_t count : counts_of(own.size(), shares)) {
      for (size_t i = 0; i < count; ++i) part_of[own[order[next++]]] = part;
      ++part;
    }
  }
  return part_of;
}

void require_apart(const fs::path& source, const fs::path& target) {
  const auto resolved = [](const fs::path& path) {
    std::error_code failed;
    const fs::path whole = fs::weakly_canonical(without_slash(path), failed);
    return failed ? fs::absolute(path).lexically_normal() : whole;
  };
  const fs::path from = resolved(source), to = resolved(target);
  const auto [ends, others] = std::mismatch(from.begin(), from.end(), to.begin(), to.end());
  if (ends != from.end() && others != to.end()) return;
  throw usage_error({.refused = concat("folder ", target.string()),
                     .rule = "what is divided, and what is made of it, are apart",
                     .value = concat("it is ",
                                     others == to.end() && ends == from.end() ? ""
                                     : ends == from.end()                     ? "below "
                                                                              : "above ",
                                     source.string()),
                     .hint = "name a folder beside it"});
}

void require_absent(const fs::path& target) {
  std::error_code ignored;
  if (fs::symlink_status(target, ignored).type() == fs::file_type::not_found) return;
  throw usage_error({.refused = concat("folder ", target.string(), " is there already"),
                     .rule = "nothing is overwritten",
                     .hint = "remove it, or name another one"});
}

std::vector<fs::path> remove_left_behind(const fs::path& said) {
  const fs::path target = without_slash(said);
  const std::string prefix = partial_prefix(target);
  std::vector<fs::path> removed;
  std::error_code failed;
  for (fs::directory_iterator at(folder_around(target), failed), end; !failed && at != end;
       at.increment(failed)) {
    const std::string name = at->path().filename().string();
    if (!name.starts_with(prefix) || name.size() != prefix.size() + 6) continue;
    const FolderLock lock = lock_folder(at->path());
    std::error_code stays;
    if (lock.fd) fs::remove_all(at->path(), stays);
    if (lock.fd && !stays) removed.push_back(at->path());
  }
  std::ranges::sort(removed);
  return removed;
}

}  // namespace muster::formats
