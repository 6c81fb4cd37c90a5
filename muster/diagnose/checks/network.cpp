// What ranks need to meet: loopback, the host's own name, the port.
#include <algorithm>
#include <charconv>
#include <optional>

#include "muster/base/text.h"
#include "muster/diagnose/surroundings/check.h"

namespace muster::diagnose {
namespace {

constexpr int64_t kUsualPort = 29500;
constexpr std::string_view kListening = "0A";  // TCP_LISTEN in /proc/net/tcp

CheckResult loopback(const Surroundings& surroundings) {
  const auto why = surroundings.loopback();
  return {.name = "network.loopback",
          .verdict = why ? Verdict::kFail : Verdict::kOk,
          .value = why ? "no port of 127.0.0.1 can be had: " + *why : "127.0.0.1 takes connections",
          .rule = "ranks of one machine meet there",
          .hint = why ? "ip link set lo up, or allow it in this sandbox" : ""};
}

CheckResult own_name(const Surroundings& surroundings) {
  const std::string name(
      trim(surroundings.file("/proc/sys/kernel/hostname").value_or("localhost")));
  const auto addresses = surroundings.resolve(name);
  const auto own = surroundings.interfaces();
  CheckResult result{
      .name = "network.hostname",
      .value =
          concat(name, addresses.empty() ? " does not resolve" : " is " + join(addresses, ", ")),
      .rule = "the host's name leads to an address of this machine that others reach"};
  const auto is_loopback = [](const std::string& a) { return a.starts_with("127.") || a == "::1"; };
  const auto is_own = [&](const std::string& a) { return std::ranges::find(own, a) != own.end(); };
  if (addresses.empty()) {
    result.verdict = Verdict::kFail;
    result.hint = "add the name to /etc/hosts; gloo looks it up even on one machine";
  } else if (std::ranges::all_of(addresses, is_loopback)) {
    result.verdict = Verdict::kWarn;
    result.hint =
        "enough on one machine; over several set GLOO_SOCKET_IFNAME or correct /etc/hosts";
  } else if (!own.empty() && std::ranges::none_of(addresses, is_own)) {
    result.verdict = Verdict::kFail;
    result.hint = "no interface of this machine has that address: correct /etc/hosts or the DNS";
  }
  return result;
}

/// Whether somebody listens at the port, by a table of the kernel's: lines of
/// "sl local_address:port rem_address:port st …" in hexadecimal.
bool is_listened_at(const std::string& table, int64_t port) {
  for (const std::string& line : split(table, '\n')) {
    std::vector<std::string> words = split(trim(line), ' ');
    std::erase(words, "");
    if (words.size() < 4 || words[3] != kListening) continue;
    const size_t colon = words[1].rfind(':');
    if (colon == std::string::npos) continue;
    int64_t number = 0;
    const char* end = words[1].data() + words[1].size();
    if (std::from_chars(words[1].data() + colon + 1, end, number, 16).ptr == end && number == port)
      return true;
  }
  return false;
}

CheckResult port(const Surroundings& surroundings) {
  const auto set = surroundings.variable("MASTER_PORT");
  const int64_t number = set ? to_int(*set).value_or(-1) : kUsualPort;
  CheckResult result{.name = "network.port",
                     .value = concat("port ", set ? *set : std::to_string(kUsualPort), " is free"),
                     .rule = set ? "MASTER_PORT is free before a job starts"
                                 : "29500, the usual MASTER_PORT, is free"};
  if (number < 1 || number > 65535) {
    result.verdict = Verdict::kFail;
    result.value = concat("MASTER_PORT=", *set);
    result.hint = "a port is a number from 1 to 65535";
  } else if (is_listened_at(surroundings.file("/proc/net/tcp").value_or(""), number) ||
             is_listened_at(surroundings.file("/proc/net/tcp6").value_or(""), number)) {
    result.verdict = Verdict::kWarn;
    result.value = concat("somebody listens at port ", number);
    result.hint = concat("a job runs already, or is left over: ss -ltnp 'sport = :",
                         number,
                         "'; or take another port");
  }
  return result;
}

std::vector<CheckResult> run_network(const Surroundings& surroundings) {
  return {loopback(surroundings), own_name(surroundings), port(surroundings)};
}

}  // namespace

extern constinit const CheckEntry network_entry{
    "network", "loopback, the host's own name, the port where ranks meet", &run_network};

}  // namespace muster::diagnose
