// `muster doctor`: what went wrong in a log, how a program ends, and whether this machine is in order.
#include <algorithm>
#include <filesystem>
#include <ostream>

#include "muster/base/error.h"
#include "muster/base/json.h"
#include "muster/base/text.h"
#include "muster/diagnose/explain/diagnosis_text.h"
#include "muster/program/line/value.h"

#include "cli/command.h"
#include "cli/doctor/catalogue_page.h"
#include "cli/doctor/doctor_json.h"
#include "cli/doctor/read_logs.h"
#include "cli/doctor/watched_program.h"
#include "cli/line/app.h"

namespace muster::cli {
namespace {

constexpr const char* kDoctorDescription =
    "Says what went wrong: recognises known errors in logs, tells the first cause from what "
    "follows from it, and names the next step. With a program behind --, runs it and explains its "
    "end. Without either, checks this machine.";

constexpr const char* kDoctorExamples =
    "Examples:\n"
    "  muster doctor train.log             one log, or several\n"
    "  muster doctor ~/.local/state/muster/logs/RUN     all ranks' logs of a run\n"
    "  ./train 2>&1 | muster doctor -      a log from a pipe\n"
    "  muster doctor -- ./train --epochs 3 run it, explain its end\n"
    "  muster doctor                       this machine: driver, memory, limits\n"
    "  muster doctor --checks shm,limits --json\n"
    "\n"
    "Exit codes:\n"
    "  of logs 0 if a cause was recognised, 1 if not; of this machine 0 if no check\n"
    "  fails (warnings do not count), 1 if one does; of a program its own, 128 + n\n"
    "  after signal n; 2 wrong use.\n"
    "\n"
    "Logs may have colours, progress bars, bytes of any encoding and the prefixes of\n"
    "muster run, torchrun, mpirun and srun -l; they are read once, whatever their\n"
    "size. A program's stdout and stderr are pipes here, no terminal; the report is\n"
    "on stderr behind them. All errors that are known: docs/errors.md.";

struct DoctorWords {
  std::vector<std::string> logs;
  std::filesystem::path output = ".", program;
  std::string checks;
  bool no_checks = false, json = false, catalogue = false;
};

std::unique_ptr<CLI::App> doctor_app(DoctorWords& words) {
  auto app =
      make_app("doctor",
               kDoctorDescription,
               kDoctorExamples,
               "muster doctor [OPTIONS] [LOG...]\n       muster doctor [OPTIONS] -- PROGRAM ARGS");
  program::add_value(*app, "logs", words.logs, "files, folders of logs, or - for stdin")
      ->type_name("FILE");
  program::add_value(*app, "--checks", words.checks, "only these checks, with commas [all]")
      ->type_name("NAMES");
  app->add_flag(
      "--no-checks", words.no_checks, "of a log from another machine: look at nothing here");
  program::add_value(*app, "--output", words.output, "the folder where a run would write")
      ->type_name("DIR")
      ->capture_default_str();
  program::add_value(*app, "--program", words.program, "the program whose libraries are looked for")
      ->type_name("FILE");
  app->add_flag("--json", words.json, "one JSON object");
  app->add_flag("--catalogue", words.catalogue, "print the page of all known errors");
  return app;
}

/// The sibling that is linked with LibTorch, unless a program is named.
std::filesystem::path program_of(const DoctorWords& words) {
  if (!words.program.empty()) return words.program;
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  const auto sibling = self.parent_path() / "muster-torch";
  return !error && std::filesystem::exists(sibling, error) ? sibling : std::filesystem::path();
}

std::vector<diagnose::CheckResult> run_checks_of(const DoctorWords& words, std::string_view names) {
  diagnose::Surroundings surroundings;
  surroundings.output = words.output;
  surroundings.program = program_of(words);
  return diagnose::run_checks(surroundings, names);
}

int check_machine(const DoctorWords& words, program::Console& console) {
  const auto results = run_checks_of(words, words.checks);
  if (words.json)
    console.out() << json_text(Json{{"checks", to_json(results)}}) << '\n' << std::flush;
  else
    console.out() << diagnose::checks_text(results, static_cast<size_t>(console.width()))
                  << std::flush;
  return diagnose::worst(results) == diagnose::Verdict::kFail ? kFailed : kDone;
}

/// To `out`; whether a cause was recognised.
bool explain(const diagnose::LogDiagnosis& diagnosis,
             const DoctorWords& words,
             std::ostream& out,
             size_t width) {
  const diagnose::Finding* first = diagnosis.first_cause();
  std::vector<diagnose::CheckResult> results;
  const std::string_view names = !words.checks.empty() ? std::string_view(words.checks)
                                 : first != nullptr    ? first->row->checks
                                                       : std::string_view();
  if (!words.no_checks && !trim(names).empty()) results = run_checks_of(words, names);
  if (words.json)
    out << json_text(to_json(diagnosis, results)) << '\n' << std::flush;
  else
    out << diagnose::diagnosis_text(diagnosis, results, width) << std::flush;
  return first != nullptr;
}

int explain_program(const std::vector<std::string>& argv,
                    const DoctorWords& words,
                    program::Console& console) {
  diagnose::LogReader reader;
  const diagnose::ProgramEnd end = watch_program(argv, reader);
  const int code = shell_code(end);
  if (code != kDone || words.json) {
    if (!words.json)
      console.err() << "\nmuster doctor: " << argv[0] << " ended with " << code << "\n\n";
    explain(reader.diagnosis(), words, console.err(), static_cast<size_t>(console.width()));
  }
  return code;
}

int run_doctor_command(std::span<const std::string> args, program::Console& console) {
  DoctorWords words;
  const auto app = doctor_app(words);
  const auto own_end = std::ranges::find(args, "--");
  if (const auto done = program::parse(*app, std::span(args.begin(), own_end), console))
    return *done;
  if (words.catalogue) {
    console.out() << catalogue_page() << std::flush;
    return kDone;
  }
  if (own_end != args.end()) {
    const std::vector<std::string> argv(own_end + 1, args.end());
    if (argv.empty()) {
      throw usage_error(
          {.refused = "no program behind --", .hint = "muster doctor -- ./train --its-own-flags"});
    }
    const bool says_run = words.logs == std::vector<std::string>{"run"};
    if (!words.logs.empty() && !says_run) {
      throw usage_error({.refused = "logs and a program",
                         .rule = "either logs are read, or a program is run",
                         .value = words.logs[0]});
    }
    return explain_program(argv, words, console);
  }
  if (words.logs.empty()) return check_machine(words, console);
  diagnose::LogReader reader;
  read_logs(words.logs, reader);
  const bool known =
      explain(reader.diagnosis(), words, console.out(), static_cast<size_t>(console.width()));
  return known ? kDone : kFailed;
}

}  // namespace

extern constinit const CommandEntry doctor_entry{
    "doctor", "explain a failure by its log, or check this machine", &run_doctor_command};

}  // namespace muster::cli
