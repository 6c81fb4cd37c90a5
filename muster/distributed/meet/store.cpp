#include "muster/distributed/meet/store.h"

#include <memory>
#include <optional>
#include <thread>

#include <arpa/inet.h>
#include <netdb.h>
#include <sys/socket.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "muster/base/error.h"
#include "muster/base/file.h"
#include "muster/base/text.h"

namespace muster::distributed {
namespace {

using Clock = std::chrono::steady_clock;
using AddressList = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

AddressList resolve(const std::string& host, const std::string& port, int socket_type) {
  addrinfo wanted{};
  wanted.ai_socktype = socket_type;
  addrinfo* found = nullptr;
  if (const int error = ::getaddrinfo(host.c_str(), port.c_str(), &wanted, &found); error != 0) {
    throw environment_error({.refused = "host name " + host,
                             .rule = ::gai_strerror(error),
                             .hint = "check MASTER_ADDR"});
  }
  return {found, &::freeaddrinfo};
}

bool answers(const addrinfo& address) {
  const UniqueFd fd(
      ::socket(address.ai_family, address.ai_socktype | SOCK_CLOEXEC, address.ai_protocol));
  return fd && ::connect(fd.get(), address.ai_addr, address.ai_addrlen) == 0;
}

/// Returns once something listens at host:port. TCPStore's own client sleeps a whole second after a
/// refused connection, which would be most of a rank's start-up whenever rank 0 is a few
/// milliseconds later than the rest.
void wait_for_listener(const std::string& host, int64_t port, Clock::time_point deadline) {
  const AddressList addresses = resolve(host, std::to_string(port), SOCK_STREAM);
  auto pause = std::chrono::milliseconds(1);
  while (true) {
    for (const addrinfo* address = addresses.get(); address != nullptr;
         address = address->ai_next) {
      if (answers(*address)) return;
    }
    if (Clock::now() >= deadline) {
      throw environment_error(
          {.refused = concat("no answer from rank 0 at ", host, ":", port),
           .rule = "rank 0 serves the store there",
           .hint = "check that rank 0 was started, and MASTER_ADDR and MASTER_PORT"});
    }
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, std::chrono::milliseconds(50));
  }
}

c10::intrusive_ptr<c10d::Store> open_store(const RankEnv& env,
                                           bool serve,
                                           std::chrono::milliseconds timeout) {
  c10d::TCPStoreOptions options;
  options.port = static_cast<std::uint16_t>(env.master_port);
  options.isServer = serve;
  options.waitWorkers = false;
  options.timeout = timeout;
  try {
    return c10::make_intrusive<c10d::TCPStore>(env.master_addr, options);
  } catch (const std::exception& error) {
    const std::string text = error.what();
    if (serve && (text.find("EADDRINUSE") != std::string::npos ||
                  text.find("in use") != std::string::npos)) {
      throw environment_error({.refused = concat("port ", env.master_port, " is in use"),
                               .rule = "rank 0 serves the store of the job there",
                               .hint = "another job or a second rank 0 has it; choose another "
                                       "MASTER_PORT (--master-port)"});
    }
    throw environment_error({.refused = concat("cannot ",
                                               serve ? "serve" : "reach",
                                               " the store at ",
                                               env.master_addr,
                                               ":",
                                               env.master_port),
                             .rule = text.substr(0, text.find('\n'))});
  }
}

}  // namespace

c10::intrusive_ptr<c10d::Store> connect_store(const RankEnv& env,
                                              std::chrono::milliseconds timeout) {
  const bool serve = env.rank == 0 && !env.use_agent_store;
  if (!serve) wait_for_listener(env.master_addr, env.master_port, Clock::now() + timeout);
  auto store = c10::make_intrusive<c10d::PrefixStore>(
      concat("muster/", env.run_id, "/", env.restart_count), open_store(env, serve, timeout));
  if (store->add(concat("claims/", env.rank), 1) != 1) {
    throw usage_error(
        {.refused = concat("rank ", env.rank, " was started twice"),
         .rule = "each rank of a job is one process",
         .value = concat("RANK=", env.rank, " at ", env.master_addr, ":", env.master_port),
         .hint = "give every process its own RANK, or another MASTER_PORT if it belongs to another "
                 "job"});
  }
  return store;
}

std::string address_towards(const std::string& remote) {
  const AddressList addresses = resolve(remote, "9", SOCK_DGRAM);
  for (const addrinfo* address = addresses.get(); address != nullptr; address = address->ai_next) {
    const UniqueFd fd(::socket(address->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    sockaddr_storage local{};
    socklen_t length = sizeof local;
    if (!fd || ::connect(fd.get(), address->ai_addr, address->ai_addrlen) != 0) continue;
    if (::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&local), &length) != 0) continue;
    char text[NI_MAXHOST];
    if (::getnameinfo(reinterpret_cast<sockaddr*>(&local),
                      length,
                      text,
                      sizeof text,
                      nullptr,
                      0,
                      NI_NUMERICHOST) == 0)
      return text;
  }
  throw environment_error({.refused = "no network interface leads to " + remote,
                           .hint = "check MASTER_ADDR and the network"});
}

}  // namespace muster::distributed
