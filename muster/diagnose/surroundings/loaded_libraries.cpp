// The dynamic loader's own answer to what it would load.
#include <array>
#include <cerrno>

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "muster/base/file.h"
#include "muster/diagnose/surroundings/surroundings.h"

extern char** environ;

namespace muster::diagnose {
namespace {

#if defined(__aarch64__)
constexpr const char* kLoader = "/lib/ld-linux-aarch64.so.1";
#else
constexpr const char* kLoader = "/lib64/ld-linux-x86-64.so.2";
#endif
constexpr size_t kMostListBytes = 1 << 20;

/// Starts the loader with --list, its output into `write_end`; 0 if that fails.
pid_t start_loader(const std::string& program, int write_end) {
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, write_end, STDOUT_FILENO);
  ::posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  std::string loader = kLoader, list = "--list", name = program;
  std::array<char*, 4> words{loader.data(), list.data(), name.data(), nullptr};
  pid_t child = 0;
  if (::posix_spawn(&child, kLoader, &actions, nullptr, words.data(), environ) != 0) child = 0;
  ::posix_spawn_file_actions_destroy(&actions);
  return child;
}

}  // namespace

std::optional<std::string> loaded_libraries(const std::filesystem::path& program) {
  std::error_code error;
  // Resolved here: /proc/self/exe would be the loader itself in the child, and $ORIGIN is where the file truly lies.
  const auto real = std::filesystem::canonical(program, error);
  if (error || !std::filesystem::is_regular_file(real, error)) return std::nullopt;
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return std::nullopt;
  const UniqueFd read_end(ends[0]);
  UniqueFd write_end(ends[1]);
  const pid_t child = start_loader(real.string(), write_end.get());
  write_end.reset();
  if (child == 0) return std::nullopt;
  std::string text;
  std::array<char, 4096> bytes{};
  while (true) {
    const ssize_t count = ::read(read_end.get(), bytes.data(), bytes.size());
    if (count == 0 || (count < 0 && errno != EINTR)) break;
    if (count > 0 && text.size() < kMostListBytes)
      text.append(bytes.data(), static_cast<size_t>(count));
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  // A library that is not found is an answer as well: "not found", and another exit code.
  if (text.empty()) return std::nullopt;
  return text;
}

}  // namespace muster::diagnose
