// Ranks that are threads of one process. See Note [Thread ranks].
#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/distributed/call/posting_backend.h"
#include "muster/distributed/meet/backend.h"
#include "muster/distributed/thread/thread_exchange.h"

namespace muster::distributed {
namespace {

/// c10d's face of a ThreadExchange for one rank.
class ThreadBackend final : public PostingBackend {
 public:
  ThreadBackend(std::shared_ptr<ThreadExchange> exchange,
                int rank,
                std::chrono::milliseconds timeout)
      : PostingBackend("thread", rank, exchange->world_size(), timeout),
        exchange_(std::move(exchange)) {}

  void give_up(const std::string& reason) override { exchange_->leave(getRank(), reason, true); }
  void abort() override { give_up("the group was aborted"); }
  void shutdown() override { give_up("the group was shut down"); }

 protected:
  WorkPtr post_send(const Message& message) override { return exchange_->send(getRank(), message); }
  WorkPtr post_receive(const Message& message) override {
    return exchange_->receive(getRank(), message);
  }
  WorkPtr post(uint64_t sequence, Contribution part) override {
    const auto timeout = timeout_of(part);
    return exchange_->post(getRank(), sequence, std::move(part), timeout);
  }

 private:
  std::shared_ptr<ThreadExchange> exchange_;
};

c10::intrusive_ptr<c10d::Backend> make_thread(const BackendRequest& request) {
  if (!request.exchange) {
    throw usage_error(
        {.refused = "backend thread",
         .rule = "its ranks are threads of one process, so a launcher cannot start them",
         .hint = "use muster::testing::run_ranks or ThreadWorld, or choose gloo for processes"});
  }
  return c10::make_intrusive<ThreadBackend>(request.exchange, request.rank, request.timeout);
}

}  // namespace

extern constinit const BackendEntry thread_entry{
    .name = "thread",
    .help = "ranks are threads of one process; sums in rank order, no copies between processes",
    .preference = -1,
    .type = c10d::ProcessGroup::BackendType::CUSTOM,
    .available = [] { return std::string(); },
    .make = &make_thread,
    .moves_cpu = true,
    .moves_cuda = true,
    .needs_no_buckets = true,
    .names_culprits = true,
    .moves_any_device = true,
    .for_threads_only = true};

}  // namespace muster::distributed
