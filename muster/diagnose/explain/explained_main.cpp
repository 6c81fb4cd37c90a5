#include "muster/diagnose/explain/explained_main.h"

#include <cstdlib>
#include <exception>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <unistd.h>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/diagnose/explain/diagnosis_text.h"

namespace muster::diagnose {
namespace {

constexpr size_t kWidth = 80;
constexpr int kFailed = 1;

void write_stderr(std::string_view text) noexcept {
  while (!text.empty()) {
    const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
    if (written <= 0) return;  // nobody can be told
    text.remove_prefix(static_cast<size_t>(written));
  }
}

/// Of the exception that is handled; empty if there is none.
std::string text_of_current() {
  try {
    if (std::current_exception() == nullptr) return "";
    throw;
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "something was thrown that is no std::exception";
  }
}

int exit_code_of_current() {
  try {
    throw;
  } catch (const Error& error) {
    return error.exit_code();
  } catch (...) {
    return kFailed;
  }
}

/// The checks that go with the row, on this machine and of this program.
std::vector<CheckResult> checks_of(const Finding& finding) {
  if (trim(finding.row->checks).empty()) return {};
  Surroundings surroundings;
  std::error_code error;
  surroundings.program = std::filesystem::read_symlink("/proc/self/exe", error);
  return run_checks(surroundings, finding.row->checks);
}

/// Behind what was said already.
std::string explanation(const std::string& said) {
  const LogDiagnosis diagnosis = classify(said);
  const Finding* first = diagnosis.first_cause();
  // One error says what it is better than words that it has in common with others.
  if (first == nullptr || first->by_likeness) return "";
  return '\n' + finding_text(*first, checks_of(*first), kWidth);
}

void explain_current() noexcept {
  try {
    const std::string said = text_of_current();
    if (said.empty()) return;
    write_stderr("error: " + said + '\n');
    write_stderr(explanation(said));
  } catch (...) {  // no memory, perhaps: what was written stands
  }
}

std::terminate_handler before = nullptr;

[[noreturn]] void explain_and_terminate() {
  explain_current();
  if (before != nullptr) before();
  std::abort();
}

}  // namespace

int explained_main(const std::function<int()>& program) noexcept {
  before = std::set_terminate(explain_and_terminate);
  int code = kFailed;
  try {
    code = program();
  } catch (...) {
    explain_current();
    code = exit_code_of_current();
  }
  std::set_terminate(before);
  return code;
}

}  // namespace muster::diagnose
