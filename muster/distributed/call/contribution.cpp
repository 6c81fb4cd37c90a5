#include "muster/distributed/call/contribution.h"

#include <cstring>
#include <functional>
#include <numeric>
#include <string_view>

#include <ATen/ops/maximum.h>
#include <ATen/ops/minimum.h>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/distributed/call/names.h"

namespace muster::distributed {
namespace {

using c10d::OpType;
using c10d::ReduceOp;

bool has_root(OpType op) {
  return op == OpType::BROADCAST || op == OpType::REDUCE || op == OpType::GATHER ||
         op == OpType::SCATTER;
}

/// Ranks give different lists to scatter and gather (only the root's is full), and all-to-all rows
/// differ by design.
bool lists_differ(OpType op) {
  return op == OpType::SCATTER || op == OpType::GATHER || op == OpType::ALLTOALL ||
         op == OpType::ALLTOALL_BASE || op == OpType::ALLGATHER;
}

uint64_t mix(uint64_t hash, uint64_t value) {
  return (hash ^ (value + 0x9e3779b97f4a7c15ULL)) * 0xff51afd7ed558ccdULL;
}

/// "float32[2, 3]"; nested ones have no shape.
std::string tensor_words(const at::Tensor& tensor) {
  if (!tensor.defined()) return "undefined";
  if (tensor.is_nested()) return concat(dtype_name(tensor.scalar_type()), " nested");
  return shape_text(tensor.scalar_type(), tensor.sizes());
}

bool is_movable(const at::Tensor& tensor) {
  return tensor.defined() && !tensor.is_nested() && tensor.layout() == at::kStrided &&
         !tensor.is_meta() && !tensor.is_quantized();
}

void require(bool holds, const Contribution& part, const std::string& rule, std::string value) {
  if (holds) return;
  throw usage_error({.refused = part.describe(), .rule = rule, .value = std::move(value)});
}

std::string count_text(size_t count) { return concat(count, count == 1 ? " tensor" : " tensors"); }

void check_lists(const Contribution& part, int rank, size_t world) {
  const auto one_per_rank = [&](const std::vector<at::Tensor>& list, const char* side) {
    require(list.size() == world,
            part,
            concat("as many ", side, " tensors as ranks (", world, ")"),
            count_text(list.size()));
  };
  const auto one = [&](const std::vector<at::Tensor>& list, const char* side) {
    require(list.size() == 1, part, concat("one ", side, " tensor"), count_text(list.size()));
  };
  const bool is_root = part.root == rank;
  switch (part.op) {
    case OpType::ALLGATHER:
      one(part.inputs, "input");
      return one_per_rank(part.outputs, "output");
    case OpType::GATHER:
      one(part.inputs, "input");
      if (is_root) one_per_rank(part.outputs, "output");
      return;
    case OpType::SCATTER:
      one(part.outputs, "output");
      if (is_root) one_per_rank(part.inputs, "input");
      return;
    case OpType::REDUCE_SCATTER:
      one(part.outputs, "output");
      return one_per_rank(part.inputs, "input");
    case OpType::ALLTOALL:
      one_per_rank(part.inputs, "input");
      return one_per_rank(part.outputs, "output");
    case OpType::REDUCE:
      return one(part.inputs, "input");
    case OpType::BARRIER:
      return;
    default:
      require(!part.inputs.empty(), part, "at least one tensor", "none");
  }
}

void check_splits(const Contribution& part, size_t world) {
  const auto check = [&](const at::Tensor& tensor, const std::vector<int64_t>& splits) {
    const int64_t rows = tensor.dim() == 0 ? -1 : tensor.size(0);
    const std::string shape = shape_text(tensor.scalar_type(), tensor.sizes());
    if (splits.empty()) {
      return require(rows >= 0 && rows % static_cast<int64_t>(world) == 0,
                     part,
                     concat("without split sizes, rows that divide by ", world, " ranks"),
                     shape);
    }
    int64_t sum = 0;
    bool sane = splits.size() == world;
    for (const int64_t split : splits) {
      sane = sane && split >= 0;
      sum += split;
    }
    require(sane && sum == rows,
            part,
            concat("one split size for each of ", world, " ranks, together the rows"),
            concat(splits.size(), " sizes, sum ", sum, ", for ", shape));
  };
  check(part.inputs[0], part.input_splits);
  check(part.outputs[0], part.output_splits);
}

void check_sizes(const Contribution& part, size_t world) {
  const auto whole_of_parts = [&](const at::Tensor& whole, const at::Tensor& piece) {
    require(whole.numel() == static_cast<int64_t>(world) * piece.numel(),
            part,
            concat("the whole has ", world, " times the elements of a part"),
            concat(shape_text(whole.scalar_type(), whole.sizes()),
                   " and ",
                   shape_text(piece.scalar_type(), piece.sizes())));
  };
  if (part.op == OpType::_ALLGATHER_BASE) whole_of_parts(part.outputs[0], part.inputs[0]);
  if (part.op == OpType::_REDUCE_SCATTER_BASE) whole_of_parts(part.inputs[0], part.outputs[0]);
  if (part.op == OpType::ALLTOALL_BASE) check_splits(part, world);
  if (part.op != OpType::REDUCE_SCATTER) return;
  for (const at::Tensor& input : part.inputs) {
    require(input.numel() == part.outputs[0].numel(),
            part,
            "every input has the elements of the output",
            concat(shape_text(input.scalar_type(), input.sizes()),
                   " and ",
                   shape_text(part.outputs[0].scalar_type(), part.outputs[0].sizes())));
  }
}

void check_tensors(const Contribution& part) {
  const at::Tensor* first = nullptr;
  for (const auto* list : {&part.inputs, &part.outputs}) {
    for (const at::Tensor& tensor : *list) {
      if (!is_movable(tensor)) check_tensor(part.describe(), tensor);
      if (first == nullptr) first = &tensor;
      require(part.op == OpType::ALLREDUCE_COALESCED || part.op == OpType::BROADCAST ||
                  part.op == OpType::ALLREDUCE || tensor.scalar_type() == first->scalar_type(),
              part,
              "tensors of one call have one dtype",
              concat(dtype_name(first->scalar_type()), " and ", dtype_name(tensor.scalar_type())));
    }
  }
}

void check_reduction(const Contribution& part) {
  for (const at::Tensor& tensor : part.inputs) {
    const auto dtype = tensor.scalar_type();
    const bool real_or_complex = c10::isFloatingType(dtype) || c10::isComplexType(dtype);
    const auto has = [&](bool holds, const char* rule) {
      require(holds, part, rule, dtype_name(dtype));
    };
    switch (part.reduce_op.op_) {
      case ReduceOp::SUM:
      case ReduceOp::PRODUCT:
        break;
      case ReduceOp::AVG:
        has(real_or_complex, "an average of floating-point numbers");
        break;
      case ReduceOp::MIN:
      case ReduceOp::MAX:
        has(!c10::isComplexType(dtype), "complex numbers have no order");
        break;
      case ReduceOp::BAND:
      case ReduceOp::BOR:
      case ReduceOp::BXOR:
        has(!real_or_complex, "bits of whole numbers or bools");
        break;
      default:
        has(false, "sum, avg, product, min, max, band, bor, bxor are known");
    }
  }
}

void accumulate(at::Tensor& into, const at::Tensor& theirs, ReduceOp::RedOpType op) {
  const at::Tensor value = theirs.to(into.device());  // itself, on the same device
  switch (op) {
    case ReduceOp::PRODUCT:
      into.mul_(value);
      break;
    case ReduceOp::MIN:
      at::minimum_out(into, into, value);
      break;
    case ReduceOp::MAX:
      at::maximum_out(into, into, value);
      break;
    case ReduceOp::BAND:
      into.bitwise_and_(value);
      break;
    case ReduceOp::BOR:
      into.bitwise_or_(value);
      break;
    case ReduceOp::BXOR:
      into.bitwise_xor_(value);
      break;
    default:  // SUM, AVG; check_contribution refuses others
      into.add_(value);
  }
}

}  // namespace

bool reduces(OpType op) {
  return op == OpType::ALLREDUCE || op == OpType::REDUCE || op == OpType::REDUCE_SCATTER ||
         op == OpType::_REDUCE_SCATTER_BASE || op == OpType::ALLREDUCE_COALESCED;
}

std::string reduce_name(ReduceOp::RedOpType op) {
  constexpr std::string_view kNames[] = {
      "sum", "avg", "product", "min", "max", "band", "bor", "bxor", "premul_sum"};
  return std::string(op < std::size(kNames) ? kNames[op] : "unknown reduction");
}

std::string shape_text(at::ScalarType dtype, at::IntArrayRef sizes) {
  std::vector<std::string> words;
  for (const int64_t size : sizes) words.push_back(std::to_string(size));
  return concat(dtype_name(dtype), "[", join(words, ", "), "]");
}

std::string Contribution::describe() const {
  std::string text = operation_name(op);
  if (reduces(op)) text += " " + reduce_name(reduce_op.op_);
  if (has_root(op)) text += concat(" root ", root);
  if (lists_differ(op)) return text;
  for (const at::Tensor& tensor : inputs) text += " " + tensor_words(tensor);
  return text;
}

OpSignature OpSignature::of(const Contribution& part, uint64_t sequence) {
  OpSignature sign;
  sign.sequence = sequence;
  sign.op = static_cast<uint8_t>(part.op);
  if (reduces(part.op)) sign.reduce_op = static_cast<uint8_t>(part.reduce_op.op_);
  if (has_root(part.op)) sign.root = part.root;
  const bool by_output = part.op == OpType::SCATTER;  // what every rank has
  const auto& list = by_output ? part.outputs : part.inputs;
  if (list.empty()) return sign;
  sign.dtype = static_cast<uint8_t>(list[0].scalar_type());
  if (lists_differ(part.op)) return sign;
  sign.tensors = static_cast<uint16_t>(list.size());
  sign.dims = static_cast<uint8_t>(list[0].dim());
  for (size_t i = 0; i < list.size(); ++i) {
    const auto sizes = list[i].sizes();
    if (i > 0) {
      sign.rest = mix(sign.rest, static_cast<uint64_t>(list[i].scalar_type()));
      sign.rest = mix(sign.rest, sizes.size());
    }
    for (size_t d = 0; d < sizes.size(); ++d) {
      if (i == 0 && d < kMaxDims) {
        sign.sizes[d] = sizes[d];
      } else {
        sign.rest = mix(sign.rest, static_cast<uint64_t>(sizes[d]));
      }
    }
  }
  return sign;
}

bool OpSignature::fits(const OpSignature& other) const {
  static_assert(std::has_unique_object_representations_v<OpSignature>);
  return std::memcmp(this, &other, sizeof *this) == 0;
}

std::string OpSignature::describe() const {
  const auto type = static_cast<OpType>(op);
  std::string text = operation_name(type);
  if (reduces(type)) text += " " + reduce_name(static_cast<ReduceOp::RedOpType>(reduce_op));
  if (has_root(type)) text += concat(" root ", root);
  const auto scalar = static_cast<at::ScalarType>(dtype);
  if (lists_differ(type)) text += concat(" ", dtype_name(scalar));
  if (tensors == 0) return text;
  const size_t shown = std::min<size_t>(dims, kMaxDims);
  text += " " + shape_text(scalar, at::IntArrayRef(sizes.data(), shown));
  if (dims > kMaxDims) text += concat(" of ", int(dims), " dimensions");
  if (tensors > 1) text += concat(" and ", tensors - 1, " more");
  if (tensors > 1 || dims > kMaxDims) text += concat(" (", std::hex, rest & 0xffff, ")");
  return text;
}

Rows rows_of(const at::Tensor& tensor,
             const std::vector<int64_t>& splits,
             size_t index,
             size_t world_size) {
  if (splits.empty()) {
    const int64_t each = tensor.size(0) / static_cast<int64_t>(world_size);
    return {each * static_cast<int64_t>(index), each};
  }
  return {std::accumulate(
              splits.begin(), splits.begin() + static_cast<std::ptrdiff_t>(index), int64_t{0}),
          splits[index]};
}

Error unequal_parts(int64_t from, int64_t gives, int64_t to, int64_t takes) {
  return usage_error(
      {.refused = "ranks disagree on a collective",
       .rule = "what a rank gives to another is what that one takes",
       .value = concat(
           "rank ", from, " gives ", gives, " bytes to rank ", to, ", which takes ", takes)});
}

void check_tensor(const std::string& call, const at::Tensor& tensor) {
  if (is_movable(tensor)) return;
  const auto refuse_tensor = [&](const char* rule, const std::string& what, const char* hint) {
    throw usage_error(
        {.refused = call, .rule = rule, .value = concat(tensor_words(tensor), what), .hint = hint});
  };
  if (!tensor.defined()) refuse_tensor("tensors are defined", " tensor", "");
  if (tensor.is_nested()) refuse_tensor("tensors are dense", "", "call it for each part");
  if (tensor.layout() != at::kStrided)
    refuse_tensor("tensors are dense",
                  concat(" of layout ", tensor.layout()),
                  "to_dense(); sparse COO tensors can be summed by an all-reduce");
  if (tensor.is_meta())
    refuse_tensor("tensors hold values", " on the meta device", "empty_like(…, at::kCPU)");
  refuse_tensor("tensors hold plain numbers", ", which is quantized", "dequantize() or int_repr()");
}

void check_message(
    const char* call, const std::vector<at::Tensor>& tensors, int peer, int tag, int world_size) {
  if (tensors.size() != 1)
    throw usage_error(
        {.refused = call, .rule = "one tensor per message", .value = count_text(tensors.size())});
  check_tensor(call, tensors[0]);
  if (peer < 0 || peer >= world_size)
    throw usage_error({.refused = call,
                       .rule = "the other side is a rank of the group",
                       .value = concat("rank ", peer, " of ", world_size)});
  if (tag < 0)
    throw usage_error(
        {.refused = call, .rule = "a tag is 0 or more", .value = concat("tag ", tag)});
}

void check_contribution(const Contribution& part, int rank, int world_size) {
  require(!has_root(part.op) || (part.root >= 0 && part.root < world_size),
          part,
          concat("the root is one of ", world_size, " ranks"),
          concat("root ", part.root));
  check_lists(part, rank, static_cast<size_t>(world_size));
  check_tensors(part);
  check_sizes(part, static_cast<size_t>(world_size));
  if (reduces(part.op)) check_reduction(part);
}

void reduce_in_order(at::Tensor& into,
                     const std::vector<at::Tensor>& values,
                     ReduceOp::RedOpType op) {
  if (!into.is_same(values[0])) into.copy_(values[0]);
  for (size_t rank = 1; rank < values.size(); ++rank) accumulate(into, values[rank], op);
  if (op == ReduceOp::AVG) into.div_(static_cast<int64_t>(values.size()));
}

}  // namespace muster::distributed
