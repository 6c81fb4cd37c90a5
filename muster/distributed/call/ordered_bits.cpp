#include "muster/distributed/call/ordered_bits.h"

#include <cstdint>
#include <limits>

#include <ATen/ops/empty.h>
#include <c10/core/GradMode.h>

namespace muster::distributed {
namespace {

/// Of a float whose bits are a T.
template <class T>
struct Layout {
  static constexpr T kBelowSign = std::numeric_limits<T>::max();
  static constexpr int kSign = std::numeric_limits<T>::digits;
  static constexpr T kInfinity = sizeof(T) == 4 ? T{0x7f800000} : T(0x7ff0000000000000);
};

/// Its own inverse: the sign stays.
template <class T>
T in_order(T bits) {
  return bits ^ ((bits >> Layout<T>::kSign) & Layout<T>::kBelowSign);
}

/// `floats` as their bits.
template <class T>
at::Tensor ordered(const at::Tensor& floats, bool largest) {
  using Limits = std::numeric_limits<T>;
  const at::Tensor bits = at::empty(floats.sizes(), c10::CppTypeToScalarType<T>::value);
  const T* from = floats.const_data_ptr<T>();
  T* to = bits.data_ptr<T>();
  const T winner = largest ? Limits::max() : Limits::min();
  for (int64_t i = 0; i < bits.numel(); ++i) {
    const bool is_nan = (from[i] & Layout<T>::kBelowSign) > Layout<T>::kInfinity;
    to[i] = is_nan ? winner : in_order(from[i]);
  }
  return bits;
}

template <class T>
void put(const at::Tensor& into, at::ScalarType floating, const at::Tensor& bits) {
  constexpr at::ScalarType kWhole = c10::CppTypeToScalarType<T>::value;
  const bool direct = into.is_contiguous() && into.scalar_type() == floating && !into.is_neg();
  const at::Tensor plain = direct ? into.view(kWhole) : at::empty(into.sizes(), kWhole);
  const T* from = bits.const_data_ptr<T>();
  T* to = plain.data_ptr<T>();
  for (int64_t i = 0; i < plain.numel(); ++i) to[i] = in_order(from[i]);
  if (!direct) into.copy_(plain.view(floating));
}

}  // namespace

bool compares_floats(at::ScalarType dtype, c10d::ReduceOp::RedOpType op) {
  const bool is_float =
      dtype == at::kFloat || dtype == at::kDouble || dtype == at::kHalf || dtype == at::kBFloat16;
  return is_float && (op == c10d::ReduceOp::MIN || op == c10d::ReduceOp::MAX);
}

at::Tensor ordered_bits(const at::Tensor& values, c10d::ReduceOp::RedOpType op) {
  const c10::NoGradGuard no_grad;
  const bool largest = op == c10d::ReduceOp::MAX;
  const at::Tensor plain = values.detach().resolve_neg().contiguous();
  if (plain.scalar_type() == at::kDouble) return ordered<int64_t>(plain.view(at::kLong), largest);
  return ordered<int32_t>(plain.to(at::kFloat).view(at::kInt), largest);
}

void put_from_ordered_bits(const at::Tensor& into, const at::Tensor& bits) {
  const c10::NoGradGuard no_grad;
  if (into.scalar_type() == at::kDouble)
    put<int64_t>(into.detach(), at::kDouble, bits);
  else
    put<int32_t>(into.detach(), at::kFloat, bits);
}

}  // namespace muster::distributed
