#include "cli/study/tune_check.h"

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "muster/base/error.h"
#include "muster/base/file.h"
#include "muster/base/text.h"
#include "muster/tune/space/command_template.h"

#include "cli/command.h"

extern char** environ;

namespace muster::cli {
namespace {

struct Explained {
  int code = -1;  // -1: it could not be started, or a signal ended it
  std::string err;
};

std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> out;
  for (std::string& word : words) out.push_back(word.data());
  out.push_back(nullptr);
  return out;
}

/// Of the tuner, with the study's own variables behind it: the last of a name counts.
std::vector<std::string> environment_of(const tune::StudySpec& spec) {
  std::vector<std::string> out;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string one = *variable;
    if (!spec.environment.contains(one.substr(0, one.find('=')))) out.push_back(one);
  }
  for (const auto& [name, value] : spec.environment) out.push_back(concat(name, '=', value));
  return out;
}

/// Runs the words to their end; what they say on stderr, up to a pipe's fill.
Explained run_to_end(std::vector<std::string> words, const tune::StudySpec& spec) {
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
  ::posix_spawn_file_actions_addchdir_np(&actions, spec.working_folder.c_str());
  std::vector<std::string> variables = environment_of(spec);
  pid_t child = -1;
  const int failed = ::posix_spawnp(&child,
                                    words[0].c_str(),
                                    &actions,
                                    nullptr,
                                    pointers(words).data(),
                                    pointers(variables).data());
  ::posix_spawn_file_actions_destroy(&actions);
  write_end.reset();
  if (failed != 0) return explained;
  char buffer[4096];
  for (ssize_t got; (got = ::read(read_end.get(), buffer, sizeof buffer)) != 0;) {
    if (got > 0) explained.err.append(buffer, static_cast<size_t>(got));
    if (got < 0 && errno != EINTR) break;
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status)) explained.code = WEXITSTATUS(status);
  return explained;
}

}  // namespace

void check_train_command(const tune::StudySpec& spec, const tune::Values& values) {
  std::vector<std::string> words = tune::expand_command(spec.command, spec.space, values);
  if (words.size() < 2 || std::filesystem::path(words[0]).filename() != "muster" ||
      words[1] != "train")
    return;
  words.emplace_back("--explain");
  const Explained explained = run_to_end(words, spec);
  if (explained.code != kWrongUse) return;
  constexpr std::string_view kHead = "muster: error: ";
  std::string_view said = trim(explained.err);
  if (said.starts_with(kHead)) said.remove_prefix(kHead.size());
  throw usage_error({.refused = "the command of the study is refused by `muster train`",
                     .rule = std::string(said)});
}

}  // namespace muster::cli
