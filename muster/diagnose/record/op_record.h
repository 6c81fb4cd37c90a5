// One operation of one rank as the flight recorder keeps it: fixed size, no tensor and no string is
// held.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace muster::diagnose {

/// The operations of c10d::Backend. The table in op_record.cpp has a row for each, in this order.
enum class OpKind : uint8_t {
  kBroadcast,
  kAllreduce,
  kAllreduceCoalesced,
  kAllreduceSparse,
  kReduce,
  kAllgather,
  kAllgatherBase,
  kAllgatherCoalesced,
  kAllgatherIntoTensorCoalesced,
  kGather,
  kScatter,
  kReduceScatter,
  kReduceScatterBase,
  kReduceScatterTensorCoalesced,
  kAlltoall,
  kAlltoallBase,
  kBarrier,
  kSend,
  kRecv,
  kRecvAny,
};
inline constexpr size_t kOpKinds = 20;

/// "all_reduce"; the names are those of torch.distributed's functions.
std::string_view op_name(OpKind kind);
/// By that name, or by that of c10d's method: "allreduce", "allgather_base".
std::optional<OpKind> op_kind(std::string_view name);
/// send, recv, recv_any: not all ranks take part, so they have no number that ranks share.
bool is_point_to_point(OpKind kind);

struct TensorMeta {
  static constexpr size_t kMaxDims = 5;
  const char* dtype = "";  ///< "float32"; a string that lives as long as the program
  uint8_t dims = 0;        ///< of the tensor; more than kMaxDims are shown as "…"
  int64_t elements = 0;
  std::array<int64_t, kMaxDims> sizes{};
};

/// "float32[3, 5]".
std::string tensor_text(const TensorMeta& tensor);

enum class OpState : uint8_t { kPosted, kCompleted, kFailed };

/// What ranks must agree on (fingerprint) and what people read (describe).
struct OpRecord {
  static constexpr size_t kMaxTensors = 3;
  uint64_t id = 0;        ///< counts every operation of this rank in this group from 0
  uint64_t sequence = 0;  ///< collectives: their number in the group, the same on all ranks
  OpKind kind = OpKind::kBarrier;
  OpState state = OpState::kPosted;
  bool stands = true;         ///< not: the backend that is being called may yet refuse it
  uint8_t reduce = 0;         ///< c10d::ReduceOp::RedOpType, where the operation reduces
  int16_t tensors_count = 0;  ///< inputs, of which the first kMaxTensors are in `tensors`
  int32_t root = -1;          ///< root of the collective, or the peer of send and recv
  int32_t tag = 0;
  int64_t step = -1;      ///< optimizer step, where the program tells it (mark_step)
  int64_t bytes = 0;      ///< of all inputs
  uint64_t contents = 0;  ///< hash of the dtypes and numbers of elements that ranks share
  std::array<TensorMeta, kMaxTensors> tensors{};
  // Monotonic clock, nanoseconds; 0: not yet.
  int64_t posted_ns = 0;
  int64_t waited_ns = 0;     ///< when a thread began to wait for it
  int64_t completed_ns = 0;  ///< or failed
};

/// Adds one input. Call in the order of the operation's list.
void add_tensor(OpRecord& record, const TensorMeta& tensor, int64_t element_bytes);

/// "all_reduce sum float32[1000]", "broadcast root 0 int64[4]", "send to 1 tag 7 float32[6]".
std::string describe(const OpRecord& record);

/// Equal on two ranks if and only if (but for a 64-bit collision) their calls fit each other: kind,
/// reduce operation, root, and dtypes and numbers of elements where all ranks must give the same.
/// (Shapes with the same number of elements fit; scatter, gather and all-to-all lists differ by
/// design, but in their dtype.)
uint64_t fingerprint(const OpRecord& record);

/// Mixes 64 bits well; source: the finaliser of splitmix64 (Steele, Lea, Flood 2014).
constexpr uint64_t mix64(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

}  // namespace muster::diagnose
