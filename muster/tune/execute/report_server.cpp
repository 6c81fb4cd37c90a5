#include "muster/tune/execute/report_server.h"

#include <algorithm>

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "muster/base/error.h"
#include "muster/base/text.h"

namespace muster::tune {
namespace {

// Per turn, so that one flood does not starve the others.
constexpr size_t kReportReadBytes = 16 << 10;
constexpr size_t kOverRemembered = 256;  // tokens of ended attempts

bool has_caller(int listener) {
  pollfd one{.fd = listener, .events = POLLIN, .revents = 0};
  return ::poll(&one, 1, 0) > 0;
}

}  // namespace

struct ReportServer::Attempt {
  int64_t trial = -1;
  int32_t attempt = 1;
  std::string token;
  bool heard = false;
  struct Known {
    std::string client;
    int64_t sequence;
    std::optional<Answer> answer;  // nothing: not answered yet
    uint64_t ticket = 0;
  };
  std::deque<Known> known;  // newest last

  Known* find(const std::string& client, int64_t sequence) {
    const auto found = std::find_if(known.rbegin(), known.rend(), [&](const Known& one) {
      return one.sequence == sequence && one.client == client;
    });
    return found == known.rend() ? nullptr : &*found;
  }
};

struct ReportServer::Connection {
  uint64_t id = 0;
  UniqueFd fd;
  LineBuffer in;
  std::string out;
  std::string token;  // of the attempt; empty: no hello yet
  std::string client;
  size_t open = 0;
  uint64_t used = 0;  // when it was last read from: see uses_
  enum class Awaits { kNothing, kRead, kWrite } awaits = Awaits::kRead;
  bool at_end = false;  // the other side writes no more
  bool over = false;    // to be closed once `out` is written

  bool may_read() const { return !at_end && !over && out.empty() && open < kMostOpen; }
};

ReportServer::ReportServer(launch::EventLoop& loop,
                           const std::string& path,
                           std::string stop_token,
                           Handler& handler)
    : loop_(loop),
      handler_(handler),
      stop_token_(std::move(stop_token)),
      listener_(listen_on(path)) {
  loop_.add(listener_.get(), [this] { accept_all(); });
}

ReportServer::~ReportServer() {
  loop_.forget(listener_.get());
  while (!connections_.empty()) hang_up(connections_.begin()->first);
}

void ReportServer::admit(int64_t trial, int32_t attempt, const std::string& token) {
  auto made = std::make_unique<Attempt>();
  made->trial = trial;
  made->attempt = attempt;
  made->token = token;
  by_trial_[trial] = made.get();
  attempts_[token] = std::move(made);
}

bool ReportServer::hears(int64_t trial) const {
  const auto found = by_trial_.find(trial);
  return found != by_trial_.end() && found->second->heard;
}

void ReportServer::accept_all() {
  for (;;) {
    UniqueFd fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!fd) {
      if (errno == EINTR || errno == ECONNABORTED) continue;
      // The kernel wants a free descriptor before it looks whether anybody calls.
      const bool is_full = errno == EMFILE || errno == ENFILE;
      if (is_full && has_caller(listener_.get())) sweep();
      return;
    }
    if (connections_.size() >= kMostConnections) sweep();
    auto made = std::make_unique<Connection>();
    made->id = next_connection_++;
    made->used = ++uses_;
    made->fd = std::move(fd);
    const uint64_t id = made->id;
    loop_.add(made->fd.get(), [this, id] { on_ready(id); });
    connections_.emplace(id, std::move(made));
  }
}

/// Somebody connects without end: who has been idle longest goes. A client connects again when it
/// has something to say.
void ReportServer::sweep() {
  const Connection* idle = nullptr;
  for (const auto& [id, connection] : connections_) {
    if (connection->open == 0 && (idle == nullptr || connection->used < idle->used))
      idle = connection.get();
  }
  if (idle == nullptr) return;
  handler_.on_note(-1, "too many connections to the tuner: an idle one is closed");
  hang_up(idle->id);
}

