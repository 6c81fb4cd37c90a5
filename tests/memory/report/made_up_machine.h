// A machine that is not this one: its memory and processes, in files.
#pragma once

#include <filesystem>
#include <string>

#include <unistd.h>

#include "muster/base/file.h"
#include "muster/base/text.h"
#include "muster/diagnose/surroundings/surroundings.h"

#include "tests/support/folder.h"

namespace muster::test {

inline constexpr int64_t kMib = int64_t{1} << 20, kGib = int64_t{1} << 30;

class MadeUpMachine {
 public:
  MadeUpMachine(int64_t total, int64_t available, int64_t resident) {
    file("/proc/meminfo",
         concat("MemTotal: ",
                total >> 10,
                " kB\nMemFree: 1 kB\nMemAvailable: ",
                available >> 10,
                " kB\n"));
    process(::getpid(), resident, "this one");
  }

  void group(int64_t limit, int64_t used) const {
    file("/proc/self/cgroup", "0::/job\n");
    file("/sys/fs/cgroup/job/memory.max", concat(limit, "\n"));
    file("/sys/fs/cgroup/job/memory.current", concat(used, "\n"));
    file("/sys/fs/cgroup/job/memory.stat", "inactive_file 0\n");
  }

  /// Numbers of processes are the machine's, no container's.
  void has_own_pids() const {
    const auto link = folder_.path() / "proc/self/ns/pid";
    std::filesystem::create_directories(link.parent_path());
    std::filesystem::create_symlink("pid:[4026531836]", link);
  }

  void process(int64_t pid, int64_t resident, const std::string& command) const {
    const std::string folder = concat("/proc/", pid);
    std::string stat = concat(pid, " (name) S");
    for (int field = 4; field < 22; ++field) stat += " 0";
    file(folder + "/stat", stat + " 1000 0 0\n");
    file(folder + "/status",
         concat("Name:\tname\nUid:\t0\t0\t0\t0\nVmRSS:\t", resident >> 10, " kB\n"));
    file(folder + "/statm", concat("9 ", resident / ::sysconf(_SC_PAGESIZE), " 0\n"));
    file(folder + "/cmdline", command);
  }

  diagnose::Surroundings surroundings() const {
    diagnose::Surroundings around;
    around.root = folder_.path();
    return around;
  }

 private:
  void file(const std::string& absolute, const std::string& text) const {
    const auto path = folder_.path() / std::filesystem::path(absolute).relative_path();
    std::filesystem::create_directories(path.parent_path());
    write_file_atomic(path, text);
  }

  Folder folder_;
};

}  // namespace muster::test
