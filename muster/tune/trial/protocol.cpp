#include "muster/tune/trial/protocol.h"

#include <algorithm>
#include <cctype>
#include <cmath>

#include "muster/base/error.h"
#include "muster/base/json.h"
#include "muster/base/text.h"

namespace muster::tune {
namespace {

constexpr std::string_view kLine = "this line";
constexpr double kWholeBelow = 9007199254740992.0;  // 2^53: whole doubles below it are exact

Error refused(std::string what, std::string rule, std::string value = "", std::string hint = "") {
  if (value.size() > 100) value = value.substr(0, 100) + "…";
  return usage_error({.refused = std::move(what),
                      .rule = std::move(rule),
                      .value = std::move(value),
                      .hint = std::move(hint)});
}

bool is_alphabetic(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; }

/// "nan", "inf" or nothing, for NaN, nan, Infinity, inf and the like.
std::string_view not_finite(std::string_view word) {
  std::string lower(word);
  std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return std::tolower(c); });
  if (lower == "nan") return "nan";
  if (lower == "inf" || lower == "infinity") return "inf";
  return {};
}

/// Bare words for numbers that JSON has not, which Python's json and printf write, become texts.
std::string with_quoted_words(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      out += c;
      if (c == '\\' && i + 1 < text.size()) out += text[++i];
      if (c == '"') in_string = false;
      continue;
    }
    in_string = c == '"';
    const size_t sign = (c == '-' || c == '+') && i + 1 < text.size() ? 1 : 0;
    if (!is_alphabetic(text[i + sign])) {
      out += c;
      continue;
    }
    size_t end = i + sign;
    while (end < text.size() && is_alphabetic(text[end])) ++end;
    const std::string_view kind = not_finite(text.substr(i + sign, end - i - sign));
    if (kind.empty()) {
      out += text.substr(i, end - i);
    } else {
      out += concat('"', c == '-' && kind == "inf" ? "-" : "", kind, '"');
    }
    i = end - 1;
  }
  return out;
}

Json object_of(std::string_view line) {
  while (line.ends_with('\n') || line.ends_with('\r')) line.remove_suffix(1);
  if (line.size() > kMaxLineBytes) {
    throw refused("this line is too long",
                  concat("a line has at most ", kMaxLineBytes, " bytes"),
                  concat(line.size(), " bytes"));
  }
  Json json = parse_json(with_quoted_words(line), kLine);
  if (!json.is_object()) throw refused("this line is no message", "it is a JSON object");
  return json;
}

int64_t whole(const Json& json, std::string_view name, int64_t low, int64_t high) {
  std::optional<int64_t> value;
  if (json.is_number_unsigned() && json.get<uint64_t>() <= uint64_t{INT64_MAX}) {
    value = static_cast<int64_t>(json.get<uint64_t>());
  } else if (json.is_number_integer() && !json.is_number_unsigned()) {
    value = json.get<int64_t>();
  } else if (json.is_number_float()) {
    const double number = json.get<double>();
    if (std::abs(number) < kWholeBelow && number == std::floor(number))
      value = static_cast<int64_t>(number);
  }
  if (value && *value >= low && *value <= high) return *value;
  throw refused(concat("\"", name, "\" cannot be taken"),
                high == INT64_MAX ? concat("it is a whole number, at least ", low)
                                  : concat("it is a whole number from ", low, " to ", high),
                json_text(json));
}

std::string member_text(const Json& json, std::string_view name, size_t most) {
  if (json.is_string() && json.get_ref<const std::string&>().size() <= most)
    return json.get<std::string>();
  throw refused(concat("\"", name, "\" cannot be taken"),
                concat("it is a text of at most ", most, " bytes"),
                json_text(json));
}

const Json& field(const Json& object, std::string_view name) {
  const auto found = object.find(name);
  if (found == object.end())
    throw refused(concat("\"", name, "\" is missing"), "this message has one");
  return *found;
}

void check_name(std::string_view name) {
  const bool printable =
      std::ranges::none_of(name, [](unsigned char c) { return c < 0x20 || c == 0x7f; });
  if (name.empty() || name.size() > kMaxNameBytes || !printable) {
    throw refused(
        "a metric's name cannot be taken",
        concat("it has 1 to ", kMaxNameBytes, " bytes and none of them is a control letter"),
        std::string(name));
  }
  if (name == "step" || name == "checkpoint") {
    throw refused(concat("no metric may be named \"", name, "\""),
                  "it is a part of the report itself");
  }
}

