#include "muster/distributed/meet/host.h"

#include <thread>

#include <c10/util/Exception.h>
#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "muster/base/error.h"
#include "muster/base/kernel_file.h"
#include "muster/base/text.h"
#include "muster/diagnose/record/failure_note.h"

namespace muster::distributed {
namespace {

std::string host_name() {
  char name[HOST_NAME_MAX + 1] = {};
  return ::gethostname(name, sizeof name - 1) == 0 ? name : "";
}

}  // namespace

std::string host_identity() {
  std::string boot(trim(read_kernel_file("/proc/sys/kernel/random/boot_id").value_or("")));
  if (boot.empty()) boot = host_name();
  char space[64] = {};
  if (::readlink("/proc/self/ns/pid", space, sizeof space - 1) < 0) space[0] = '\0';
  return concat(boot, " ", space);
}

int usable_cores() {
  cpu_set_t set;
  if (::sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
  return static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
}

std::string await_text(c10d::Store& store, const std::string& key, const ErrorText& late) {
  try {
    const auto bytes = store.get(key);
    return {bytes.begin(), bytes.end()};
  } catch (const std::exception& error) {
    const std::string what = error.what(), why = first_line(what);
    const bool lost = dynamic_cast<const c10::DistNetworkError*>(&error) != nullptr;
    const Error failure = environment_error(
        lost ? ErrorText{.refused = "the store of the job is gone",
                         .rule = why,
                         .hint = "look at what rank 0, which serves it, or its launcher says"}
             : ErrorText{.refused = late.refused, .rule = why, .hint = late.hint});
    if (lost) diagnose::note_failure_of_peers(failure.what(), {0});
    throw failure;
  }
}

std::string await_text(c10d::Store& store, const std::string& key, int rank) {
  return await_text(store,
                    key,
                    {.refused = concat("rank ", rank, " did not come to the meeting of ranks"),
                     .hint = "check that all ranks were started and reach rank 0's store"});
}

std::vector<std::string> exchange_texts(
    c10d::Store& store, const std::string& key, int rank, int world_size, const std::string& text) {
  store.set(concat(key, "/", rank), text);
  std::vector<std::string> texts;
  for (int other = 0; other < world_size; ++other)
    texts.push_back(await_text(store, concat(key, "/", other), other));
  return texts;
}

PeerProcess::PeerProcess(pid_t pid)
    : pid_(pid), fd_(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0))) {}

bool PeerProcess::alive() const {
  if (pid_ == 0) return true;
  if (fd_) {
    pollfd end{fd_.get(), POLLIN, 0};
    return ::poll(&end, 1, 0) <= 0;
  }
  const std::string stat = read_kernel_file(concat("/proc/", pid_, "/stat")).value_or("");
  const size_t at = stat.rfind(')');
  return at != std::string::npos && at + 2 < stat.size() && stat[at + 2] != 'Z' &&
         stat[at + 2] != 'X';
}

}  // namespace muster::distributed
