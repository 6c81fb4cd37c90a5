// What the files of the backends' contract suite share: over which backends it runs, and what each
// cannot do.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/testing/run_ranks.h"

#include "tests/support/error_of.h"

namespace muster::test {

/// A backend and the ranks that it is tried with.
struct Over {
  std::string name;
  std::string backend;
  int world_size;
  std::vector<std::string> hosts;  // pretended
};

inline void PrintTo(const Over& over, std::ostream* out) { *out << over.name; }

inline std::vector<Over> over(const std::string& backend, const std::vector<int>& world_sizes) {
  std::vector<Over> cases;
  for (const int size : world_sizes)
    cases.push_back({backend + "_" + std::to_string(size) + "_ranks", backend, size, {}});
  return cases;
}

/// Hosts with one rank and with two, side by side and in turn.
inline std::vector<Over> over_hosts() {
  return {{"hosts_a_a_b", "shm+gloo", 3, {"a", "a", "b"}},
          {"hosts_a_b_a_b", "shm+gloo", 4, {"a", "b", "a", "b"}}};
}

inline std::vector<Over> joined(const std::vector<std::vector<Over>>& lists) {
  std::vector<Over> all;
  for (const auto& list : lists) all.insert(all.end(), list.begin(), list.end());
  return all;
}

inline std::vector<Over> over_all() {
  return joined({over("thread", {1, 2, 4}),
                 over("shm", {1, 2, 3, 4}),
                 over("gloo", {1, 2, 4}),
                 over_hosts()});
}

/// What not every backend does. The suite shows that the others do, and, where these refuse with
/// every LibTorch, that they refuse.
enum class Ability {
  kReduceBool,
  kReduceComplex,
  kReduceBfloat16,
  kAverage,
  kBitwise,
  kStrided,  // tensors with gaps
  kTensorList,
  kAllToAllOfLists,
  kAnySource,
  kFits,  // ranks that disagree are named with shapes
};

struct Inability {
  std::string backend;
  Ability what;
  std::string why;
};

/// The whole list.
inline const std::vector<Inability>& inabilities() {
  static const std::vector<Inability> list{
      {"gloo", Ability::kReduceBool, "adds bools as bytes"},
      {"gloo", Ability::kReduceComplex, "has no complex numbers"},
      {"gloo", Ability::kAverage, "not in LibTorch 2.11"},
      {"gloo", Ability::kStrided, "takes what lies in the gaps for elements, without an error"},
      {"gloo", Ability::kTensorList, "one tensor per call"},
      {"gloo", Ability::kAllToAllOfLists, "not in LibTorch 2.11"},
      {"gloo", Ability::kFits, "unequal sizes end in a broken connection"},
      {"shm+gloo", Ability::kAnySource, "a message may come through two backends"},
  };
  return list;
}

inline bool can(const Over& over, Ability what) {
  for (const Inability& entry : inabilities()) {
    if (entry.backend == over.backend && entry.what == what) return false;
  }
  return true;
}

class OverBackends : public ::testing::TestWithParam<Over> {
 protected:
  using ProcessGroup = distributed::ProcessGroup;

  void run(const std::function<void(ProcessGroup)>& rank_main,
           std::chrono::milliseconds timeout = std::chrono::seconds(20)) const {
    testing::run_ranks(
        GetParam().world_size,
        rank_main,
        {.timeout = timeout, .backend = GetParam().backend, .hosts = GetParam().hosts});
  }
  int world_size() const { return GetParam().world_size; }
  bool can(Ability what) const { return test::can(GetParam(), what); }
};

inline c10::intrusive_ptr<c10d::Backend> backend_of(const distributed::ProcessGroup& group) {
  return group.c10d()->getBackend(c10::DeviceType::CPU);
}

inline std::string name_of(const ::testing::TestParamInfo<Over>& info) { return info.param.name; }

}  // namespace muster::test
