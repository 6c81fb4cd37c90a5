#include "cli/study/tune_check.h"

#include <atomic>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "muster/base/error.h"
#include "muster/base/file.h"
#include "muster/base/text.h"
#include "muster/launch/job/rank_plan.h"
#include "muster/tune/execute/prepare.h"
#include "muster/tune/machine/resources.h"
#include "muster/tune/run/stop_on_signals.h"
#include "muster/tune/space/command_template.h"

#include "cli/command.h"

namespace muster::cli {
namespace {

struct Explained {
  int code = -1;  // -1: it could not be started, or a signal ended it
  std::string err;
};

/// What a signal ends, and which one it was. One of the two threads that set them sees the other's.
struct UnderWay {
  std::atomic<pid_t> child = 0;
  std::atomic<int> signal = 0;
};

std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> out;
  for (std::string& word : words) out.push_back(word.data());
  out.push_back(nullptr);
  return out;
}

/// An empty folder for the files of a trial that is only explained.
class ScratchFolder {
 public:
  ScratchFolder() {
    if (::mkdtemp(path_.data()) == nullptr) {
      throw environment_error(
          {.refused = concat("cannot make a folder like ", path_), .rule = errno_text(errno)});
    }
  }
  ~ScratchFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  std::filesystem::path path() const { return path_; }

 private:
  std::string path_ = std::filesystem::temp_directory_path() / "muster-check-XXXXXX";
};

/// As the study's first trial would be started: the tuner's own variables say other things, the
/// ranks of a job in which it runs, say.
tune::LocalTrialStart start_of(const tune::StudySpec& spec,
                               const tune::Values& values,
                               const std::filesystem::path& folder) {
  tune::AttemptPlan plan{.values = values,
                         .resources = spec.resources_per_trial,
                         .checkpoint_folder = folder / "trial-0" / "checkpoints"};
  tune::located(spec, "resources_per_trial", [&] {
    tune::ResourcePool pool(tune::machine_of(spec), spec.resources_per_trial);
    if (const auto share = pool.try_acquire()) {
      for (const size_t gpu : share->gpus) plan.device_ids.push_back(pool.machine().gpus[gpu]);
    }
  });
  return tune::prepare({.spec = spec, .study = spec.name},
                       plan,
                       folder,
                       /*token=*/"none",
                       launch::inherited_environment());
}

/// Runs the words to their end; what they say on stderr, up to a pipe's fill.
Explained run_to_end(tune::LocalTrialStart start, UnderWay& under_way) {
  Explained explained;
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return explained;
  const UniqueFd read_end(ends[0]);
  UniqueFd write_end(ends[1]);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  ::posix_spawn_file_actions_adddup2(&actions, write_end.get(), STDERR_FILENO);
  ::posix_spawn_file_actions_addchdir_np(&actions, start.working_folder.c_str());
  pid_t child = -1;
  const int failed = ::posix_spawn(&child,
                                   start.program.c_str(),
                                   &actions,
                                   nullptr,
                                   pointers(start.argv).data(),
                                   pointers(start.environment).data());
  ::posix_spawn_file_actions_destroy(&actions);
  write_end.reset();
  if (failed != 0) return explained;
  under_way.child = child;
  if (under_way.signal != 0) ::kill(child, SIGTERM);
  char buffer[4096];
  for (ssize_t got; (got = ::read(read_end.get(), buffer, sizeof buffer)) != 0;) {
    if (got > 0) explained.err.append(buffer, static_cast<size_t>(got));
    if (got < 0 && errno != EINTR) break;
  }
  siginfo_t ended{};
  while (::waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOWAIT) < 0 &&
         errno == EINTR) {
  }
  under_way.child = 0;  // before its number is another's
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status)) explained.code = WEXITSTATUS(status);
  return explained;
}

}  // namespace

void check_train_command(const tune::StudySpec& spec, const tune::Values& values) {
  const std::vector<std::string> words = tune::expand_command(spec.command, spec.space, values);
  if (words.size() < 2 || std::filesystem::path(words[0]).filename() != "muster" ||
      words[1] != "train")
    return;
  UnderWay under_way;
  Explained explained;
  {
    const tune::StopOnSignals stop([&](int signal) {
      under_way.signal = signal;
      if (const pid_t child = under_way.child; child > 0) ::kill(child, SIGTERM);
    });
    const ScratchFolder folder;
    tune::LocalTrialStart start = start_of(spec, values, folder.path());
    start.argv.emplace_back("--explain");
    explained = run_to_end(std::move(start), under_way);
  }
  if (under_way.signal != 0) {  // as it would have ended without the folder
    ::signal(under_way.signal, SIG_DFL);
    ::raise(under_way.signal);
  }
  if (explained.code != kWrongUse) return;
  constexpr std::string_view kHead = "muster: error: ";
  std::string_view said = trim(explained.err);
  if (said.starts_with(kHead)) said.remove_prefix(kHead.size());
  throw usage_error({.refused = "the command of the study is refused by `muster train`",
                     .rule = std::string(said)});
}

}  // namespace muster::cli
