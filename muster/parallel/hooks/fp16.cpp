// Gradients travel as fp16. Source: fp16_compress_hook of
// torch.distributed.algorithms.ddp_comm_hooks.default_hooks.
#include "muster/parallel/hook/half_hook.h"

namespace muster::parallel {
namespace {

std::shared_ptr<CommHook> make_fp16(const distributed::ProcessGroup& group,
                                    const ParamValues& params) {
  check_param_names({}, params, "communication hook fp16");
  return make_half_hook(group, at::kHalf);
}

}  // namespace

extern constinit const CommHookEntry fp16_entry{
    "fp16", "half the bytes; 11 bits of mantissa, magnitudes from 6e-8 to 65504", {}, &make_fp16};

}  // namespace muster::parallel
