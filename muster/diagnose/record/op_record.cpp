#include "muster/diagnose/record/op_record.h"

#include <iterator>

#include "muster/base/text.h"

namespace muster::diagnose {
namespace {

struct KindRow {
  std::string_view name;    // torch.distributed's
  std::string_view method;  // c10d's
  bool reduces;
  bool has_root;
  bool same_contents;  // OpRecord::contents is equal on all ranks
};

constexpr KindRow kRows[] = {
    {"broadcast", "broadcast", false, true, true},
    {"all_reduce", "allreduce", true, false, true},
    {"all_reduce_coalesced", "allreduce_coalesced", true, false, true},
    {"all_reduce_sparse", "allreduce_sparse", true, false, false},
    {"reduce", "reduce", true, true, true},
    {"all_gather", "allgather", false, false, true},
    {"all_gather_into_tensor", "allgather_base", false, false, true},
    {"all_gather_coalesced", "allgather_coalesced", false, false, true},
    {"all_gather_into_tensor_coalesced", "allgather_into_tensor_coalesced", false, false, true},
    {"gather", "gather", false, true, true},
    {"scatter", "scatter", false, true, true},
    {"reduce_scatter", "reduce_scatter", true, false, true},
    {"reduce_scatter_tensor", "reduce_scatter_base", true, false, true},
    {"reduce_scatter_tensor_coalesced", "reduce_scatter_tensor_coalesced", true, false, true},
    {"all_to_all", "alltoall", false, false, true},
    {"all_to_all_single", "alltoall_base", false, false, true},
    {"barrier", "barrier", false, false, false},
    {"send", "send", false, false, false},
    {"recv", "recv", false, false, false},
    {"recv_any", "recv_any", false, false, false},
};
static_assert(std::size(kRows) == kOpKinds);

const KindRow& row(OpKind kind) { return kRows[static_cast<size_t>(kind)]; }

// In the order of c10d::ReduceOp::RedOpType, which monitored_backend.cpp checks.
constexpr std::string_view kReduceNames[] = {
    "sum", "avg", "product", "min", "max", "band", "bor", "bxor", "premul_sum"};

}  // namespace

std::string_view op_name(OpKind kind) { return row(kind).name; }

std::optional<OpKind> op_kind(std::string_view name) {
  for (size_t i = 0; i < kOpKinds; ++i) {
    if (kRows[i].name == name || kRows[i].method == name) return static_cast<OpKind>(i);
  }
  return std::nullopt;
}

bool is_point_to_point(OpKind kind) { return kind >= OpKind::kSend; }

std::string tensor_text(const TensorMeta& tensor) {
  std::string text = concat(tensor.dtype, "[");
  for (size_t i = 0; i < tensor.dims; ++i) {
    if (i == TensorMeta::kMaxDims) return text + ", …]";
    text += concat(i == 0 ? "" : ", ", tensor.sizes[i]);
  }
  return text + "]";
}

void add_tensor(OpRecord& record, const TensorMeta& tensor, int64_t element_bytes) {
  const auto count = static_cast<size_t>(record.tensors_count++);
  if (count < OpRecord::kMaxTensors) record.tensors[count] = tensor;
  record.bytes += tensor.elements * element_bytes;
  uint64_t hash = record.contents ^ static_cast<uint64_t>(tensor.elements);
  for (const char* c = tensor.dtype; *c != '\0'; ++c)
    hash = hash * 31 + static_cast<uint64_t>(static_cast<unsigned char>(*c));
  record.contents = mix64(hash);
}

std::string describe(const OpRecord& record) {
  const KindRow& kind = row(record.kind);
  std::string text(kind.name);
  if (kind.reduces)
    text +=
        concat(" ", record.reduce < std::size(kReduceNames) ? kReduceNames[record.reduce] : "?");
  if (kind.has_root) text += concat(" root ", record.root);
  if (record.kind == OpKind::kSend) text += concat(" to ", record.root);
  if (record.kind == OpKind::kRecv) text += concat(" from ", record.root);
  if (is_point_to_point(record.kind)) text += concat(" tag ", record.tag);
  const auto count = static_cast<size_t>(record.tensors_count);
  for (size_t i = 0; i < count && i < OpRecord::kMaxTensors; ++i)
    text += " " + tensor_text(record.tensors[i]);
  if (count > OpRecord::kMaxTensors)
    text += concat(" and ", count - OpRecord::kMaxTensors, " more tensors");
  return text;
}

uint64_t fingerprint(const OpRecord& record) {
  const KindRow& kind = row(record.kind);
  uint64_t hash = static_cast<uint64_t>(record.kind);
  if (kind.reduces) hash |= static_cast<uint64_t>(record.reduce) << 8;
  if (kind.has_root) hash |= (static_cast<uint64_t>(record.root) & 0xffffffff) << 16;
  hash = mix64(hash);
  if (kind.same_contents) hash = mix64(hash ^ record.contents);
  return hash;
}

}  // namespace muster::diagnose
