#include "muster/distributed/two_level/two_level.h"

#include <algorithm>
#include <numeric>
#include <thread>
#include <utility>

#include <c10/core/GradMode.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/distributed/call/nameless_error.h"
#include "muster/distributed/meet/host.h"
#include "muster/distributed/two_level/two_level_parts.h"

namespace muster::distributed {
namespace {

constexpr const char* kFailureKey = "two_level/failure";
constexpr auto kLookAround = std::chrono::milliseconds(500);

/// Of what a connection between hosts failed with, where nobody has said more. It stands in the
/// words of every rank that fails because of it.
constexpr const char* kBetweenHosts = "between hosts: ";

[[noreturn]] void throw_failure(const ErrorText& text) {
  const auto is_nameless = [](const std::string& words) {
    return words.find(kBetweenHosts) != std::string::npos;
  };
  if (is_nameless(text.refused) || is_nameless(text.rule)) throw NamelessError(text);
  throw environment_error(text);
}

std::vector<uint8_t> bytes_of(const std::string& text) { return {text.begin(), text.end()}; }

}  // namespace

std::vector<std::vector<int>> hosts_of(const std::vector<std::string>& identities) {
  std::vector<std::string> names;
  std::vector<std::vector<int>> hosts;
  for (size_t rank = 0; rank < identities.size(); ++rank) {
    const auto found = std::find(names.begin(), names.end(), identities[rank]);
    const auto host = static_cast<size_t>(found - names.begin());
    if (found == names.end()) {
      names.push_back(identities[rank]);
      hosts.emplace_back();
    }
    hosts[host].push_back(static_cast<int>(rank));
  }
  return hosts;
}

TwoLevelBackend::Parts::Parts(const BackendRequest& request,
                              const std::vector<std::vector<int>>& all_hosts,
                              const BackendEntry& inside_entry,
                              const BackendEntry& between_entry)
    : store(request.store),
      hosts(all_hosts),
      rank(request.rank),
      world_size(request.world_size),
      hosts_by_rank(static_cast<size_t>(request.world_size)),
      local_ranks(static_cast<size_t>(request.world_size)) {
  for (size_t h = 0; h < hosts.size(); ++h) {
    for (size_t i = 0; i < hosts[h].size(); ++i) {
      hosts_by_rank[static_cast<size_t>(hosts[h][i])] = static_cast<int>(h);
      local_ranks[static_cast<size_t>(hosts[h][i])] = static_cast<int>(i);
    }
  }
  host = host_of(rank);
  const auto part = [&](const std::string& prefix, int part_rank, size_t size) {
    BackendRequest sub = request;
    sub.store = c10::make_intrusive<c10d::PrefixStore>(prefix, request.store);
    sub.rank = part_rank;
    sub.world_size = static_cast<int>(size);
    return sub;
  };
  BackendRequest sub = part(concat("host", host), local_rank(rank), neighbours().size());
  sub.names = neighbours();
  sub.timeout = timeout_inside(sub.timeout);
  std::string why;
  try {
    inside = inside_entry.make(sub);
  } catch (const BackendUnfit& unfit) {
    why = unfit.text().refused;
  }
  const auto reasons = exchange_texts(*store, "two_level/inside", rank, world_size, why);
  for (size_t other = 0; other < reasons.size(); ++other) {
    if (!reasons[other].empty()) throw BackendUnfit(concat("rank ", other, ": ", reasons[other]));
  }
  if (leads()) leaders = between_entry.make(part("leaders", host, hosts.size()));
  all = between_entry.make(part("all", rank, static_cast<size_t>(world_size)));
}

TwoLevelBackend::Parts::~Parts() {
  drop(leaders);
  drop(all);
}

/// gloo joins its threads at its end, and they may wait for hosts that will not come: nobody waits
/// with them, as in ~MonitoredBackend.
void TwoLevelBackend::Parts::drop(BackendPtr& between) {
  if (interrupt.left_work() && between)
    std::thread([left = std::move(between)]() mutable { left.reset(); }).detach();
  between.reset();
}

void TwoLevelBackend::Parts::close(const std::string& reason) {
  interrupt.now(reason);
  inside->abort();
}

void Interrupt::wait(const c10::intrusive_ptr<c10d::Work>& work) {
  const auto future = work->getFuture();
  future->addCallback([state = state_](c10::ivalue::Future&) {
    { const std::lock_guard lock(state->mutex); }  // not between a waiter's look and its sleep
    state->changed.notify_all();
  });
  {
    std::unique_lock lock(state_->mutex);
    state_->changed.wait(lock, [&] { return future->completed() || !state_->reason.empty(); });
    if (!future->completed()) {
      state_->left_work = true;
      throw environment_error({.refused = state_->reason});
    }
  }
  work->wait();
}

void Interrupt::now(const std::string& reason) {
  {
    const std::lock_guard lock(state_->mutex);
    if (state_->reason.empty()) state_->reason = reason;
  }
  state_->changed.notify_all();
}

bool Interrupt::left_work() const {
  const std::lock_guard lock(state_->mutex);
  return state_->left_work;
}

void TwoLevelBackend::Parts::fail(const std::string& reason) {
  {
    const std::lock_guard lock(mutex_);
    if (!failure_.empty()) return;
    failure_ = reason;
  }
  try {
    store->compareSet(kFailureKey, bytes_of(""), bytes_of(reason));
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): rank 0 serves it, and is gone
  }
  if (auto* ours = dynamic_cast<PostingBackend*>(inside.get())) ours->give_up(reason);
  drop(leaders);  // closes connections: the other leaders notice
}

