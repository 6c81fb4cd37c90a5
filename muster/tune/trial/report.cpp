#include "muster/tune/trial/report.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <mutex>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "muster/base/error.h"
#include "muster/base/json.h"
#include "muster/base/text.h"
#include "muster/tune/trial/wire.h"

namespace muster::tune {
namespace {

using Clock = std::chrono::steady_clock;

// Between two tries to connect: the first, and the longest after doubling.
constexpr int kFirstRetryMs = 10;
constexpr int kLookForEndMs = 100;
constexpr int kLongestRetryMs = 1000;

/// So that sequences of this process are told from those of others of the trial.
std::string made_up_name() {
  unsigned char bytes[16];
  if (::getrandom(bytes, sizeof bytes, 0) != static_cast<ssize_t>(sizeof bytes)) {
    return concat(::getpid(), '-', Clock::now().time_since_epoch().count());
  }
  std::string name;
  for (const unsigned char byte : bytes) {
    name += "0123456789abcdef"[byte >> 4];
    name += "0123456789abcdef"[byte & 15];
  }
  return name;
}

bool send_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t put = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (put > 0) bytes.remove_prefix(static_cast<size_t>(put));
    if (put < 0 && errno != EINTR) return false;
  }
  return true;
}

/// Whole numbers of the environment that a tuner wrote; its word is not checked further.
int64_t number_in(const EnvLookup& lookup, std::string_view name, int64_t otherwise) {
  const auto text = lookup(name);
  const auto value = text ? to_int(*text) : std::nullopt;
  return value.value_or(otherwise);
}

}  // namespace

struct TrialLink::Impl {
  LinkOptions options;
  std::optional<Address> address;
  std::string report_file;
  Hello hello;
  std::mutex mutex;
  UniqueFd fd;
  pid_t owner = -1;  // the process that connected
  LineBuffer lines;
  int64_t sequence = 0;

  bool is_to_end() const { return options.stop_requested && options.stop_requested(); }
  Decision exchange(Report report);
  std::optional<Answer> try_once(const std::string& line, int64_t wanted, std::string& trouble);
  std::optional<Answer> read_answer(int64_t wanted);
  void write_one_way(const Report& report) const;
  void echo(const Report& report) const;
  [[noreturn]] void lost(const std::string& trouble) const;
};

void say_failure(Failure failure, std::string_view message) {
  if (!process_environment(kTrialIdEnv)) return;
  const std::string line = to_failure_line({failure, std::string(message)});
  std::fprintf(stderr, "%s\n", line.c_str());
}

TrialLink::TrialLink(LinkOptions options, const EnvLookup& lookup)
    : impl_(std::make_unique<Impl>()) {
  impl_->options = std::move(options);
  if (const auto text = lookup(kTunerAddrEnv); text && !text->empty())
    impl_->address = parse_address(*text, kTunerAddrEnv);
  impl_->report_file = lookup(kReportFileEnv).value_or("");
  impl_->hello = {.token = lookup(kTunerTokenEnv).value_or(""),
                  .trial = number_in(lookup, kTrialIdEnv, 0),
                  .attempt = static_cast<int32_t>(number_in(lookup, kAttemptEnv, 1)),
                  .client = made_up_name()};
}

TrialLink::~TrialLink() = default;

TrialLink::Kind TrialLink::kind() const {
  if (impl_->address) return Kind::kTwoWay;
  return impl_->report_file.empty() ? Kind::kNone : Kind::kOneWay;
}

Decision TrialLink::report(const Metrics& metrics, const ReportOptions& options) {
  const std::lock_guard lock(impl_->mutex);
  Report report{.step = options.step, .metrics = metrics};
  if (!options.checkpoint.empty())
    report.checkpoint = std::filesystem::absolute(options.checkpoint).lexically_normal();
  if (kind() == Kind::kTwoWay) return impl_->exchange(std::move(report));
  kind() == Kind::kOneWay ? impl_->write_one_way(report) : impl_->echo(report);
  return {};
}

