#include "muster/diagnose/record/failure_note.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <memory>
#include <mutex>
#include <typeinfo>
#include <utility>

#include <cxxabi.h>
#include <fcntl.h>

#include "muster/base/error.h"
#include "muster/base/error_report.h"
#include "muster/base/file.h"
#include "muster/base/rank_env.h"
#include "muster/base/text.h"
#include "muster/diagnose/record/flight_recorder.h"

namespace muster::diagnose {
namespace {

void write_report(ErrorReport report) {
  static std::mutex mutex;  // a thread that fails meanwhile ends the process no sooner than this
  static bool written = false;
  const std::string file = process_environment(kErrorFileEnv).value_or("");
  if (file.empty()) return;
  report.timestamp_s = static_cast<int64_t>(std::time(nullptr));
  report.monotonic_ns = FlightRecorder::now_ns();
  const std::lock_guard lock(mutex);
  if (std::exchange(written, true)) return;
  try {
    // As a whole or not at all: a launcher may kill this process any time.
    const std::string part = file + ".part";
    {
      const UniqueFd fd(
          ::open(part.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600));
      if (!fd) return;
      write_all(fd.get(), error_report_text(report), part);
    }
    ::rename(part.c_str(), file.c_str());
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): a full disk, say
  }
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

void note_failure(const std::string& message) { write_report({.message = message}); }

void note_failure_of_peers(const std::string& message, const std::vector<int>& ended) {
  write_report({.message = message, .is_consequence = true, .after = {ended.begin(), ended.end()}});
}

void note_uncaught_exceptions() {
  static std::once_flag once;
  std::call_once(once, [] { next_handler = std::set_terminate(&on_terminate); });
}

}  // namespace muster::diagnose
