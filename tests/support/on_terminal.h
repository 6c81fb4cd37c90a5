// A `muster` process on a terminal of its own, whose screen and keys the test has.
#pragma once

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <poll.h>
#include <pty.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>
#include <utmp.h>

#include "muster/base/file.h"

#include "tests/support/paths.h"
#include "tests/support/vt100.h"

namespace muster::testing_process {

struct TerminalOptions {
  std::vector<std::string> environment = {};  ///< "NAME=value", beside the inherited ones
  unsigned short columns = 100, rows = 30;
};

/// `muster` with a terminal of its own.
class OnTerminal {
 public:
  explicit OnTerminal(const std::vector<std::string>& args, const TerminalOptions& options = {})
      : screen_(options.columns, options.rows) {
    const winsize size{
        .ws_row = options.rows, .ws_col = options.columns, .ws_xpixel = 0, .ws_ypixel = 0};
    int slave = -1;
    if (::openpty(&master_, &slave, nullptr, nullptr, &size) != 0) std::abort();
    slave_.reset(slave);
    ::tcgetattr(slave, &before_);
    std::vector<std::string> words{test::program_path("muster")};
    words.insert(words.end(), args.begin(), args.end());
    std::vector<char*> argv;
    argv.reserve(words.size() + 1);
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::login_tty(slave);
      ::setenv("TERM", "vt100", 1);
      for (const std::string& variable : options.environment) {
        const size_t at = variable.find('=');
        ::setenv(variable.substr(0, at).c_str(), variable.c_str() + at + 1, 1);
      }
      ::execv(argv[0], argv.data());
      ::_exit(126);
    }
  }
  ~OnTerminal() {
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
    }
    ::close(master_);
  }
  OnTerminal(const OnTerminal&) = delete;

  void type(std::string_view keys) {
    while (!keys.empty()) {
      const ssize_t put = ::write(master_, keys.data(), keys.size());
      if (put <= 0) std::abort();
      keys.remove_prefix(static_cast<size_t>(put));
    }
  }

  /// Until the screen is so; false after a minute.
  bool shows(const std::function<bool(const test::Vt100& screen)>& is_so) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    while (!is_so(screen_)) {
      pollfd ready{master_, POLLIN, 0};
      const auto left =
          std::chrono::ceil<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
      if (::poll(&ready, 1, static_cast<int>(std::max<int64_t>(left.count(), 0))) <= 0)
        return false;
      char buffer[4096];
      const ssize_t got = ::read(master_, buffer, sizeof buffer);
      if (got <= 0) return false;
      screen_.feed({buffer, static_cast<size_t>(got)});
    }
    return true;
  }
  bool shows(const std::string& text) {
    return shows([&](const auto& screen) { return screen.text().find(text) != std::string::npos; });
  }
  /// Its exit code, when it has written all; -1: it was killed.
  int end() {
    int status = 0;
    while (::waitpid(pid_, &status, WNOHANG) == 0) {  // it may wait for its words to be read
      pollfd ready{master_, POLLIN, 0};
      char buffer[4096];
      if (::poll(&ready, 1, 10) > 0 && ::read(master_, buffer, sizeof buffer) <= 0) break;
    }
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

  bool is_as_before() const {
    termios now{};
    ::tcgetattr(slave_.get(), &now);
    return now.c_lflag == before_.c_lflag && now.c_iflag == before_.c_iflag &&
           now.c_oflag == before_.c_oflag;
  }
  void signal(int number) const { ::kill(pid_, number); }
  std::string text() const { return screen_.text(); }

 private:
  int master_ = -1;
  UniqueFd slave_;
  pid_t pid_ = -1;
  termios before_{};
  test::Vt100 screen_;
};

}  // namespace muster::testing_process
