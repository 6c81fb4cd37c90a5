#include "muster/pipeline/action/action.h"

#include <algorithm>

#include "muster/base/error.h"
#include "muster/base/text.h"

namespace muster::pipeline {
namespace {

constexpr std::array<std::string_view, kActionKinds> kCodes = {
    "F", "B", "I", "W", "SEND_F", "RECV_F", "SEND_B", "RECV_B", "REDUCE_GRAD"};

constexpr std::array<std::string_view, kActionKinds> kNames = {"forward",
                                                               "backward",
                                                               "backward of the input",
                                                               "backward of the weights",
                                                               "sending of the activation",
                                                               "receiving of the activation",
                                                               "sending of the gradient",
                                                               "receiving of the gradient",
                                                               "averaging of the gradients"};

constexpr int64_t kLargest = 1'000'000;  // of a stage or micro-batch in a text

Error bad_action(std::string_view text) {
  return usage_error(
      {.refused = "an action of a pipeline cannot be read",
       .rule = "it is stage, kind and micro-batch, and the kinds are F, B, I, W, SEND_F, "
               "RECV_F, SEND_B, RECV_B and REDUCE_GRAD, which has no micro-batch",
       .value = std::string(text),
       .hint = "2F0 is stage 2's forward of micro-batch 0"});
}

/// Digits alone: no sign, no blank.
int64_t number(std::string_view digits, std::string_view text) {
  const auto value = to_int(digits);
  if (!value || digits.find_first_not_of("0123456789") != std::string_view::npos ||
      *value > kLargest)
    throw bad_action(text);
  return *value;
}

}  // namespace

std::string_view code_of(ActionKind kind) { return kCodes.at(static_cast<size_t>(kind)); }

std::string_view name_of(ActionKind kind) { return kNames.at(static_cast<size_t>(kind)); }

std::string to_text(const Action& action) {
  std::string out = std::to_string(action.stage);
  out += code_of(action.kind);
  if (action.kind != ActionKind::kAverageGradients) out += std::to_string(action.micro_batch);
  return out;
}

std::string describe(const Action& action) {
  std::string out = concat(name_of(action.kind), " of stage ", action.stage);
  if (action.kind != ActionKind::kAverageGradients)
    out += concat(", micro-batch ", action.micro_batch);
  return concat(out, " (", to_text(action), ")");
}

Action parse_action(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789";
  const size_t begin = std::min(text.find_first_not_of(kDigits), text.size());
  const size_t end = text.find_last_not_of(kDigits) + 1;  // 0 if there are digits alone
  if (begin >= end) throw bad_action(text);
  const auto code = std::ranges::find(kCodes, text.substr(begin, end - begin));
  if (code == kCodes.end()) throw bad_action(text);
  Action action{
      static_cast<ActionKind>(code - kCodes.begin()), number(text.substr(0, begin), text), -1};
  const std::string_view micro_batch = text.substr(end);
  if (action.kind == ActionKind::kAverageGradients && micro_batch.empty()) return action;
  if (action.kind == ActionKind::kAverageGradients) throw bad_action(text);
  action.micro_batch = number(micro_batch, text);
  return action;
}

Action partner_of(const Action& message) {
  switch (message.kind) {
    case ActionKind::kSendActivation:
      return {ActionKind::kReceiveActivation, message.stage + 1, message.micro_batch};
    case ActionKind::kReceiveActivation:
      return {ActionKind::kSendActivation, message.stage - 1, message.micro_batch};
    case ActionKind::kSendGradient:
      return {ActionKind::kReceiveGradient, message.stage - 1, message.micro_batch};
    case ActionKind::kReceiveGradient:
      return {ActionKind::kSendGradient, message.stage + 1, message.micro_batch};
    default:
      throw internal_error({.refused = concat(describe(message), " is no message")});
  }
}

}  // namespace muster::pipeline
