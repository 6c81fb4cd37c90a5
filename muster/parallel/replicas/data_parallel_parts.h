// What DataParallel does to modules, batches and results of any type.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/core/DeviceGuard.h>

#include "muster/parallel/module/tensors.h"
#include "muster/tensor/device/pinned_ring.h"

namespace muster::parallel::detail {

/// visit(at::Tensor&) for every tensor of a batch: as visit_tensors, and `data` and `target` of a
/// struct that has them.
template <class T, class Visit>
void visit_batch(T& value, Visit& visit) {
  if constexpr (requires { value.data, value.target; }) {
    visit_batch(value.data, visit);
    visit_batch(value.target, visit);
  } else {
    visit_tensors(value, visit);
  }
}

/// Rows `from` to `from + rows` of dimension 0, on `device`.
struct Shard {
  int64_t from, rows;
  at::Device device;
  tensor::PinnedRing* ring = nullptr;  ///< the device's, if it has one

  /// [N, …] -> [rows, …]; [] stays whole.
  at::Tensor of_tensor(const at::Tensor& tensor) const;

  template <class T>
  std::decay_t<T> of(const T& value) const {
    std::decay_t<T> part = value;
    const auto cut = [&](at::Tensor& tensor) { tensor = of_tensor(tensor); };
    visit_batch(part, cut);
    return part;
  }
};

/// The one size of dimension 0 of all tensors that have a dimension. Throws a usage error if they
/// differ, or there is none.
int64_t rows_of_tensors(const std::vector<at::Tensor>& tensors);

template <class T>
void append_tensors(const T& value, std::vector<at::Tensor>& tensors) {
  T copy = value;  // of handles
  const auto append = [&](at::Tensor& tensor) { tensors.push_back(tensor); };
  visit_batch(copy, append);
}

template <class... T>
int64_t rows_of_batch(const T&... values) {
  std::vector<at::Tensor> tensors;
  (append_tensors(values, tensors), ...);
  return rows_of_tensors(tensors);
}

template <class... T>
at::Device device_of(const T&... values) {
  std::vector<at::Tensor> tensors;
  (append_tensors(values, tensors), ...);
  return tensors.at(0).device();
}

/// parts[i] // [rows[i], …] -> [sum of rows, …] on `device`. Throws a usage error for other shapes.
at::Tensor gather_tensors(const std::vector<at::Tensor>& parts,
                          const std::vector<int64_t>& rows,
                          at::Device device);

/// Throws a usage error unless all parts hold the same number of tensors, one at least.
void require_same_places(const std::vector<std::vector<at::Tensor>>& parts);

/// The replicas' results as one of the same type; parts are missing where a replica had no rows.
template <class Result>
Result gather(std::vector<std::optional<Result>> parts,
              const std::vector<int64_t>& all_rows,
              at::Device device) {
  std::vector<std::vector<at::Tensor>> tensors;  // by part, then by place
  std::vector<int64_t> rows;
  std::optional<Result>* first = nullptr;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (!parts[i]) continue;
    if (first == nullptr) first = &parts[i];
    append_tensors(*parts[i], tensors.emplace_back());
    rows.push_back(all_rows[i]);
  }
  require_same_places(tensors);
  size_t place = 0;
  const auto put = [&](at::Tensor& tensor) {
    std::vector<at::Tensor> row;
    row.reserve(tensors.size());
    for (const auto& part : tensors) row.push_back(part[place]);
    tensor = gather_tensors(row, rows, device);
    ++place;
  };
  visit_batch(**first, put);
  return std::move(**first);
}

/// The state of LibTorch's default CPU generator, and back.
at::Tensor default_cpu_draws();
void set_default_cpu_draws(const at::Tensor& state);

template <class Make>
decltype(auto) make_module(Make& make, at::Device device, int index) {
  if constexpr (std::is_invocable_v<Make&, at::Device, int>)
    return make(device, index);
  else if constexpr (std::is_invocable_v<Make&, at::Device>)
    return make(device);
  else
    return make();
}

template <class Make>
using MadeModule = std::decay_t<decltype(make_module(
    std::declval<std::remove_reference_t<Make>&>(), at::kCPU, 0))>;

template <class Module, class Make>
std::vector<Module> make_replicas(Make& make, const std::vector<at::Device>& devices) {
  std::vector<Module> modules;
  at::Tensor draws;
  for (size_t i = 0; i < devices.size(); ++i) {
    const c10::DeviceGuard guard(devices[i]);
    modules.push_back(make_module(make, devices[i], static_cast<int>(i)));
    modules.back()->to(devices[i]);
    if (i == 0) draws = default_cpu_draws();
  }
  set_default_cpu_draws(draws);
  return modules;
}

template <class Made>
struct PointeeOf {
  using Type = Made;
};
template <class T>
struct PointeeOf<std::shared_ptr<T>> {
  using Type = T;
};
template <class T>
struct PointeeOf<std::unique_ptr<T>> {
  using Type = T;
};
template <class Made>
using Pointee = typename PointeeOf<std::decay_t<Made>>::Type;

/// What `make(argument)` returns, behind a pointer; a value need not be movable.
template <class Make, class Argument>
auto as_pointer(Make& make, Argument& argument) {
  using Made = std::decay_t<std::invoke_result_t<Make&, Argument&>>;
  if constexpr (std::is_same_v<Pointee<Made>, Made>)
    return std::shared_ptr<Made>(new Made(make(argument)));
  else
    return std::shared_ptr<Pointee<Made>>(make(argument));
}

}  // namespace muster::parallel::detail