double number_of(const Json& json, const std::string& name) {
  if (json.is_number()) return json.get<double>();
  if (json.is_boolean()) return json.get<bool>() ? 1 : 0;
  if (json.is_string()) {
    const std::string& text = json.get_ref<const std::string&>();
    if (text == "nan") return std::numeric_limits<double>::quiet_NaN();
    if (text == "inf") return std::numeric_limits<double>::infinity();
    if (text == "-inf") return -std::numeric_limits<double>::infinity();
  }
  throw refused(concat("metric \"", name, "\" cannot be taken"), "it is a number", json_text(json));
}

Json number_json(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return value;
}

void check(const Report& report) {
  if (report.metrics.empty()) throw refused("this report is empty", "it has at least one metric");
  if (report.metrics.size() > kMaxMetrics) {
    throw refused("this report has too many metrics",
                  concat("it has at most ", kMaxMetrics),
                  std::to_string(report.metrics.size()));
  }
  for (const auto& [name, value] : report.metrics) check_name(name);
  if (report.step && *report.step < 0)
    throw refused("\"step\" cannot be taken", "it is at least 0", std::to_string(*report.step));
  if (report.checkpoint.size() > kMaxPathBytes) {
    throw refused("\"checkpoint\" cannot be taken",
                  concat("it is a path of at most ", kMaxPathBytes, " bytes"));
  }
}

/// Metrics of `object`, whose keys named in `skip` and those of Syne Tune's own are left out.
Metrics metrics_of(const Json& object, std::string_view skip_prefix) {
  Metrics metrics;
  for (const auto& [name, value] : object.items()) {
    if (!skip_prefix.empty() &&
        (name == "step" || name == "checkpoint" || name.starts_with(skip_prefix)))
      continue;
    metrics.emplace_back(name, number_of(value, name));
  }
  return metrics;
}

/// Step and checkpoint of a report, which null leaves unset.
void read_rest(const Json& object, Report& report) {
  const auto step = object.find("step");
  if (step != object.end() && !step->is_null()) report.step = whole(*step, "step", 0, INT64_MAX);
  const auto path = object.find("checkpoint");
  if (path != object.end() && !path->is_null())
    report.checkpoint = member_text(*path, "checkpoint", kMaxPathBytes);
}

Report report_of(const Json& object) {
  Report report;
  report.sequence = whole(field(object, "sequence"), "sequence", 1, INT64_MAX);
  const Json& metrics = field(object, "metrics");
  if (!metrics.is_object())
    throw refused("\"metrics\" cannot be taken", "it is an object of numbers", json_text(metrics));
  read_rest(object, report);
  report.metrics = metrics_of(metrics, "");
  check(report);
  return report;
}

Hello hello_of(const Json& object) {
  Hello hello;
  hello.token = member_text(field(object, "token"), "token", kMaxNameBytes);
  hello.trial = whole(field(object, "trial"), "trial", 0, INT64_MAX);
  hello.attempt = static_cast<int32_t>(whole(field(object, "attempt"), "attempt", 1, INT32_MAX));
  hello.client = member_text(field(object, "client"), "client", kMaxNameBytes);
  return hello;
}

Json json_of(const Metrics& metrics) {
  Json object = Json::object();
  for (const auto& [name, value] : metrics) object[name] = number_json(value);
  return object;
}

std::string protocol_line(const Json& json) {
  std::string line = json_text(json);
  if (line.size() > kMaxLineBytes) {
    throw refused("this message is too long",
                  concat("a line has at most ", kMaxLineBytes, " bytes"),
                  concat(line.size(), " bytes"));
  }
  return line += '\n';
}

std::string cut(const std::string& text) {
  if (text.size() <= kMaxReasonBytes) return text;
  size_t end = kMaxReasonBytes;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return text.substr(0, end);
}

Action action_of(const Json& json) {
  for (const Action action : {Action::kContinue, Action::kPause, Action::kStop}) {
    if (json == name_of(action)) return action;
  }
  throw refused("\"action\" cannot be taken", "it is continue, pause or stop", json_text(json));
}

}  // namespace

Address parse_address(std::string_view text, std::string_view where) {
  const auto bad = [&](std::string rule) {
    return refused(concat(where, " is no address"),
                   std::move(rule),
                   std::string(text),
                   "unset it, or see docs/trial-protocol.md");
  };
  if (text.starts_with("unix:")) {
    const std::string_view path = text.substr(5);
    if (path.empty() || path.find('\0') != std::string_view::npos)
      throw bad("a path stands behind unix:");
    return {.path = std::string(path)};
  }
  if (!text.starts_with("tcp:")) throw bad("it starts with unix: or tcp:");
  const std::string_view rest = text.substr(4);
  const size_t colon = rest.rfind(':');
  const auto port = colon == std::string_view::npos ? std::nullopt : to_int(rest.substr(colon + 1));
  if (!port || *port < 1 || *port > 65535) throw bad("it ends in a port from 1 to 65535");
  std::string_view host = rest.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  if (host.empty() || host.find_first_of(std::string_view("[]\0 ", 4)) != std::string_view::npos)
    throw bad("a host stands before the port");
  return {.host = std::string(host), .port = static_cast<uint16_t>(*port)};
}

