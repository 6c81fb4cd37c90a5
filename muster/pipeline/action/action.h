// What a rank of a pipeline does next.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace muster::pipeline {

// Note [Pipeline actions]
// A model is cut into stages, 0 … S-1, each on one rank (Placement); a batch into micro-batches, 0
// … M-1. A schedule is a list of actions for each rank, which the rank carries out one after the
// other:
//   F             forward: takes what stage-1 made of the micro-batch (stage 0: the micro-batch
//                 itself), keeps what backward needs; the last stage ends with the loss
//   B             backward: takes the gradient of the stage's output (last stage: of the loss),
//                 makes that of its input, adds to the gradients of the stage's parameters, and
//                 drops what forward kept
//   I, W          the two halves of B: the gradient of the input, which stage-1 waits for; and, any
//                 time later, those of the parameters. What W needs is kept until then
//   SEND_F stage  hands what F made to the rank of stage+1;   RECV_F stage takes it from the rank
//                 of stage-1
//   SEND_B stage  hands the gradient of the stage's input to the rank of stage-1;   RECV_B stage
//                 takes it from stage+1's
//   REDUCE_GRAD   the parameters' gradients of the stage are whole: average them over its replicas
//                 now
// Between two stages of one rank nothing is sent: what one made lies there for the other. Lists
// without SEND and RECV hold the computation alone; lower() adds the messages, and whoever moves
// data himself (threads of one process) may wait for the action that made it instead. The messages
// of one boundary in one direction are received in the order in which they are sent, so one tag for
// each (boundary, direction) serves. The names are those of torch.distributed.pipelining.

enum class ActionKind : uint8_t {
  kForward,
  kBackward,
  kBackwardInput,
  kBackwardWeight,
  kSendActivation,
  kReceiveActivation,
  kSendGradient,
  kReceiveGradient,
  kAverageGradients
};
inline constexpr int kActionKinds = 9;

/// "F", "B", "I", "W", "SEND_F", "RECV_F", "SEND_B", "RECV_B", "REDUCE_GRAD".
std::string_view code_of(ActionKind kind);

/// "forward", "backward", "backward of the input", …
std::string_view name_of(ActionKind kind);

constexpr bool is_compute(ActionKind kind) { return kind <= ActionKind::kBackwardWeight; }
constexpr bool is_send(ActionKind kind) {
  return kind == ActionKind::kSendActivation || kind == ActionKind::kSendGradient;
}
constexpr bool is_receive(ActionKind kind) {
  return kind == ActionKind::kReceiveActivation || kind == ActionKind::kReceiveGradient;
}
constexpr bool is_message(ActionKind kind) { return is_send(kind) || is_receive(kind); }

struct Action {
  ActionKind kind = ActionKind::kForward;
  int64_t stage = 0;
  int64_t micro_batch = 0;  ///< -1 for kAverageGradients, which is of all micro-batches

  bool operator==(const Action&) const = default;
};

/// As PyTorch writes it: "2F0" is stage 2's forward of micro-batch 0, "2REDUCE_GRAD" has none.
std::string to_text(const Action& action);

/// "forward of stage 2, micro-batch 0 (2F0)".
std::string describe(const Action& action);

/// The inverse of to_text. Throws a usage error.
Action parse_action(std::string_view text);

/// The other end of a message: 2SEND_F0 and 3RECV_F0, 2SEND_B0 and 1RECV_B0. Only for messages.
Action partner_of(const Action& message);

}  // namespace muster::pipeline