void ReportServer::on_ready(uint64_t id) {
  const auto found = connections_.find(id);
  if (found == connections_.end()) return;
  Connection& connection = *found->second;
  connection.used = ++uses_;
  if (!connection.out.empty()) {
    flush(connection);
  } else {
    read_some(connection);
  }
  refresh(connection);
}

/// True if there was something.
bool ReportServer::read_some(Connection& connection) {
  char buffer[kReportReadBytes];
  ssize_t got = -1;
  do {
    got = ::recv(connection.fd.get(), buffer, sizeof buffer, 0);
  } while (got < 0 && errno == EINTR);
  const auto on_whole_line = [&](std::string_view line) { on_line(connection, line); };
  if (got > 0) {
    connection.in.feed({buffer, static_cast<size_t>(got)}, on_whole_line);
    return true;
  }
  if (got < 0 && errno == EAGAIN) return false;
  connection.at_end = true;
  connection.in.flush(on_whole_line);
  return false;
}

/// Watches for what the connection needs next, or closes it.
void ReportServer::refresh(Connection& connection) {
  const bool answered = connection.open == 0 && connection.out.empty();
  if (answered && (connection.over || connection.at_end)) return hang_up(connection.id);
  using Awaits = Connection::Awaits;
  const Awaits wanted = !connection.out.empty() ? Awaits::kWrite
                        : connection.may_read() ? Awaits::kRead
                                                : Awaits::kNothing;
  const Awaits now = std::exchange(connection.awaits, wanted);
  if (wanted == now) return;
  const int fd = connection.fd.get();
  if (wanted == Awaits::kNothing) return loop_.pause(fd);
  if (now == Awaits::kNothing) loop_.resume(fd);
  using For = launch::EventLoop::For;
  loop_.wait_for(fd, wanted == Awaits::kWrite ? For::kWrite : For::kRead);
}

void ReportServer::on_line(Connection& connection, std::string_view line) {
  if (connection.over || trim(line).empty()) return;
  try {
    TrialMessage message = parse_trial_message(line);
    if (const auto* hello = std::get_if<Hello>(&message)) return on_hello(connection, *hello);
    if (const auto* order = std::get_if<UserOrder>(&message)) return on_order(connection, *order);
    on_report(connection, std::move(std::get<Report>(message)));
  } catch (const Error& error) {
    const auto found = attempts_.find(connection.token);
    const int64_t trial = found == attempts_.end() ? -1 : found->second->trial;
    handler_.on_note(
        trial,
        concat("sent a line that is no message: ", error.text().refused, ": ", error.text().rule));
    say(connection, {.error = error.what()});
    // A stranger gets one answer; a trial may go on.
    if (connection.token.empty()) connection.over = true;
  }
}

void ReportServer::on_hello(Connection& connection, const Hello& hello) {
  const auto found = attempts_.find(hello.token);
  if (found != attempts_.end()) {
    connection.token = hello.token;
    connection.client = hello.client;
    found->second->heard = true;
    return;
  }
  connection.over = true;
  const auto ended =
      std::ranges::find(over_, hello.token, [](const auto& one) { return one.first; });
  if (ended == over_.end()) {
    handler_.on_note(-1,
                     concat("a process that says to be trial ",
                            hello.trial,
                            " has a token of no trial of this tuner: turned away"));
    return say(connection, {.error = "this token is of no trial of this tuner"});
  }
  handler_.on_note(hello.trial, "reports after its end: not counted");
  say(connection, {.error = ended->second + " is over"});
}

void ReportServer::on_report(Connection& connection, Report report) {
  const auto found = attempts_.find(connection.token);
  if (found == attempts_.end()) {
    connection.over = true;
    return say(connection, {.error = "a hello comes before the first report"});
  }
  Attempt& attempt = *found->second;
  const int64_t sequence = report.sequence;
  if (auto* known = attempt.find(connection.client, sequence)) {
    if (known->answer) return say(connection, *known->answer);
    const auto open = open_.find(known->ticket);
    if (open == open_.end() || open->second.connection == connection.id) return;
    // The client has come back; it hears the answer where it is now.
    const auto before = connections_.find(open->second.connection);
    if (before != connections_.end()) --before->second->open;
    open->second.connection = connection.id;
    ++connection.open;
    return;
  }
  Handler::Taken taken = handler_.on_report(attempt.trial, std::move(report));
  if (attempt.known.size() >= kRemembered) {  // never one that is still to be answered
    const auto oldest = std::ranges::find_if(
        attempt.known, [](const auto& known) { return known.answer.has_value(); });
    if (oldest != attempt.known.end()) attempt.known.erase(oldest);
  }
  attempt.known.push_back({connection.client, sequence, taken.now, taken.ticket});
  if (taken.now) {
    attempt.known.back().answer->sequence = sequence;
    return say(connection, *attempt.known.back().answer);
  }
  open_[taken.ticket] = {connection.token, connection.client, sequence, connection.id};
  ++connection.open;
}