void TwoLevelBackend::Parts::require_alive() const {
  const std::lock_guard lock(mutex_);
  if (!failure_.empty())
    throw environment_error(
        {.refused = "a collective on a group that has failed", .rule = failure_});
}

std::string TwoLevelBackend::Parts::known_failure() const {
  try {
    const auto bytes = store->compareSet(kFailureKey, bytes_of(""), bytes_of(""));
    return {bytes.begin(), bytes.end()};
  } catch (const std::exception&) {
    return "";
  }
}

std::string TwoLevelBackend::Parts::explain(const std::string& error) const {
  const std::string words = first_line(error);
  try {
    store->wait({kFailureKey}, kLookAround);
    const auto bytes = store->get(kFailureKey);
    return {bytes.begin(), bytes.end()};
  } catch (const std::exception&) {
    return concat(kBetweenHosts, words);
  }
}

TwoLevelBackend::TwoLevelBackend(const BackendRequest& request,
                                 const std::vector<std::vector<int>>& hosts,
                                 const BackendEntry& inside,
                                 const BackendEntry& between)
    : PostingBackend(concat(inside.name, "+", between.name),
                     request.rank,
                     request.world_size,
                     request.timeout),
      parts_(std::make_shared<Parts>(request, hosts, inside, between)),
      queue_(std::make_shared<OpQueue>([] { return std::string(); })) {}

TwoLevelBackend::~TwoLevelBackend() {
  if (std::uncaught_exceptions() == exceptions_) TwoLevelBackend::end_in_order();
  close("the group was destroyed");
}

void TwoLevelBackend::close(const std::string& reason) {
  parts_->close(reason);
  queue_->close(reason);
}

/// For messages: collectives bring their own. Those between hosts keep gloo's first timeout, which
/// gloo takes no other for.
void TwoLevelBackend::setTimeout(std::chrono::milliseconds timeout) {
  PostingBackend::setTimeout(timeout);
  parts_->inside->setTimeout(timeout_inside(timeout));
  parts_->all->setTimeout(timeout);
}

TwoLevelBackend::WorkPtr TwoLevelBackend::post(uint64_t sequence, Contribution part) {
  auto work =
      c10::make_intrusive<PendingWork>(getRank(), part.op, sequence, part.results(), queue_);
  const OpSignature signature = OpSignature::of(part, sequence);
  const bool now = !part.async;
  const auto timeout = timeout_of(part);
  const auto run = [parts = parts_, part = std::move(part), signature, timeout] {
    const c10::NoGradGuard no_grad;
    parts->require_alive();
    try {
      Run run(*parts, part, timeout);
      run.agree(signature);
      run.move();
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::kUsage) throw;  // all ranks refuse
      // A leader that failed because of another host is not the one to name.
      const std::string first = parts->known_failure();
      parts->fail(error.what());
      if (first.empty()) throw_failure(error.text());
      throw_failure(
          {.refused = concat(signature.describe(), " #", signature.sequence), .rule = first});
    } catch (const std::exception& error) {
      const std::string why = concat(
          signature.describe(), " #", signature.sequence, ": ", parts->explain(error.what()));
      parts->fail(why);
      throw_failure({.refused = why});
    }
  };
  queue_->submit(work, run, now);
  return work;
}

TwoLevelBackend::WorkPtr TwoLevelBackend::post_send(const Message& message) {
  if (!parts_->same_host(message.peer)) return send_over(*parts_->all, message);
  Message inside = message;
  inside.peer = parts_->local_rank(message.peer);
  return send_over(*parts_->inside, inside);
}

TwoLevelBackend::WorkPtr TwoLevelBackend::post_receive(const Message& message) {
  if (message.peer == kAnyRank) {
    throw usage_error({.refused = "recv_any over " + getBackendName(),
                       .rule = "a message may come from this host or another, through two backends",
                       .hint = "name the source, or use the backend gloo"});
  }
  if (!parts_->same_host(message.peer)) return receive_over(*parts_->all, message);
  Message inside = message;
  inside.peer = parts_->local_rank(message.peer);
  return receive_over(*parts_->inside, inside);
}

/// Inside a host first: there ranks see at once that this one has ended, and two that wait for each
/// other to take something do not wait.
void TwoLevelBackend::end_in_order() {
  distributed::end_in_order(*parts_->inside);
  distributed::end_in_order(*parts_->all);
}

}  // namespace muster::distributed
