// Processes of one host through memory that they share. See Notes [Shared segment], [Steps],
// [Slices], [Mailbox] and [Who works].
#include <exception>
#include <numeric>
#include <optional>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/distributed/call/last_word.h"
#include "muster/distributed/call/op_queue.h"
#include "muster/distributed/call/posting_backend.h"
#include "muster/distributed/meet/backend.h"
#include "muster/distributed/shm/shm_collectives.h"
#include "muster/distributed/shm/shm_mailbox.h"
#include "muster/distributed/shm/shm_steps.h"
#include "muster/distributed/thread/thread_exchange.h"

namespace muster::distributed {
namespace {

constexpr int kMaxRanks = 64;  // beyond, the segment would not be small any more

class ShmBackend final : public PostingBackend, public LastWord {
 public:
  ShmBackend(const BackendRequest& request,
             std::shared_ptr<ShmSegment> segment,
             std::vector<int> names)
      : PostingBackend("shm", request.rank, request.world_size, request.timeout),
        name_(names[static_cast<size_t>(request.rank)]),
        steps_(std::make_shared<ShmSteps>(std::move(segment), request.rank, std::move(names))),
        queue_(std::make_shared<OpQueue>([steps = steps_] { return steps->missing(); })),
        mailbox_(std::make_shared<ShmMailbox>(steps_)) {}

  ~ShmBackend() override {
    if (std::uncaught_exceptions() == exceptions_) mailbox_->end_in_order();
    close("the group was destroyed");
  }

  void end_in_order() override { mailbox_->end_in_order(); }
  void give_up(const std::string& reason) override { steps_->end(reason); }
  void will_end_with(const std::string& why) override { steps_->will_end_with(why); }
  std::optional<std::string> last_word(int rank) const override { return steps_->last_word(rank); }
  void abort() override { close("the group was aborted"); }
  void shutdown() override { close("the group was shut down"); }

 protected:
  WorkPtr post_send(const Message& message) override {
    return mailbox_->send(message.peer, message.tag, message.tensor, message.timeout);
  }
  WorkPtr post_receive(const Message& message) override {
    return mailbox_->receive(
        message.peer, message.tag, message.tensor, message.timeout, message.blocks);
  }
  WorkPtr post(uint64_t sequence, Contribution part) override {
    auto work = c10::make_intrusive<PendingWork>(name_, part.op, sequence, part.results(), queue_);
    const bool now = !part.async;
    const OpSignature signature = OpSignature::of(part, sequence);
    const auto timeout = timeout_of(part);
    queue_->submit(
        work,
        [steps = steps_, part = std::move(part), signature, timeout] {
          steps->begin(signature, timeout);
          try {
            run_shm_collective(*steps, part);
          } catch (const Error&) {
            throw;  // either all ranks refuse, or the group has failed already
          } catch (const std::exception& error) {
            steps->end(error.what());  // the others would wait for what does not come
            throw;
          }
        },
        now);
    return work;
  }

 private:
  void close(const std::string& reason) {
    steps_->end();
    queue_->close(reason);
    mailbox_->close(reason);
  }

  const int name_;
  const int exceptions_ = std::uncaught_exceptions();  // on their way when the group was made
  std::shared_ptr<ShmSteps> steps_;
  std::shared_ptr<OpQueue> queue_;
  std::shared_ptr<ShmMailbox> mailbox_;
};

c10::intrusive_ptr<c10d::Backend> make_shm(const BackendRequest& request) {
  if (request.world_size > kMaxRanks)
    throw BackendUnfit(concat("shm is for at most ", kMaxRanks, " ranks of one host"));
  std::vector<int> names = request.names;
  if (names.empty()) {
    names.resize(static_cast<size_t>(request.world_size));
    std::iota(names.begin(), names.end(), 0);
  }
  std::shared_ptr<ShmSegment> segment;
  if (request.exchange) {
    std::string key = "shm";
    for (const int name : names) key += concat(' ', name);
    segment = request.exchange->shared<ShmSegment>(
        key, [&] { return ShmSegment::local(request.world_size); });
  } else {
    segment =
        ShmSegment::meet(*request.store,
                         request.rank,
                         request.world_size,
                         request.host_identity.empty() ? host_identity() : request.host_identity);
  }
  return c10::make_intrusive<ShmBackend>(request, std::move(segment), std::move(names));
}

std::string shm_unsuitable(const std::vector<RankOffer>& ranks) {
  for (size_t rank = 1; rank < ranks.size(); ++rank) {
    if (ranks[rank].host_identity != ranks[0].host_identity)
      return concat("ranks 0 and ", rank, " are on different hosts");
  }
  return "";
}

}  // namespace

extern constinit const BackendEntry shm_entry{
    .name = "shm",
    .help = "processes of one host through shared memory; CPU tensors; sums in rank order",
    .preference = 20,
    .type = c10d::ProcessGroup::BackendType::CUSTOM,
    .available = &shm_unavailable,
    .make = &make_shm,
    .moves_cpu = true,
    .moves_cuda = false,
    .unsuitable = &shm_unsuitable,
    .needs_no_buckets = true,
    .names_culprits = true};

}  // namespace muster::distributed
