#include "muster/train/replicas/first_rank.h"

#include <exception>

#include <ATen/ops/full.h>
#include <c10/util/Exception.h>

#include "muster/base/error.h"
#include "muster/base/json.h"
#include "muster/distributed/peer_failure.h"
#include "muster/memory/guard/oom.h"
#include "muster/tensor/what_of.h"

namespace muster::train {
namespace {

/// Around what the first rank's memory ran out with, where the others have been told.
class ToldOutOfMemory : public Error {
 public:
  explicit ToldOutOfMemory(const std::exception_ptr& error)
      : Error(environment_error({.refused = tensor::what_of(error)})) {}
};

}  // namespace

void on_first_rank(const distributed::ProcessGroup& group, const std::function<void()>& work) {
  Json outcome = nullptr;
  std::exception_ptr own;
  if (group.rank() == 0) {
    // Ours, and what is nested in them, and LibTorch's out-of-memory stay what they are.
    const auto keep = [&](const Error& error) {
      if (!own) own = std::current_exception();
      const ErrorText& text = error.text();
      outcome = {static_cast<int>(error.kind()), text.refused, text.rule, text.value, text.hint};
    };
    try {
      work();
    } catch (const Error& error) {
      keep(error);
    } catch (const c10::OutOfMemoryError& error) {
      own = std::current_exception();
      keep(environment_error({.refused = error.what_without_backtrace()}));
    } catch (const std::exception&) {  // of the file system: no rank may wait for this one
      const Error error = environment_error({.refused = tensor::what_of(std::current_exception())});
      own = std::make_exception_ptr(error);
      keep(error);
    }
  }
  if (group.world_size() > 1) {
    outcome = parse_json(group.all_gather_text(json_text(outcome))[0], "what rank 0 says");
  }
  if (own) {
    try {
      std::rethrow_exception(own);
    } catch (...) {
      if (group.world_size() > 1 && memory::is_oom(own))
        std::throw_with_nested(ToldOutOfMemory(own));
      throw;
    }
  }
  if (outcome.is_null()) return;
  const distributed::PeerFailure told(Error(static_cast<ErrorKind>(outcome[0].get<int>()),
                                            {.refused = outcome[1].get<std::string>(),
                                             .rule = outcome[2].get<std::string>(),
                                             .value = outcome[3].get<std::string>(),
                                             .hint = outcome[4].get<std::string>()}));
  group.note_told_failure(0, told.what());
  throw told;
}

bool is_oom_of_first_rank(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const ToldOutOfMemory&) {
    return true;
  } catch (...) {
    return memory::is_oom_of_peer(error);
  }
}

bool from_first_rank(const distributed::ProcessGroup& group, bool value) {
  if (group.world_size() == 1) return value;
  const at::Tensor told = at::full({1}, value ? 1.0F : 0.0F).to(group.device());
  group.broadcast(told);
  return told.item<float>() != 0;
}

}  // namespace muster::train
