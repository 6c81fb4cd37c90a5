#include "muster/tensor/index_watch.h"

#include <algorithm>
#include <array>
#include <memory>
#include <string_view>

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include "muster/base/error.h"
#include "muster/base/text.h"

namespace muster::tensor {
namespace {

using Inputs = c10::ArrayRef<const c10::IValue>;

thread_local IndexWatch* watch_of_thread = nullptr;

/// How an operator reads by index, by the order of its arguments.
enum class Reading {
  kRows,         ///< (weight, indices)
  kAlong,        ///< (self, dim, index)
  kAlongEither,  ///< the same; indices below 0 count from the end
  kElements,     ///< (self, index) of all elements
  kClasses,      ///< (input, target, weight, reduction, ignore_index)
  kPlaces,       ///< (self, a tensor of indices for each dimension)
};

struct IndexedOp {
  std::string_view name;
  Reading reading;
};

constexpr std::array kIndexedOps{
    IndexedOp{"embedding", Reading::kRows},
    IndexedOp{"embedding_bag", Reading::kRows},
    IndexedOp{"_embedding_bag", Reading::kRows},
    IndexedOp{"_embedding_bag_forward_only", Reading::kRows},
    IndexedOp{"gather", Reading::kAlong},
    IndexedOp{"index_select", Reading::kAlong},
    IndexedOp{"index_add", Reading::kAlong},
    IndexedOp{"index_copy", Reading::kAlong},
    IndexedOp{"index_reduce", Reading::kAlong},
    IndexedOp{"index_fill", Reading::kAlongEither},
    IndexedOp{"scatter", Reading::kAlong},
    IndexedOp{"scatter_add", Reading::kAlong},
    IndexedOp{"scatter_reduce", Reading::kAlong},
    IndexedOp{"take", Reading::kElements},
    IndexedOp{"put", Reading::kElements},
    IndexedOp{"cross_entropy_loss", Reading::kClasses},
    IndexedOp{"nll_loss_nd", Reading::kClasses},
    IndexedOp{"nll_loss", Reading::kClasses},
    IndexedOp{"nll_loss2d", Reading::kClasses},
    IndexedOp{"nll_loss_forward", Reading::kClasses},
    IndexedOp{"nll_loss2d_forward", Reading::kClasses},
    IndexedOp{"index", Reading::kPlaces},
    IndexedOp{"index_put", Reading::kPlaces},
};

/// "embedding" of "aten::embedding", "scatter_add" of "aten::scatter_add_".
std::string_view plain_name(std::string_view name) {
  constexpr std::string_view kNamespace = "aten::";
  if (!name.starts_with(kNamespace)) return {};
  name.remove_prefix(kNamespace.size());
  if (name.ends_with('_')) name.remove_suffix(1);
  return name;
}

std::optional<at::Tensor> tensor_at(Inputs inputs, size_t at) {
  if (at >= inputs.size() || !inputs[at].isTensor()) return std::nullopt;
  const at::Tensor& tensor = inputs[at].toTensor();
  if (!tensor.defined()) return std::nullopt;
  return tensor;
}

bool is_readable(const at::Tensor& indices) {
  const bool whole = indices.scalar_type() == at::kLong || indices.scalar_type() == at::kInt;
  return whole && indices.is_cpu() && indices.layout() == c10::kStrided && indices.has_storage();
}

/// What an index may be, and which value is none but allowed.
struct Range {
  int64_t first = 0, last = 0;
  std::optional<int64_t> ignored = {};
};

/// Sets what `found` has of places and values; false where all are within.
template <class Whole>
bool find_outside(const at::Tensor& indices, const Range& range, BadIndex& found) {
  const at::Tensor dense = indices.contiguous();
  const Whole* const values = dense.const_data_ptr<Whole>();
  found.all = dense.numel();
  found.bad = 0;
  int64_t first_bad = 0;
  for (int64_t i = 0; i < found.all; ++i) {
    const auto value = static_cast<int64_t>(values[i]);
    if ((value >= range.first && value <= range.last) || value == range.ignored) continue;
    if (found.bad++ > 0) continue;
    first_bad = i;
    found.value = value;
  }
  if (found.bad == 0) return false;
  for (int64_t dim = dense.dim(); dim-- > 0;) {
    found.place.insert(found.place.begin(), first_bad % dense.size(dim));
    first_bad /= dense.size(dim);
  }
  found.first = range.first;
  found.last = range.last;
  return true;
}

std::optional<BadIndex> outside(std::string_view op,
                                std::string name,
                                const at::Tensor& indices,
                                const Range& range,
                                std::string counts) {
  if (!is_readable(indices)) return std::nullopt;
  BadIndex found{.op = std::string(op), .indices = std::move(name), .counts = std::move(counts)};
  const bool is_bad = indices.scalar_type() == at::kLong
                          ? find_outside<int64_t>(indices, range, found)
                          : find_outside<int32_t>(indices, range, found);
  if (!is_bad) return std::nullopt;
  return found;
}

std::string counted_of(std::string_view who, int64_t count, std::string_view one) {
  return concat(who, " has ", count, ' ', one, count == 1 ? "" : one.ends_with('s') ? "es" : "s");
}

std::optional<BadIndex> bad_along(const IndexedOp& op, Inputs inputs) {
  const auto self = tensor_at(inputs, 0), index = tensor_at(inputs, 2);
  if (!self || !index || !inputs[1].isInt()) return std::nullopt;
  int64_t dim = inputs[1].toInt();
  if (dim < 0) dim += std::max<int64_t>(1, self->dim());
  if (dim < 0 || dim >= std::max<int64_t>(1, self->dim()))
    return std::nullopt;  // it says so itself
  const int64_t size = self->dim() == 0 ? 1 : self->size(dim);
  return outside(op.name,
                 "index",
                 *index,
                 {.first = op.reading == Reading::kAlongEither ? -size : 0, .last = size - 1},
                 counted_of(concat("dimension ", dim), size, "element"));
}

std::optional<BadIndex> bad_class(const IndexedOp& op, Inputs inputs) {
  const auto input = tensor_at(inputs, 0), target = tensor_at(inputs, 1);
  if (!input || !target || input->dim() == 0) return std::nullopt;
  const int64_t classes = input->size(input->dim() == 1 ? 0 : 1);
  Range range{.last = classes - 1};
  if (inputs.size() > 4 && inputs[4].isInt()) range.ignored = inputs[4].toInt();
  return outside(op.name, "target", *target, range, counted_of("the input", classes, "class"));
}

/// x.index({a, b}): a counts along the first dimension, b along the second; where a mask is among
/// them, which takes as many dimensions as it has, nothing is looked at.
std::optional<BadIndex> bad_place(const IndexedOp& op, Inputs inputs) {
  const auto self = tensor_at(inputs, 0);
  if (!self || inputs.size() < 2 || !inputs[1].isList()) return std::nullopt;
  const c10::ArrayRef<c10::IValue> all = inputs[1].toListRef();
  const auto is_mask = [](const c10::IValue& value) {
    return value.isTensor() && value.toTensor().defined() &&
           (value.toTensor().scalar_type() == at::kBool ||
            value.toTensor().scalar_type() == at::kByte);
  };
  if (std::ranges::any_of(all, is_mask)) return std::nullopt;
  for (size_t dim = 0; dim < all.size() && static_cast<int64_t>(dim) < self->dim(); ++dim) {
    if (!all[dim].isTensor() || !all[dim].toTensor().defined()) continue;
    const int64_t size = self->size(static_cast<int64_t>(dim));
    auto found = outside(op.name,
                         concat("indices ", dim),
                         all[dim].toTensor(),
                         {.first = -size, .last = size - 1},
                         counted_of(concat("dimension ", dim), size, "element"));
    if (found) return found;
  }
  return std::nullopt;
}

std::optional<BadIndex> bad_index(const IndexedOp& op, Inputs inputs) {
  switch (op.reading) {
    case Reading::kAlong:
    case Reading::kAlongEither:
      return inputs.size() > 2 ? bad_along(op, inputs) : std::nullopt;
    case Reading::kClasses:
      return bad_class(op, inputs);
    case Reading::kPlaces:
      return bad_place(op, inputs);
    default:
      break;
  }
  const auto source = tensor_at(inputs, 0), indices = tensor_at(inputs, 1);
  if (!source || !indices) return std::nullopt;
  if (op.reading == Reading::kElements) {
    const int64_t count = source->numel();
    return outside(op.name,
                   "index",
                   *indices,
                   {.first = -count, .last = count - 1},
                   counted_of("the tensor", count, "element"));
  }
  if (source->dim() == 0) return std::nullopt;
  const int64_t rows = source->size(0);
  return outside(
      op.name, "indices", *indices, {.last = rows - 1}, counted_of("the weight", rows, "row"));
}

}  // namespace

std::string place_text(const BadIndex& found) {
  std::vector<std::string> place;
  for (const int64_t number : found.place) place.push_back(std::to_string(number));
  return concat(found.indices, '[', join(place, ", "), "] = ", found.value);
}

std::string text_of(const BadIndex& found) {
  const std::string range = found.last < found.first
                                ? std::string(", and there is none")
                                : concat(" is none of ", found.first, " … ", found.last);
  const std::string how_many = concat(found.bad, " of ", found.all, " outside");
  return concat(found.op, ": ", place_text(found), range, " (", found.counts, "; ", how_many, ")");
}

std::unique_ptr<at::ObserverContext> IndexWatch::look(const at::RecordFunction& function) {
  IndexWatch* const watch = watch_of_thread;
  if (watch == nullptr || watch->found_) return nullptr;
  const std::string_view name = plain_name(function.name());
  const auto* const op = std::ranges::find(kIndexedOps, name, &IndexedOp::name);
  if (op == kIndexedOps.end()) return nullptr;
  const at::DisableRecordFunctionGuard not_this;  // contiguous() is an operator, too
  watch->found_ = bad_index(*op, function.inputs());
  return nullptr;
}

IndexWatch::IndexWatch() {
  if (watch_of_thread != nullptr) {
    throw usage_error({.refused = "a second IndexWatch", .rule = "a thread has one at a time"});
  }
  watch_of_thread = this;
  handle_ = at::addThreadLocalCallback(at::RecordFunctionCallback(&IndexWatch::look)
                                           .needsInputs(true)
                                           .scopes({at::RecordScope::FUNCTION}));
}

IndexWatch::~IndexWatch() {
  at::removeCallback(handle_);
  watch_of_thread = nullptr;
}

}  // namespace muster::tensor
