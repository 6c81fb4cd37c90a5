// Gradients travel as bf16. Source: bf16_compress_hook of
// torch.distributed.algorithms.ddp_comm_hooks.default_hooks.
#include "muster/parallel/hook/half_hook.h"

namespace muster::parallel {
namespace {

std::shared_ptr<CommHook> make_bf16(const distributed::ProcessGroup& group,
                                    const ParamValues& params) {
  check_param_names({}, params, "communication hook bf16");
  return make_half_hook(group, at::kBFloat16);
}

}  // namespace

extern constinit const CommHookEntry bf16_entry{
    "bf16", "half the bytes; 8 bits of mantissa, float32's range", {}, &make_bf16};

}  // namespace muster::parallel
