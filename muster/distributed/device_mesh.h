// The ranks of a group as a grid with named axes, and a group along each of them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "muster/distributed/process_group.h"

namespace muster::distributed {

struct MeshAxis {
  std::string name;
  int64_t size = 1;  ///< -1, of one axis: what the others leave
};

/// As torch's init_device_mesh: rank r stands at the coordinates of element r of a row-major array,
/// so ranks that differ in the last axis alone are neighbours (put the axis that sends most last).
///
///     const DeviceMesh mesh(world, {{"data", -1}, {"pipeline", 4}});
///     mesh.group("data").all_reduce(gradient);
///     const int stage = mesh.coordinate("pipeline");
///
/// Cheap to copy, as its groups are. Source: torch.distributed.device_mesh.
class DeviceMesh {
 public:
  /// Collective over `world`: makes a group for each axis, called "NAME of PARENT". Throws a usage
  /// error on all ranks if the axes differ between ranks, have a name twice or none, or are not as
  /// many ranks as `world` has.
  DeviceMesh(const ProcessGroup& world,
             std::vector<MeshAxis> axes,
             const SplitOptions& options = {});

  const std::vector<MeshAxis>& axes() const { return axes_; }
  int64_t size(const std::string& axis) const { return axes_[index_of(axis)].size; }

  /// The ranks that differ from this one along `axis` alone, in their order. Throws a usage error
  /// for an axis that there is not, as the next ones.
  const ProcessGroup& group(const std::string& axis) const { return groups_[index_of(axis)]; }
  /// Where this rank stands along `axis`: its rank in group(axis).
  int64_t coordinate(const std::string& axis) const { return coordinates_[index_of(axis)]; }
  const std::vector<int64_t>& coordinates() const { return coordinates_; }

  /// The rank in `world` of whoever stands there. // [axes]
  int rank_at(const std::vector<int64_t>& coordinates) const;

  /// One group over several axes, row-major in the order of the mesh, as torch's flattened meshes:
  /// group_over({"data", "shard"}) for gradients that both average. Collective over `world`.
  ProcessGroup group_over(const std::vector<std::string>& axes) const;

 private:
  size_t index_of(const std::string& axis) const;

  ProcessGroup world_;
  SplitOptions options_;
  std::vector<MeshAxis> axes_;
  std::vector<int64_t> coordinates_;
  std::vector<ProcessGroup> groups_;  // by axis
};

}  // namespace muster::distributed
