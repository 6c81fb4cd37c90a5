#include "muster/train/replicas/gather_named.h"

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <ATen/ops/empty.h>

#include "muster/base/json.h"

namespace muster::train {

tensor::NamedTensorList gather_named(const distributed::ProcessGroup& group,
                                     const tensor::NamedTensorList& own) {
  Json heads = Json::array();
  for (const auto& [name, tensor] : own)
    heads.push_back({name, static_cast<int>(tensor.scalar_type()), tensor.sizes().vec()});
  const std::vector<std::string> all = group.gather_text(heads.dump());
  tensor::NamedTensorList gathered;
  if (group.rank() != 0) {
    for (const auto& [name, tensor] : own)
      group.send(tensor.contiguous().to(group.host_device()), 0);
    return gathered;
  }
  for (const auto& [name, tensor] : own) gathered.emplace_back(name, tensor.cpu());
  for (int rank = 1; rank < group.world_size(); ++rank) {
    for (const Json& head : Json::parse(all[static_cast<size_t>(rank)])) {
      const auto dtype = static_cast<at::ScalarType>(head[1].get<int>());
      const at::Tensor tensor =
          at::empty(head[2].get<std::vector<int64_t>>(),
                    at::TensorOptions().dtype(dtype).device(group.host_device()));
      group.recv(tensor, rank);
      gathered.emplace_back(head[0].get<std::string>(), tensor.cpu());
    }
  }
  return gathered;
}

tensor::NamedTensorList in_order_of(const torch::nn::Module& module,
                                    const tensor::NamedTensorList& state) {
  std::vector<std::string> kinds;
  std::map<std::string_view, at::Tensor> by_name;
  for (const auto& [name, tensor] : state) {
    by_name[name] = tensor;
    const std::string kind = name.substr(0, name.find('/') + 1);
    if (std::ranges::find(kinds, kind) == kinds.end()) kinds.push_back(kind);
  }
  tensor::NamedTensorList ordered;
  for (const std::string& kind : kinds) {
    for (const auto& item : module.named_parameters()) {
      const auto found = by_name.find(kind + item.key());
      if (found != by_name.end()) ordered.emplace_back(found->first, found->second);
    }
  }
  return ordered;
}

}  // namespace muster::train
