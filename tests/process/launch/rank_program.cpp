// What a rank does in the tests of the launcher: `muster_rank_program MODE[,MODE…]`, the i-th mode
// for rank i, the last one for all ranks behind it. Modes with an argument are written
// mode:argument.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

std::string env(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

void say(const std::string& line) {
  const std::string text = line + '\n';
  if (::write(STDOUT_FILENO, text.data(), text.size()) < 0) _exit(90);
}

[[noreturn]] void wait_for_ever() {
  for (;;) ::pause();
}

/// Waits for INT, HUP, QUIT or TERM, which may come from the moment on in which `ready` is called.
template <class Ready>
int wait_for_signal(Ready ready) {
  sigset_t set;
  ::sigemptyset(&set);
  for (const int signal : {SIGINT, SIGHUP, SIGQUIT, SIGTERM}) ::sigaddset(&set, signal);
  ::sigprocmask(SIG_BLOCK, &set, nullptr);
  ready();
  int signal = 0;
  ::sigwait(&set, &signal);
  return signal;
}

/// A process that lives until it is killed; its standard streams stay open, as a careless daemon's
/// do.
void start_grandchild(std::string_view kind) {
  int ready[2];
  if (::pipe(ready) != 0) _exit(91);
  const pid_t child = ::fork();
  if (child == 0) {
    if (kind == "setsid" || kind == "daemon") ::setsid();
    if (kind == "daemon" && ::fork() != 0) _exit(0);
    if (kind == "stubborn") {
      ::signal(SIGTERM, SIG_IGN);
      ::signal(SIGINT, SIG_IGN);
    }
    if (::write(ready[1], "x", 1) != 1) _exit(92);
    wait_for_ever();
  }
  // Only the daemon itself is left when this returns.
  if (kind == "daemon" && ::waitpid(child, nullptr, 0) != child) _exit(94);
  char byte;
  if (::read(ready[0], &byte, 1) != 1) _exit(93);
  ::close(ready[0]);
  ::close(ready[1]);
}

void all_grandchildren() {
  for (const char* kind : {"plain", "setsid", "daemon", "stubborn"}) start_grandchild(kind);
}

void sleep_ms(int ms) { ::poll(nullptr, 0, ms); }

/// Modes that end, or wait for a signal.
std::optional<int> run_life(const std::string& mode, const std::string& argument) {
  if (mode == "exit") return std::atoi(argument.c_str());
  if (mode == "print") return say(argument), 0;
  if (mode == "say-error") {  // and end with 0, so that no rank is ended before it has said it
    const std::string text = argument + "\nhint: of " + env("WORLD_SIZE") + '\n';
    return ::write(STDERR_FILENO, text.data(), text.size()) < 0 ? 90 : 0;
  }
  if (mode == "env") return say(argument + '=' + env(argument.c_str())), 0;
  if (mode == "wait") return say("ready"), wait_for_ever(), 0;
  if (mode == "segv") return ::signal(SIGSEGV, SIG_DFL), ::raise(SIGSEGV), 0;
  if (mode == "signal-then-exit") {
    say("got " + std::to_string(wait_for_signal([] { say("ready"); })));
    return std::atoi(argument.c_str());
  }
  if (mode == "ignore") {
    for (const int signal : {SIGINT, SIGHUP, SIGQUIT, SIGTERM}) ::signal(signal, SIG_IGN);
    return say("ready"), wait_for_ever(), 0;
  }
  if (mode == "grandchild") return start_grandchild(argument), say("ready"), wait_for_ever(), 0;
  if (mode == "grandchildren-then-exit") {
    return all_grandchildren(), say("ready"), std::atoi(argument.c_str());
  }
  if (mode == "work")
    return all_grandchildren(), say("ready"), sleep_ms(std::atoi(argument.c_str())), 0;
  if (mode == "stop-itself") return say("ready"), ::raise(SIGSTOP), 0;
  if (mode == "fail-until") {  // fails in every attempt before this one
    return std::stoi(env("TORCHELASTIC_RESTART_COUNT")) >= std::stoi(argument) ? 0 : 7;
  }
  return std::nullopt;
}

/// Rank 0 serves at MASTER_PORT, as for a job on two machines, and rank 1 connects: the socket.
int linked_socket() {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(std::atoi(env("MASTER_PORT").c_str())));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const auto* to = reinterpret_cast<const sockaddr*>(&address);
  const bool serves = env("RANK") == "0";
  for (;; sleep_ms(1)) {
    const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
    ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (serves && ::bind(fd, to, sizeof address) == 0 && ::listen(fd, 8) == 0)
      return ::accept(fd, nullptr, nullptr);
    if (!serves && ::connect(fd, to, sizeof address) == 0) return fd;
    ::close(fd);
  }
}

