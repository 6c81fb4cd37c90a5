#include "muster/tensor/vector_math.h"

#include <mutex>

#include <ATen/ops/acos.h>
#include <ATen/ops/asin.h>
#include <ATen/ops/atan.h>
#include <ATen/ops/cos.h>
#include <ATen/ops/erf.h>
#include <ATen/ops/erfc.h>
#include <ATen/ops/erfinv.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/full.h>
#include <ATen/ops/log.h>
#include <ATen/ops/log10.h>
#include <ATen/ops/log2.h>
#include <ATen/ops/sin.h>
#include <ATen/ops/sqrt.h>
#include <ATen/ops/tan.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/trunc.h>
#include <c10/core/InferenceMode.h>

namespace muster::tensor {

void initialize_vector_math() {
  using Function = at::Tensor (*)(const at::Tensor&);
  // The functions that ATen/cpu/vml.h gives to MKL.
  static constexpr Function kFunctions[] = {&at::acos,
                                            &at::asin,
                                            &at::atan,
                                            &at::cos,
                                            &at::erf,
                                            &at::erfc,
                                            &at::erfinv,
                                            &at::exp,
                                            &at::log,
                                            &at::log2,
                                            &at::sin,
                                            &at::log10,
                                            &at::tan,
                                            &at::sqrt,
                                            &at::tanh,
                                            &at::trunc};
  static std::once_flag once;
  std::call_once(once, [] {
    const c10::InferenceMode nobody_differentiates_this;
    for (const at::ScalarType dtype : {at::kFloat, at::kDouble}) {
      const at::Tensor one_half =
          at::full({1}, 0.5, at::TensorOptions().dtype(dtype).device(at::kCPU));
      for (const Function function : kFunctions) function(one_half);
    }
  });
}

}  // namespace muster::tensor