Decision TrialLink::Impl::exchange(Report report) {
  if (owner != ::getpid()) {  // the first report, or a forked child's
    if (owner != -1) hello.client = made_up_name();
    fd.reset();
    owner = ::getpid();
    sequence = 0;
  }
  report.sequence = sequence + 1;
  const std::string line = to_line(report);
  sequence = report.sequence;
  std::string trouble;
  std::optional<Clock::time_point> lost_since;
  for (int pause_ms = kFirstRetryMs;; pause_ms = std::min(2 * pause_ms, kLongestRetryMs)) {
    if (const auto answer = try_once(line, report.sequence, trouble)) {
      if (!answer->error.empty()) {
        throw usage_error({.refused = "the tuner refused this report", .rule = answer->error});
      }
      return {.action = answer->action, .reason = answer->reason};
    }
    if (is_to_end()) return {};  // whoever is to end hears it from its own signal
    if (!lost_since) lost_since = Clock::now();
    const std::chrono::duration<double> gone = Clock::now() - *lost_since;
    if (gone.count() >= options.lease_s) lost(trouble);
    ::poll(nullptr, 0, pause_ms);
  }
}

/// Nothing if the link is broken; it may be tried again.
std::optional<Answer> TrialLink::Impl::try_once(const std::string& line,
                                                int64_t wanted,
                                                std::string& trouble) {
  std::string bytes = line;
  if (!fd) {
    Connected connected = connect_to(*address);
    trouble = connected.trouble;
    if (!connected.fd) return std::nullopt;
    fd = std::move(connected.fd);
    lines = {};
    bytes = to_line(hello) + line;
  }
  if (send_all(fd.get(), bytes)) {
    if (auto answer = read_answer(wanted)) return answer;
  }
  trouble = "the tuner has hung up";
  fd.reset();
  return std::nullopt;
}

std::optional<Answer> TrialLink::Impl::read_answer(int64_t wanted) {
  std::optional<Answer> found;
  char buffer[4096];
  while (!found) {
    pollfd socket{.fd = fd.get(), .events = POLLIN, .revents = 0};
    while (options.stop_requested && ::poll(&socket, 1, kLookForEndMs) <= 0)
      if (is_to_end()) return std::nullopt;
    const ssize_t got = ::recv(fd.get(), buffer, sizeof buffer, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return std::nullopt;
    lines.feed({buffer, static_cast<size_t>(got)}, [&](std::string_view text) {
      Answer answer = parse_answer(text);
      // Sequence 0 is about the hello: this trial is not known there, and never will be.
      if (answer.sequence == wanted || answer.sequence == 0) found = std::move(answer);
    });
  }
  if (found->sequence == 0) fd.reset();
  return found;
}

void TrialLink::Impl::write_one_way(const Report& report) const {
  const std::string line = to_report_line(report) + '\n';
  const UniqueFd file(::open(report_file.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644));
  if (!file) {
    throw environment_error({.refused = "cannot open " + report_file, .rule = errno_text(errno)});
  }
  write_all(file.get(), line, report_file);
}

void TrialLink::Impl::echo(const Report& report) const {
  const std::string line = to_report_line(report);
  if (options.echo) return options.echo(line);
  std::fprintf(stderr, "report (no tuner listens): %s\n", line.c_str());
}

void TrialLink::Impl::lost(const std::string& trouble) const {
  const Error error = environment_error(
      {.refused = concat("the link to the tuner at ", address_text(*address), " is lost"),
       .rule = concat(trouble, ", for more than ", shortest(options.lease_s), " s"),
       .hint = "the report was not answered; the study's next run starts this trial again"});
  if (!options.exit_when_lost) throw error;
  std::fprintf(stderr, "muster: %s\n", error.what());
  std::fflush(nullptr);
  std::_Exit(1);
}

Action report(const Metrics& metrics, const ReportOptions& options) {
  // One per process, since a process is one trial: where it reports to is in its environment.
  static TrialLink link;
  return link.report(metrics, options).action;
}

Json params(const EnvLookup& lookup) {
  const auto file = lookup(kParamsFileEnv);
  if (!file || file->empty()) return Json::object();
  return parse_json(read_file(*file), *file);
}

std::optional<std::string> resume_from(const EnvLookup& lookup) {
  auto path = lookup(kResumeFromEnv);
  if (path && path->empty()) return std::nullopt;
  return path;
}

std::optional<std::string> checkpoint_dir(const EnvLookup& lookup) {
  auto path = lookup(kCheckpointDirEnv);
  if (path && path->empty()) return std::nullopt;
  return path;
}

}  // namespace muster::tune
