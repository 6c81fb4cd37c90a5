#include "muster/diagnose/record/failure_note.h"

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <typeinfo>
#include <utility>
#include <vector>

#include <cxxabi.h>
#include <fcntl.h>
#include <unistd.h>

#include "muster/base/error.h"
#include "muster/base/error_report.h"
#include "muster/base/file.h"
#include "muster/base/rank_env.h"
#include "muster/base/text.h"
#include "muster/diagnose/record/flight_recorder.h"

namespace muster::diagnose {
namespace {

/// What this process has written.
struct Noted {
  std::mutex mutex;  // a thread that fails meanwhile ends the process no sooner than this
  std::optional<ErrorReport> report;
  bool says_own = false;                // what this process ends of is in it
  std::atomic<int64_t> of_peers_ns{0};  // when, if all that it says is that peers failed; else 0
  std::atomic<pid_t> rank{0};           // the process that is the rank, where that is known

  static Noted& of_process() {
    static Noted noted;
    return noted;
  }
};

/// As a whole or not at all: a launcher may kill this process any time. False if it cannot be done.
bool put(const std::string& file, const ErrorReport& report) {
  try {
    const std::string part = file + ".part";
    {
      const UniqueFd fd(
          ::open(part.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600));
      if (!fd) return false;
      write_all(fd.get(), error_report_text(report), part);
    }
    return ::rename(part.c_str(), file.c_str()) == 0;
  } catch (const std::exception&) {  // a full disk, say
    return false;
  }
}

/// Who else writes something down.
struct Listeners {
  std::mutex mutex;
  std::vector<std::weak_ptr<FailureListener::element_type>> list;

  static Listeners& of_process() {
    static Listeners listeners;
    return listeners;
  }
};

void tell_listeners(const std::string& message) {
  std::vector<FailureListener> alive;  // called without the lock: one may drop another
  {
    Listeners& all = Listeners::of_process();
    const std::lock_guard lock(all.mutex);
    for (const auto& listener : all.list)
      if (auto held = listener.lock()) alive.push_back(std::move(held));
  }
  for (const FailureListener& listener : alive) {
    try {
      (*listener)(message);
    } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): the process fails anyway
    }
  }
}

/// A copy (fork) of the rank is not the rank.
bool is_the_rank() {
  const pid_t rank = Noted::of_process().rank;
  return rank == 0 || rank == ::getpid();
}

/// What is to stand there after `report`; nothing if that changes nothing.
std::optional<ErrorReport> after(const std::optional<ErrorReport>& noted, ErrorReport report) {
  if (!noted) return report;
  if (report.is_consequence) return std::nullopt;
  const std::string peers_words = first_line(noted->message);
  if (report.message.find(peers_words) != std::string::npos) return std::nullopt;  // passed on
  ErrorReport both = *noted;
  both.message = concat(report.message, "\nafter: ", noted->message);
  return both;
}

void write_report(ErrorReport report) {
  Noted& noted = Noted::of_process();
  const std::string file = process_environment(kErrorFileEnv).value_or("");
  if (file.empty() || !is_the_rank()) return;
  // torchrun takes the least second for the root cause, and of equal ones the least rank: so a
  // consequence is rounded up, and never has the second of its cause.
  report.timestamp_s =
      static_cast<int64_t>(std::time(nullptr)) + static_cast<int64_t>(report.is_consequence);
  report.monotonic_ns = FlightRecorder::now_ns();
  const std::lock_guard lock(noted.mutex);
  if (noted.says_own) return;
  const bool is_own = !report.is_consequence;
  const auto next = after(noted.report, std::move(report));
  if (!next || !put(file, *next)) return;
  noted.says_own = is_own;
  noted.report = next;
  noted.of_peers_ns = is_own ? 0 : *next->monotonic_ns;
}

/// "std::runtime_error: no such file"; of Muster's own errors and LibTorch's, their words alone.
std::string words_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const Error& ours) {
    return ours.what();
  } catch (const std::exception& known) {
    const std::string what = known.what();
    if (const size_t trace = what.find("\nException raised from "); trace != std::string::npos)
      return what.substr(0, trace);
    const std::unique_ptr<char, decltype(&std::free)> name(
        abi::__cxa_demangle(typeid(known).name(), nullptr, nullptr, nullptr), &std::free);
    return name ? concat(name.get(), ": ", what) : what;
  } catch (...) {
    return "an exception of unknown type";
  }
}

std::terminate_handler next_handler = nullptr;

[[noreturn]] void on_terminate() {
  const std::exception_ptr error = std::current_exception();
  note_failure(error ? words_of(error) : "std::terminate was called");
  if (next_handler != nullptr) next_handler();
  std::abort();
}

}  // namespace

void note_failure(const std::string& message) {
  write_report({.message = message});
  if (is_the_rank()) tell_listeners(message);
}

FailureListener on_failure(std::function<void(const std::string& message)> hear) {
  auto listener =
      std::make_shared<const std::function<void(const std::string& message)>>(std::move(hear));
  Listeners& all = Listeners::of_process();
  const std::lock_guard lock(all.mutex);
  std::erase_if(all.list, [](const auto& other) { return other.expired(); });
  all.list.push_back(listener);
  return listener;
}

void note_failure_of_peers(const std::string& message, const std::vector<int>& ended) {
  write_report({.message = message, .is_consequence = true, .after = {ended.begin(), ended.end()}});
}

void note_success_with_peers(int64_t begun_ns) {
  Noted& noted = Noted::of_process();
  const int64_t since = noted.of_peers_ns.load(std::memory_order_relaxed);
  if (since == 0 || begun_ns <= since || noted.rank.load() != ::getpid()) return;
  const std::lock_guard lock(noted.mutex);
  const std::string file = process_environment(kErrorFileEnv).value_or("");
  if (noted.of_peers_ns != since || file.empty()) return;
  ::unlink(file.c_str());
  noted.report.reset();
  noted.of_peers_ns = 0;
}

void note_uncaught_exceptions() {
  pid_t unknown = 0;
  Noted::of_process().rank.compare_exchange_strong(unknown, ::getpid());
  static std::once_flag once;
  std::call_once(once, [] { next_handler = std::set_terminate(&on_terminate); });
}

}  // namespace muster::diagnose
