#include "muster/parallel/module/module_agreement.h"

#include <algorithm>
#include <sstream>
#include <string>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/tensor/dtype_name.h"

namespace muster::parallel {
namespace {

std::string describe(const std::string& role, const std::string& name, const at::Tensor& tensor) {
  std::ostringstream out;
  out << role << ' ' << name << ' ' << tensor::dtype_name(tensor.scalar_type()) << tensor.sizes();
  // Gradients are averaged in the order of memory.
  if (tensor.requires_grad() && !tensor.is_contiguous()) out << " strides " << tensor.strides();
  out << (tensor.requires_grad() ? "" : " fixed") << '\n';
  return out.str();
}

/// The first line in which `text` differs from rank 0's, as both ranks see it. Empty if none does.
std::string first_difference(const std::string& reference, const std::string& text, size_t rank) {
  const std::vector<std::string> ours = split(reference, '\n'), theirs = split(text, '\n');
  for (size_t i = 0; i < std::max(ours.size(), theirs.size()); ++i) {
    const std::string a = i < ours.size() && !ours[i].empty() ? ours[i] : "nothing more";
    const std::string b = i < theirs.size() && !theirs[i].empty() ? theirs[i] : "nothing more";
    if (a != b) return concat("rank 0 has ", a, "; rank ", rank, " has ", b);
  }
  return "";
}

}  // namespace

void verify_same_module(const std::string& options,
                        const NamedTensors& trained,
                        const NamedTensors& frozen,
                        const NamedTensors& buffers,
                        const distributed::ProcessGroup& group) {
  std::string text = options;
  for (const auto& [name, tensor] : trained) text += describe("parameter", name, tensor);
  for (const auto& [name, tensor] : frozen) text += describe("parameter", name, tensor);
  for (const auto& [name, tensor] : buffers) text += describe("buffer", name, tensor);
  const std::vector<std::string> texts = group.all_gather_text(text);
  for (size_t rank = 1; rank < texts.size(); ++rank) {
    const std::string difference = first_difference(texts[0], texts[rank], rank);
    if (difference.empty()) continue;
    throw usage_error(
        {.refused = "the ranks' modules differ",
         .rule =
             "all ranks wrap the same module, registered in the same order, with the same options",
         .value = difference,
         .hint = "build the module from the same options on every rank; the rank may "
                 "only choose data and seeds"});
  }
}

}  // namespace muster::parallel
