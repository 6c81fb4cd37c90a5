#include "muster/tune/execute/trial_end.h"

#include <algorithm>
#include <array>
#include <cctype>

#include <signal.h>
#include <sys/wait.h>

#include "muster/base/cgroup.h"
#include "muster/base/text.h"
#include "muster/launch/process/failure.h"

namespace muster::tune {
namespace {

constexpr int kKilledExitCode = 128 + SIGKILL;  // a shell's, for a child that SIGKILL ended

// What C++, Python, PyTorch, TensorFlow, JAX and the CUDA runtime say.
constexpr std::array<std::string_view, 9> kMemoryWords{"out of memory",
                                                       "std::bad_alloc",
                                                       "memoryerror",
                                                       "outofmemoryerror",
                                                       "cannot allocate memory",
                                                       "can't allocate memory",
                                                       "cuda_error_out_of_memory",
                                                       "cudaerrormemoryallocation",
                                                       "resource_exhausted"};

}  // namespace

bool looks_killed(int wait_status) {
  return (WIFSIGNALED(wait_status) && WTERMSIG(wait_status) == SIGKILL) ||
         (WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == kKilledExitCode);
}

bool speaks_of_memory(std::string_view line) {
  std::string lower(line);
  std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return std::tolower(c); });
  return std::ranges::any_of(
      kMemoryWords, [&](std::string_view words) { return lower.find(words) != std::string::npos; });
}

Judgement judge(const TrialEnd& end) {
  if (!end.not_started.empty()) return {Failure::kCrash, end.not_started};
  if (end.failure != Failure::kNone) return {end.failure, end.why};
  if (end.lost)
    return {Failure::kLost,
            "the process that watches over the trial was killed, and the trial with it"};
  const std::string status = launch::describe_status(end.wait_status);
  if (end.asked) return {Failure::kNone, status};
  if (end.wait_status == 0)
    return {Failure::kNone, end.bad_line.empty() ? status : concat(status, "; ", end.bad_line)};
  if (end.said) {
    const std::string text = end.said->message.empty() ? "" : ": " + end.said->message;
    return {end.said->failure, status + text};
  }
  if (looks_killed(end.wait_status) && end.kernel_killed)
    return {Failure::kOutOfMemory, status + ": the kernel killed it because memory ran out"};
  const auto memory = std::ranges::find_if(end.last_lines, speaks_of_memory);
  if (memory != end.last_lines.end())
    return {Failure::kOutOfMemory, concat(status, ": ", trim(*memory))};
  const std::string_view words = end.words.text();
  return {Failure::kCrash, words.empty() ? status : concat(status, ": ", words)};
}

OomCounter::OomCounter(std::filesystem::path root) : root_(std::move(root)), taken_(read()) {}

int64_t OomCounter::read() const { return oom_kills(root_).value_or(0); }

bool OomCounter::claim_kill(int64_t at_start) {
  taken_ = std::max(taken_, at_start);
  if (read() <= taken_) return false;
  ++taken_;
  return true;
}

}  // namespace muster::tune