std::string address_text(const Address& address) {
  if (!address.path.empty()) return "unix:" + address.path;
  const bool v6 = address.host.find(':') != std::string::npos;
  return concat("tcp:", v6 ? "[" : "", address.host, v6 ? "]:" : ":", address.port);
}

TrialMessage parse_trial_message(std::string_view line) {
  const Json object = object_of(line);
  const std::string type = member_text(field(object, "type"), "type", kMaxNameBytes);
  if (type == "report") return report_of(object);
  if (type == "hello") return hello_of(object);
  for (const Action action : {Action::kStop, Action::kPause, Action::kContinue}) {
    if (type != name_of(action)) continue;
    const int64_t least = action == Action::kStop ? -1 : 0;
    return UserOrder{.token = member_text(field(object, "token"), "token", kMaxNameBytes),
                     .trial = whole(field(object, "trial"), "trial", least, INT64_MAX),
                     .action = action};
  }
  throw refused("\"type\" cannot be taken", "it is hello, report, stop, pause or continue", type);
}

std::string to_line(const Hello& hello) {
  return protocol_line({{"type", "hello"},
                        {"token", hello.token},
                        {"trial", hello.trial},
                        {"attempt", hello.attempt},
                        {"client", hello.client}});
}

std::string to_line(const Report& report) {
  check(report);
  Json json{{"type", "report"}, {"sequence", report.sequence}};
  if (report.step) json["step"] = *report.step;
  json["metrics"] = json_of(report.metrics);
  if (!report.checkpoint.empty()) json["checkpoint"] = report.checkpoint;
  return protocol_line(json);
}

std::string to_line(const UserOrder& order) {
  return protocol_line(
      {{"type", name_of(order.action)}, {"token", order.token}, {"trial", order.trial}});
}

Answer parse_answer(std::string_view line) {
  const Json object = object_of(line);
  const std::string type = member_text(field(object, "type"), "type", kMaxNameBytes);
  Answer answer;
  answer.sequence = whole(field(object, "sequence"), "sequence", 0, INT64_MAX);
  if (type == "error") {
    answer.error = member_text(field(object, "message"), "message", kMaxLineBytes);
    if (answer.error.empty()) answer.error = "refused";
    return answer;
  }
  if (type != "answer") throw refused("\"type\" cannot be taken", "it is answer or error", type);
  answer.action = action_of(field(object, "action"));
  const auto reason = object.find("reason");
  if (reason != object.end()) answer.reason = member_text(*reason, "reason", kMaxLineBytes);
  return answer;
}

std::string to_line(const Answer& answer) {
  if (!answer.error.empty()) {
    return protocol_line(
        {{"type", "error"}, {"sequence", answer.sequence}, {"message", cut(answer.error)}});
  }
  Json json{{"type", "answer"}, {"sequence", answer.sequence}, {"action", name_of(answer.action)}};
  if (!answer.reason.empty()) json["reason"] = cut(answer.reason);
  return protocol_line(json);
}

Report parse_report_line(std::string_view line) {
  const Json object = object_of(line);
  Report report;
  read_rest(object, report);
  report.metrics = metrics_of(object, "st_");
  check(report);
  return report;
}

std::string to_report_line(const Report& report) {
  check(report);
  Json json = json_of(report.metrics);
  if (report.step) json["step"] = *report.step;
  if (!report.checkpoint.empty()) json["checkpoint"] = report.checkpoint;
  std::string line = protocol_line(json);
  line.pop_back();
  return line;
}

std::optional<std::string_view> behind_tag(std::string_view line, std::string_view tag) {
  const size_t at = line.find(tag);
  if (at == std::string_view::npos) return std::nullopt;
  return trim(line.substr(at + tag.size()));
}

FailureLine parse_failure_line(std::string_view json) {
  const Json object = object_of(json);
  const std::string name = member_text(field(object, "class"), "class", kMaxNameBytes);
  FailureLine line;
  const auto message = object.find("message");
  if (message != object.end()) line.message = cut(member_text(*message, "message", kMaxLineBytes));
  for (const Failure failure : {Failure::kCrash, Failure::kOutOfMemory, Failure::kNan}) {
    if (name == name_of(failure)) return line.failure = failure, line;
  }
  throw refused("\"class\" cannot be taken", "it is crash, oom or nan", name);
}

std::string to_failure_line(const FailureLine& line) {
  std::string json =
      protocol_line({{"class", name_of(line.failure)}, {"message", cut(line.message)}});
  json.pop_back();
  return concat(kFailureTag, ' ', json);
}

}  // namespace muster::tune
