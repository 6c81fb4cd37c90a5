// Where trials connect: a socket, its connections, and what is known of each report's answer.
// Private to the room.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>

#include "muster/base/file.h"
#include "muster/launch/io/event_loop.h"
#include "muster/tune/trial/protocol.h"
#include "muster/tune/trial/wire.h"

namespace muster::tune {

/// Serves Note [Trial protocol] on a listening socket. Memory is bounded whatever comes in: a
/// connection is read only while fewer than kMostOpen of its reports wait for their answers and
/// all answers so far could be written. One thread: that of the loop.
class ReportServer {
 public:
  static constexpr size_t kMostOpen = 64;     ///< unanswered reports per connection
  static constexpr size_t kRemembered = 256;  ///< answers per attempt, for repeated reports
  static constexpr size_t kMostConnections = 4096;

  class Handler {
   public:
    virtual ~Handler() = default;
    /// A report: a ticket for answer(), or an answer at once (its sequence is filled in).
    struct Taken {
      uint64_t ticket = 0;
      std::optional<Answer> now;
    };
    virtual Taken on_report(int64_t trial, Report report) = 0;
    /// What a user orders by `muster study stop` and its likes.
    virtual Taken on_order(const UserOrder& order) = 0;
    /// A line for the user that is about `trial` (-1: nobody known).
    virtual void on_note(int64_t trial, const std::string& text) = 0;
  };

  /// The socket listens at `path`. Throws an environment error.
  ReportServer(launch::EventLoop& loop,
               const std::string& path,
               std::string stop_token,
               Handler& handler);
  ~ReportServer();
  ReportServer(const ReportServer&) = delete;
  ReportServer& operator=(const ReportServer&) = delete;

  /// From now on connections with this token are those of `trial`.
  void admit(int64_t trial, int32_t attempt, const std::string& token);

  /// True if a process of the trial has said hello, so that it can hear an answer.
  bool hears(int64_t trial) const;

  /// Nothing happens for a ticket that is none.
  void answer(uint64_t ticket, const Answer& answer);

  /// Reads all that processes of the trial have written, now that none of them lives. False if it
  /// stopped before the end because answers are outstanding.
  bool read_rest(int64_t trial);

  /// Hangs up and forgets the trial's token but for a message to who still has it.
  void dismiss(int64_t trial);

 private:
  struct Attempt;
  struct Connection;
  using Connections = std::map<uint64_t, std::unique_ptr<Connection>>;

  void accept_all();
  void on_ready(uint64_t id);
  bool read_some(Connection& connection);
  void on_line(Connection& connection, std::string_view line);
  void on_hello(Connection& connection, const Hello& hello);
  void on_report(Connection& connection, Report report);
  void on_order(Connection& connection, const UserOrder& order);
  void say(Connection& connection, const Answer& answer);
  void flush(Connection& connection);
  void refresh(Connection& connection);
  void hang_up(uint64_t id);
  void sweep();

  launch::EventLoop& loop_;
  Handler& handler_;
  std::string stop_token_;
  UniqueFd listener_;
  Connections connections_;
  uint64_t next_connection_ = 1;
  uint64_t uses_ = 0;  // counts reads of all connections
  std::unordered_map<std::string, std::unique_ptr<Attempt>> attempts_;  // by token
  std::map<int64_t, Attempt*> by_trial_;
  struct Open {
    std::string token, client;
    int64_t sequence;
    uint64_t connection;
  };
  std::unordered_map<uint64_t, Open> open_;               // by ticket
  std::deque<std::pair<std::string, std::string>> over_;  // tokens of ended attempts, their names
};

}  // namespace muster::tune
