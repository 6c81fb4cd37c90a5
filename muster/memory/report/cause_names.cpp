#include <array>

#include "muster/memory/report/cause.h"

namespace muster::memory {

std::string_view class_text(OomClass kind) {
  constexpr std::array<std::string_view, 12> kTexts{"unknown",
                                                    "a request that is too large",
                                                    "none: there was room",
                                                    "memory that waits for a stream",
                                                    "private pools of graphs",
                                                    "fragments",
                                                    "tensors that grow",
                                                    "a cap that is too low",
                                                    "a limit of the host",
                                                    "other processes",
                                                    "memory outside of tensors",
                                                    "live tensors"};
  return kTexts[static_cast<size_t>(kind)];
}

std::string_view class_name(OomClass kind) {
  constexpr std::array<std::string_view, 12> kNames{"unknown",
                                                    "too-large",
                                                    "spurious",
                                                    "stream",
                                                    "pools",
                                                    "fragments",
                                                    "growth",
                                                    "cap",
                                                    "host-limit",
                                                    "others",
                                                    "outside",
                                                    "live-tensors"};
  return kNames[static_cast<size_t>(kind)];
}

std::string_view action_name(OomAction action) {
  constexpr std::array<std::string_view, 14> kNames{"read-log",
                                                    "check-shape",
                                                    "retry",
                                                    "synchronize",
                                                    "free-pools",
                                                    "join-idle",
                                                    "find-leak",
                                                    "raise-cap",
                                                    "raise-limit",
                                                    "move-away",
                                                    "free-outside",
                                                    "smaller-batch",
                                                    "shard",
                                                    "release"};
  return kNames[static_cast<size_t>(action)];
}

std::string_view cap_text(CapKind kind) {
  constexpr std::array<std::string_view, 6> kTexts{"a cap",
                                                   "the device",
                                                   "this process's share of the device",
                                                   "the capacity that the program set",
                                                   "the control group's limit",
                                                   "the limit of addresses (ulimit -v)"};
  return kTexts[static_cast<size_t>(kind)];
}

}  // namespace muster::memory
