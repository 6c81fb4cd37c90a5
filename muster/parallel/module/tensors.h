// Finds the tensors inside whatever a module's forward returns.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

namespace muster::parallel {

/// In the module's order; tensors that are registered under several names may appear several times.
using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

inline std::vector<at::Tensor> tensors_of(const NamedTensors& named) {
  std::vector<at::Tensor> tensors;
  for (const auto& [name, tensor] : named) tensors.push_back(tensor);
  return tensors;
}

/// Calls `visit(at::Tensor&)` for every tensor in `value`: a tensor, a pair, tuple, vector, array,
/// optional or map of such, to any depth. Other types are skipped; for a struct of your own,
/// overload `for_each_tensor(YourStruct&, Visit&&)` in its namespace, which is found by
/// argument-dependent lookup.
template <class Visit>
void for_each_tensor(at::Tensor& value, Visit&& visit) {
  visit(value);
}

namespace detail {

template <class T>
struct IsSequence : std::false_type {};
template <class T, class A>
struct IsSequence<std::vector<T, A>> : std::true_type {};
template <class T, size_t N>
struct IsSequence<std::array<T, N>> : std::true_type {};

template <class T>
struct IsMap : std::false_type {};
template <class K, class T, class C, class A>
struct IsMap<std::map<K, T, C, A>> : std::true_type {};
template <class K, class T, class H, class E, class A>
struct IsMap<std::unordered_map<K, T, H, E, A>> : std::true_type {};

template <class T>
struct IsTuple : std::false_type {};
template <class... T>
struct IsTuple<std::tuple<T...>> : std::true_type {};
template <class A, class B>
struct IsTuple<std::pair<A, B>> : std::true_type {};

template <class T>
struct IsOptional : std::false_type {};
template <class T>
struct IsOptional<std::optional<T>> : std::true_type {};

template <class T, class Visit>
void visit_tensors(T& value, Visit& visit) {
  if constexpr (IsSequence<T>::value) {
    for (auto& item : value) visit_tensors(item, visit);
  } else if constexpr (IsMap<T>::value) {
    for (auto& item : value) visit_tensors(item.second, visit);
  } else if constexpr (IsTuple<T>::value) {
    std::apply([&](auto&... item) { (visit_tensors(item, visit), ...); }, value);
  } else if constexpr (IsOptional<T>::value) {
    if (value) visit_tensors(*value, visit);
  } else if constexpr (requires { for_each_tensor(value, visit); }) {
    for_each_tensor(value, visit);
  }
}

}  // namespace detail
}  // namespace muster::parallel
