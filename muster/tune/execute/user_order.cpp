#include "muster/tune/execute/user_order.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "muster/base/error.h"
#include "muster/base/file.h"
#include "muster/base/json.h"
#include "muster/base/text.h"
#include "muster/tune/core/study_paths.h"
#include "muster/tune/trial/wire.h"

namespace muster::tune {
namespace {

Error unreachable(std::string_view study, const std::string& why) {
  return usage_error({.refused = concat("cannot reach a tuner of study \"", study, "\""),
                      .rule = why,
                      .hint =
                          "a tuner on another machine, or one whose trials are functions of its "
                          "own program, hears only its own Ctrl-C"});
}

/// The answer to one line, or why there is none.
std::string ask(const TunerContact& contact,
                const UserOrder& order,
                double timeout_s,
                Answer& answer) {
  const Connected connected = connect_to(contact.address);
  if (!connected.fd) return connected.trouble;
  const timeval limit{.tv_sec = static_cast<time_t>(timeout_s),
                      .tv_usec = static_cast<suseconds_t>(
                          (timeout_s - static_cast<double>(static_cast<time_t>(timeout_s))) * 1e6)};
  ::setsockopt(connected.fd.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  const std::string line = to_line(order);
  if (::send(connected.fd.get(), line.data(), line.size(), MSG_NOSIGNAL) !=
      static_cast<ssize_t>(line.size()))
    return errno_text(errno);
  LineBuffer lines;
  bool found = false;
  char buffer[4096];
  while (!found) {
    const ssize_t got = ::recv(connected.fd.get(), buffer, sizeof buffer, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return concat("no answer within ", human_duration(timeout_s));
    if (got <= 0) return "it has hung up";
    lines.feed({buffer, static_cast<size_t>(got)}, [&](std::string_view text) {
      answer = parse_answer(text);
      found = true;
    });
  }
  return "";
}

Answer told(const std::filesystem::path& storage,
            std::string_view study,
            UserOrder order,
            double timeout_s) {
  const auto contact = read_contact(contact_file(storage, study));
  if (!contact) throw unreachable(study, "none says that it runs it");
  order.token = contact->token;
  Answer answer;
  const std::string trouble = ask(*contact, order, timeout_s, answer);
  if (!trouble.empty())
    throw unreachable(study, concat("process ", contact->pid, " does not answer: ", trouble));
  if (answer.error.empty()) return answer;
  throw usage_error(
      {.refused = concat("the tuner of study \"", study, "\" refuses"), .rule = answer.error});
}

}  // namespace

std::filesystem::path contact_file(const std::filesystem::path& storage, std::string_view study) {
  return file_of_study(storage, study, "tuner");
}

void write_contact(const std::filesystem::path& file, const TunerContact& contact) {
  const std::string text = json_text(Json{{"pid", contact.pid},
                                          {"address", address_text(contact.address)},
                                          {"token", contact.token},
                                          {"time_budget_s", contact.facts.time_budget_s},
                                          {"max_concurrent", contact.facts.max_concurrent},
                                          {"planned", contact.facts.planned},
                                          {"trial_folder", contact.facts.trial_folder.string()}}) +
                           '\n';
  // Never readable for others, not even for a moment: who has the token may stop the study.
  const std::string made = concat(file.string(), ".tmp-", ::getpid());
  ::unlink(made.c_str());
  const UniqueFd fd(::open(made.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!fd) {
    throw environment_error({.refused = "cannot write " + made, .rule = errno_text(errno)});
  }
  try {
    write_all(fd.get(), text, made);
  } catch (...) {
    ::unlink(made.c_str());
    throw;
  }
  std::error_code error;
  std::filesystem::rename(made, file, error);
  if (!error) return;
  ::unlink(made.c_str());
  throw environment_error(
      {.refused = "cannot write " + file.string(), .rule = errno_text(error.value())});
}

std::optional<TunerContact> read_contact(const std::filesystem::path& file) {
  try {
    const Json json = parse_json(read_file(file), file.string());
    return TunerContact{
        .pid = json.at("pid").get<int>(),
        .address = parse_address(json.at("address").get<std::string>(), file.string()),
        .token = json.at("token").get<std::string>(),
        .facts = {.time_budget_s = json.value("time_budget_s", 0.0),
                  .max_concurrent = json.value("max_concurrent", int64_t{0}),
                  .planned = json.value("planned", int64_t{-1}),
                  .trial_folder = json.value("trial_folder", std::string())}};
  } catch (const Error&) {
    return std::nullopt;
  } catch (const Json::exception&) {
    return std::nullopt;
  }
}

void request_stop(const std::filesystem::path& storage, std::string_view study, double timeout_s) {
  told(storage, study, {.trial = -1, .action = Action::kStop}, timeout_s);
}

std::string order_trial(const std::filesystem::path& storage,
                        std::string_view study,
                        int64_t trial,
                        Action action,
                        double timeout_s) {
  if (trial < 0) {
    throw usage_error({.refused = "an order for a trial",
                       .rule = "its number is at least 0",
                       .value = std::to_string(trial)});
  }
  return told(storage, study, {.trial = trial, .action = action}, timeout_s).reason;
}

}  // namespace muster::tune
