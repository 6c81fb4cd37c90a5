// A rank of a job of which some fail: `muster_failing_rank BACKEND HOW[,HOW…]`, the i-th for rank i,
// the last one for all ranks behind it. After some steps together a rank does this:
//   go-on           goes on, until it notices that another one is missing
//   throw:MS        throws what nobody catches, and takes so long to end of it
//   catch:MS        catches that in main, when the group is gone, says it, and returns 1 after MS
//   note:MS         the same, and notes it first, as `muster train` does
//   exit:MS         says it, and exits after MS without a look back
//   segv:MS         the same, by a signal
//   tell:MS         tells the others, and then as note
//   told            hears of that, and fails because of it
//   second          waits until one of the others has failed, and then fails by itself
//   leave           returns in good order
//   send:MS         sends to the next rank after MS, and returns in good order
//   again           makes another group when nobody serves the store any more
//   receive         takes that from the rank before it, and returns in good order
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <ATen/ops/ones.h>
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "muster/base/text.h"
#include "muster/diagnose/record/failure_note.h"
#include "muster/distributed/process_group.h"

namespace {

using muster::distributed::ProcessGroup;

int late_ms = 0;

/// The FIFO that tells ranks which are `second` that one has failed.
std::string fifo() {
  const char* path = std::getenv("MUSTER_TEST_FIFO");
  return path == nullptr ? "" : path;
}

void be_late() {
  if (!fifo().empty()) ::close(::open(fifo().c_str(), O_WRONLY));
  std::this_thread::sleep_for(std::chrono::milliseconds(late_ms));
}

/// One of the ranks says why it fails; who hears of it ends of that.
void end_of_what_is_told(const ProcessGroup& group, const std::string& how) {
  const auto texts = group.all_gather_text(how == "tell" ? "my own error" : "");
  if (how == "tell") throw std::runtime_error("my own error");
  int culprit = 0;
  while (texts[static_cast<size_t>(culprit)].empty()) ++culprit;
  const std::string what =
      muster::concat("rank ", culprit, " said: ", texts[static_cast<size_t>(culprit)]);
  group.note_told_failure(culprit, what);
  throw std::runtime_error(what);
}

void fail(const std::string& how) {
  if (how == "second") {
    ::close(::open(fifo().c_str(), O_RDONLY));
    throw std::runtime_error("the second error");
  }
  if (how == "exit" || how == "segv") {
    std::fputs("my own error\n", stderr);
    be_late();
    if (how == "exit") std::_Exit(3);
    std::signal(SIGSEGV, SIG_DFL);
    std::raise(SIGSEGV);
  }
  if (how != "go-on") throw std::runtime_error("my own error");
}

void pass_on(const ProcessGroup& group, bool sends) {
  std::vector<at::Tensor> tensors{at::ones({3})};
  std::this_thread::sleep_for(std::chrono::milliseconds(late_ms));
  const auto work = sends ? group.c10d()->send(tensors, group.rank() + 1, 0)
                          : group.c10d()->recv(tensors, group.rank() - 1, 0);
  work->wait();
}

bool store_is_served() {
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  to.sin_port = htons(static_cast<uint16_t>(std::atoi(std::getenv("MASTER_PORT"))));
  const bool is_served = ::connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof to) == 0;
  ::close(fd);
  return is_served;
}

ProcessGroup make_group(const std::string& backend) {
  return muster::distributed::init_process_group(
      {.backend = backend,
       .timeout = std::chrono::minutes(1),
       .monitor = {.heartbeat = std::chrono::milliseconds(100)}});
}

void make_another_group(const std::string& backend) {
  while (store_is_served()) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  make_group(backend);
}

void train(const std::string& backend, const std::string& how) {
  const ProcessGroup group = make_group(backend);
  for (int step = 0;; ++step) {
    group.all_reduce(at::ones({1000}));
    if (step < 3) continue;
    if (how == "leave") return;
    if (how == "again") return make_another_group(backend);
    if (how == "send" || how == "receive") return pass_on(group, how == "send");
    if (how == "tell" || how == "told") end_of_what_is_told(group, how);
    if (step == 3) fail(how);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 99;
  const auto hows = muster::split(argv[2], ',');
  const auto rank = static_cast<size_t>(std::atoi(std::getenv("RANK")));
  const auto words = muster::split(hows[std::min(rank, hows.size() - 1)], ':');
  if (words.size() > 1) late_ms = std::atoi(words[1].c_str());
  if (words[0] == "throw") {
    std::set_terminate([] {
      std::fputs("terminate called: my own error\n", stderr);
      be_late();
      std::abort();
    });
    train(argv[1], words[0]);
  }
  try {
    train(argv[1], words[0]);
    return 0;
  } catch (const std::exception& error) {
    const bool notes = words[0] == "note" || words[0] == "tell" || words[0] == "told";
    if (words[0] == "tell") be_late();
    if (notes) muster::diagnose::note_failure(error.what());
    std::fprintf(stderr, "error: %s\n", error.what());
    if (words[0] == "catch" || words[0] == "note") be_late();
  }
  return 1;
}
