#include "muster/train/checkpoints/folders.h"

#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

#include "muster/base/error.h"
#include "muster/base/text.h"

namespace muster::train {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kReplaced = ".replaced-";

[[noreturn]] void cannot_replace(const fs::path& folder, const std::string& why) {
  throw environment_error({.refused = "cannot replace " + folder.string(), .rule = why});
}

[[noreturn]] void cannot_copy(const fs::path& from,
                              const fs::path& to,
                              const std::error_code& error) {
  throw environment_error({.refused = concat("cannot copy ", from.string(), " to ", to.string()),
                           .rule = errno_text(error.value())});
}

void rename_folder(const fs::path& from, const fs::path& to) {
  std::error_code error;
  fs::rename(from, to, error);
  if (error) cannot_replace(to, error.message());
}

/// What a file system says that has renameat2 without RENAME_EXCHANGE.
bool cannot_exchange(int error) {
  return error == EINVAL || error == ENOSYS || error == EOPNOTSUPP || error == ENOTTY;
}

}  // namespace

int exchange_folders(const char* one, const char* other) {
  return ::renameat2(AT_FDCWD, one, AT_FDCWD, other, RENAME_EXCHANGE);
}

void put_in_place(const fs::path& from, const fs::path& to, const ExchangeFolders& exchange) {
  if (!fs::exists(to)) return rename_folder(from, to);
  std::error_code none;  // what cannot be removed is in nobody's way
  if (exchange(from.c_str(), to.c_str()) == 0) {
    fs::remove_all(from, none);
    return;
  }
  if (!cannot_exchange(errno)) cannot_replace(to, errno_text(errno));
  const fs::path old = to.parent_path() / concat(kReplaced, to.filename().string());
  fs::remove_all(old, none);
  rename_folder(to, old);
  rename_folder(from, to);
  fs::remove_all(old, none);
}

void put_back_replaced(const fs::path& folder) {
  std::vector<fs::path> replaced;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(folder, none)) {
    if (entry.path().filename().string().starts_with(kReplaced)) replaced.push_back(entry.path());
  }
  for (const fs::path& old : replaced) {
    const fs::path name = folder / old.filename().string().substr(kReplaced.size());
    if (fs::exists(name)) {
      fs::remove_all(old, none);
    } else {
      rename_folder(old, name);
    }
  }
}

void link_or_copy(const fs::path& from, const fs::path& to) {
  if (!fs::exists(from)) return;
  std::error_code error;
  if (fs::is_directory(from)) {
    // Not with the permissions of `from`: what is read-only there could not be filled here.
    fs::create_directory(to, error);
    if (error) cannot_copy(from, to, error);
    for (const auto& entry : fs::directory_iterator(from))
      link_or_copy(entry.path(), to / entry.path().filename());
    return;
  }
  fs::remove(to, error);  // what a kill has left
  fs::create_hard_link(from, to, error);
  if (error) fs::copy_file(from, to, error);
  if (error) cannot_copy(from, to, error);
}

}  // namespace muster::train