/// Modes of two ranks that are connected.
std::optional<int> run_linked(const std::string& mode, const std::string& argument) {
  if (mode == "link-then-exit") {  // once the other side has said something
    char byte;
    return ::read(linked_socket(), &byte, 1) == 1 ? std::atoi(argument.c_str()) : 95;
  }
  if (mode != "link-then-stop") return std::nullopt;
  if (argument == "stubborn") ::signal(SIGTERM, SIG_IGN);
  const int fd = linked_socket();
  if (::write(fd, "x", 1) != 1) return 96;
  do {
    ::raise(SIGSTOP);
  } while (argument == "stubborn");
  return std::atoi(argument.c_str());
}

/// Modes about descriptors and files.
int run_io(const std::string& mode, const std::string& argument) {
  if (mode == "flood") {
    const std::string line(99, 'x');
    for (int i = 0; i < std::atoi(argument.c_str()) * 10; ++i) say(line);
    return 0;
  }
  if (mode == "no-newline") return std::printf("%s", argument.c_str()) < 0;
  if (mode == "close-streams") {
    ::close(0), ::close(1), ::close(2);
    ::signal(SIGTERM, SIG_DFL);
    return std::atoi(argument.c_str());
  }
  if (mode == "close-then-wait")
    return say("ready"), ::close(0), ::close(1), ::close(2), wait_for_ever(), 0;
  if (mode == "lose-port") {  // each letter of the file is a lost port: by exit code or in words
    std::string letters;
    std::ifstream(argument) >> letters;
    if (letters.empty()) return 0;
    std::ofstream(argument) << letters.substr(1);
    if (letters[0] == 'c') return EADDRINUSE;
    return say("port " + env("MASTER_PORT") + " is in use"), 1;
  }
  // The pair meets at a FIFO: the first has written its report when the second fails.
  if (mode == "report-at") {
    return wait_for_signal([&] {
      std::ofstream(env("TORCHELASTIC_ERROR_FILE"))
          << R"({"message": {"message": "the cause", "extraInfo": {"timestamp": "1"}}})";
      ::close(::open(argument.c_str(), O_WRONLY));
    });
  }
  if (mode == "fail-after") return ::close(::open(argument.c_str(), O_RDONLY)), 9;
  if (mode == "progress") {
    const int fd = std::atoi(env("MUSTER_PROGRESS_FD").c_str());
    const std::string lines =
        "{\"phase\":\"train\",\"epoch\":1,\"epochs\":2,\"step\":5,\"steps\":5,\"loss\":0.5}\nnot "
        "json\n";
    return ::write(fd, lines.data(), lines.size()) > 0 ? 0 : 1;
  }
  if (mode == "fds") {
    std::string open;
    for (int fd = 0; fd < 200; ++fd) {
      if (::fcntl(fd, F_GETFD) >= 0) open += std::to_string(fd) + ' ';
    }
    return say("fds " + open), 0;
  }
  if (mode == "cat") {
    char buffer[100];
    const ssize_t got = ::read(0, buffer, sizeof buffer);
    return say("read " + std::to_string(got)), 0;
  }
  return 99;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 99;
  std::vector<std::string> modes;
  std::string all = argv[1];
  for (size_t at; (at = all.find(',')) != std::string::npos; all.erase(0, at + 1)) {
    modes.push_back(all.substr(0, at));
  }
  modes.push_back(all);
  const size_t rank = static_cast<size_t>(std::atoi(env("RANK").c_str()));
  const std::string& mine = modes[std::min(rank, modes.size() - 1)];
  const size_t colon = mine.find(':');
  const std::string mode = mine.substr(0, colon);
  const std::string argument = colon == std::string::npos ? "" : mine.substr(colon + 1);
  if (const auto code = run_life(mode, argument)) return *code;
  if (const auto code = run_linked(mode, argument)) return *code;
  return run_io(mode, argument);
}
