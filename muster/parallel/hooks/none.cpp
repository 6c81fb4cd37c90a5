// No hook: DDP divides while it fills the bucket, and the group sums.
#include "muster/parallel/hook/comm_hook.h"

namespace muster::parallel {
namespace {

std::shared_ptr<CommHook> make_none(const distributed::ProcessGroup&, const ParamValues& params) {
  check_param_names({}, params, "communication hook none");
  return nullptr;
}

}  // namespace

extern constinit const CommHookEntry none_entry{.name = "none",
                                                .help = "the average in the gradients' own dtype",
                                                .params = {},
                                                .make = &make_none,
                                                .is_plain = true};

}  // namespace muster::parallel
