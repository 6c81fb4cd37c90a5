#include "muster/distributed/device_mesh.h"

#include <algorithm>
#include <set>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/distributed/text_calls.h"

namespace muster::distributed {
namespace {

/// "data=2 pipeline=4".
std::string axes_text(const std::vector<MeshAxis>& axes) {
  std::vector<std::string> words;
  for (const MeshAxis& axis : axes) words.push_back(concat(axis.name, '=', axis.size));
  return join(words, " ");
}

[[noreturn]] void refuse_mesh(const std::string& rule,
                              const std::string& value,
                              const std::string& hint = "") {
  throw usage_error({.refused = "device mesh", .rule = rule, .value = value, .hint = hint});
}

/// So that all ranks refuse what one of them says.
void compare_axes(const ProcessGroup& world, const std::vector<MeshAxis>& axes) {
  const std::vector<std::string> all = gather_texts_for(TextCall::kMesh, world, axes_text(axes));
  for (size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank] != all[0])
      refuse_mesh("all ranks give the same axes",
                  concat("rank 0: ", all[0], "; rank ", rank, ": ", all[rank]));
  }
}

/// With the size that was left open.
std::vector<MeshAxis> checked_axes(std::vector<MeshAxis> axes, int64_t ranks) {
  std::set<std::string> names;
  int64_t product = 1;
  MeshAxis* open = nullptr;
  const std::string given = concat(axes_text(axes), " for ", ranks, " ranks");
  if (axes.empty()) refuse_mesh("a mesh has at least one axis", given);
  for (MeshAxis& axis : axes) {
    if (axis.name.empty() || !names.insert(axis.name).second)
      refuse_mesh("each axis has a name of its own", given);
    const bool is_open = axis.size == -1 && open == nullptr;
    if (is_open) open = &axis;
    if (!is_open && axis.size < 1)
      refuse_mesh("an axis has at least one rank, and one of them may be -1", given);
    if (!is_open && axis.size > ranks)
      refuse_mesh("the sizes multiplied are the number of ranks", given);
    if (!is_open) product *= axis.size;
    if (product > ranks) refuse_mesh("the sizes multiplied are the number of ranks", given);
  }
  if (open != nullptr && ranks % product == 0) {
    open->size = ranks / product;
    product = ranks;
  }
  if (product != ranks)
    refuse_mesh("the sizes multiplied are the number of ranks",
                given,
                "-1 is the size that the other axes leave");
  return axes;
}

}  // namespace

DeviceMesh::DeviceMesh(const ProcessGroup& world,
                       std::vector<MeshAxis> axes,
                       const SplitOptions& options)
    : world_(world), options_(options) {
  compare_axes(world, axes);
  axes_ = checked_axes(std::move(axes), world.world_size());
  coordinates_.resize(axes_.size());
  int64_t rest = world.rank();
  for (size_t i = axes_.size(); i-- > 0; rest /= axes_[i].size)
    coordinates_[i] = rest % axes_[i].size;
  for (const MeshAxis& axis : axes_) groups_.push_back(group_over({axis.name}));
}

size_t DeviceMesh::index_of(const std::string& axis) const {
  const auto found = std::find_if(
      axes_.begin(), axes_.end(), [&](const MeshAxis& one) { return one.name == axis; });
  if (found != axes_.end()) return static_cast<size_t>(found - axes_.begin());
  throw usage_error(
      {.refused = "axis of a device mesh", .rule = "it has " + axes_text(axes_), .value = axis});
}

int DeviceMesh::rank_at(const std::vector<int64_t>& coordinates) const {
  int64_t rank = 0;
  bool fits = coordinates.size() == axes_.size();
  for (size_t i = 0; i < axes_.size() && fits; ++i) {
    fits = coordinates[i] >= 0 && coordinates[i] < axes_[i].size;
    rank = rank * axes_[i].size + coordinates[i];
  }
  if (fits) return static_cast<int>(rank);
  std::vector<std::string> words;
  for (const int64_t each : coordinates) words.push_back(std::to_string(each));
  throw usage_error({.refused = "coordinates in a device mesh",
                     .rule = "one below the size of each axis: " + axes_text(axes_),
                     .value = join(words, ", ")});
}

ProcessGroup DeviceMesh::group_over(const std::vector<std::string>& axes) const {
  std::vector<bool> along(axes_.size(), false);
  for (const std::string& axis : axes) along[index_of(axis)] = true;
  // Who stands at the same place of the other axes is of one colour.
  int64_t color = 0;
  for (size_t i = 0; i < axes_.size(); ++i)
    if (!along[i]) color = color * axes_[i].size + coordinates_[i];
  SplitOptions options = options_;
  options.name = join(axes, "-") + (options_.name.empty() ? "" : "-" + options_.name);
  return *world_.split(color, world_.rank(), options);
}

}  // namespace muster::distributed
