// Folders that appear under their name as a whole.
#pragma once

#include <filesystem>
#include <functional>

namespace muster::train {

/// Whoever trains in a run's folder holds this file in it; see ProcessLock.
inline constexpr const char* kRunLock = ".lock";

/// Lets two folders change places in one step: 0, or -1 with errno.
using ExchangeFolders = std::function<int(const char* one, const char* other)>;

/// The kernel's renameat2(RENAME_EXCHANGE).
int exchange_folders(const char* one, const char* other);

/// Renames `from` to `to`, in the same folder. If `to` is there already, the two change places in
/// one system call and what was there is removed: a kill at any moment leaves a whole folder under
/// the name. Where the file system cannot do that (NFS, for one), the old one is first renamed to
/// ".replaced-NAME"; a kill in between leaves that, and put_back_replaced() mends it. Throws an
/// environment error.
void put_in_place(const std::filesystem::path& from,
                  const std::filesystem::path& to,
                  const ExchangeFolders& exchange = exchange_folders);

/// Finishes what a kill broke off in `folder`: ".replaced-NAME" goes back to NAME if nothing is
/// there, else it is removed. Throws an environment error.
void put_back_replaced(const std::filesystem::path& folder);

/// A file or folder under a second name: by hard links where the file system has them, else as a
/// copy. For what is never written in place. Nothing happens if `from` is not there. Throws an
/// environment error.
void link_or_copy(const std::filesystem::path& from, const std::filesystem::path& to);

}  // namespace muster::train
