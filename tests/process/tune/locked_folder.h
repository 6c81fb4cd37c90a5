// How a trial of the tests notices that it runs twice.
#pragma once

#include <filesystem>
#include <fstream>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

namespace muster::testing_process {

/// Locks the folder until the process ends. Whoever finds it locked makes the file `twice` there.
inline void hold_lock(const std::filesystem::path& folder) {
  const int fd = ::open((folder / "lock").c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
  if (fd < 0 || ::flock(fd, LOCK_EX | LOCK_NB) != 0) std::ofstream(folder / "twice") << ::getpid();
}

}  // namespace muster::testing_process