/// One order per connection: it is over when that is answered.
void ReportServer::on_order(Connection& connection, const UserOrder& order) {
  connection.over = true;
  if (order.token != stop_token_)
    return say(connection, {.error = "this token is not the tuner's"});
  const Handler::Taken taken = handler_.on_order(order);
  if (taken.now) return say(connection, *taken.now);
  open_[taken.ticket] = {.token = "", .client = "", .sequence = 0, .connection = connection.id};
  ++connection.open;
}

void ReportServer::answer(uint64_t ticket, const Answer& given) {
  const auto found = open_.find(ticket);
  if (found == open_.end()) return;
  const Open open = std::move(found->second);
  open_.erase(found);
  Answer answer = given;
  answer.sequence = open.sequence;
  if (const auto attempt = attempts_.find(open.token); attempt != attempts_.end()) {
    if (auto* known = attempt->second->find(open.client, open.sequence)) known->answer = answer;
  }
  const auto connection = connections_.find(open.connection);
  if (connection == connections_.end()) return;
  --connection->second->open;
  say(*connection->second, answer);
  refresh(*connection->second);
}

void ReportServer::say(Connection& connection, const Answer& answer) {
  connection.out += to_line(answer);
  flush(connection);
}

void ReportServer::flush(Connection& connection) {
  while (!connection.out.empty()) {
    const ssize_t put = ::send(connection.fd.get(),
                               connection.out.data(),
                               connection.out.size(),
                               MSG_NOSIGNAL | MSG_DONTWAIT);
    if (put > 0) connection.out.erase(0, static_cast<size_t>(put));
    if (put < 0 && errno == EINTR) continue;
    if (put < 0 && errno == EAGAIN) return;
    if (put <= 0) {  // gone; the answer is remembered in case it comes back
      connection.out.clear();
      connection.over = true;
    }
  }
}

bool ReportServer::read_rest(int64_t trial) {
  accept_all();
  const auto found = by_trial_.find(trial);
  const std::string token = found == by_trial_.end() ? "" : found->second->token;
  std::vector<uint64_t> ids;
  for (const auto& [id, connection] : connections_) {
    if (connection->token.empty() || connection->token == token) ids.push_back(id);
  }
  bool all = true;
  for (const uint64_t id : ids) {
    Connection& connection = *connections_.at(id);
    while (connection.may_read() && read_some(connection)) {
    }
    const bool read_all = connection.at_end || connection.over || connection.open < kMostOpen;
    all = all && (connection.token != token || read_all);
    refresh(connection);
  }
  return all;
}

void ReportServer::dismiss(int64_t trial) {
  const auto found = by_trial_.find(trial);
  if (found == by_trial_.end()) return;
  const std::string token = found->second->token;
  over_.emplace_back(token, concat("attempt ", found->second->attempt, " of trial ", trial));
  if (over_.size() > kOverRemembered) over_.pop_front();
  std::vector<uint64_t> ids;
  for (const auto& [id, connection] : connections_) {
    if (connection->token == token) ids.push_back(id);
  }
  for (const uint64_t id : ids) hang_up(id);
  std::erase_if(open_, [&](const auto& open) { return open.second.token == token; });
  by_trial_.erase(found);
  attempts_.erase(token);
}

void ReportServer::hang_up(uint64_t id) {
  const auto found = connections_.find(id);
  if (found == connections_.end()) return;
  loop_.forget(found->second->fd.get());
  connections_.erase(found);
}

}  // namespace muster::tune
