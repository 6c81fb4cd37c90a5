// Environment variables that change what LibTorch and CUDA do.
#include <algorithm>
#include <string>

#include "muster/base/text.h"
#include "muster/diagnose/surroundings/check.h"

namespace muster::diagnose {
namespace {

struct VariableRule {
  std::string_view name;
  std::string_view only;  ///< this value; empty: any
  std::string_view hint;
};

constexpr VariableRule kVariableRules[] = {
    {"CUDA_LAUNCH_BLOCKING", "1", "every launch waits for the device: for looking for errors only"},
    {"PYTORCH_NO_CUDA_MEMORY_CACHING", "1", "every tensor asks the driver: for sanitizers only"},
    {"NCCL_P2P_DISABLE", "1", "devices exchange data through the host: slower"},
    {"NCCL_SHM_DISABLE", "1", "ranks of a host exchange data through sockets: slower"},
    {"NCCL_IB_DISABLE", "1", "machines exchange data through TCP: slower"},
    {"TORCH_DISTRIBUTED_DEBUG", "DETAIL", "collectives are checked by further ones: slower"},
    {"LD_PRELOAD", "", "a library comes before all others: is it meant?"}};

std::vector<CheckResult> run_variables(const Surroundings& surroundings) {
  std::vector<CheckResult> results;
  for (const VariableRule& rule : kVariableRules) {
    const auto value = surroundings.variable(rule.name);
    if (!value || value->empty() || (!rule.only.empty() && *value != rule.only)) continue;
    results.push_back({.name = "variables",
                       .verdict = Verdict::kWarn,
                       .value = concat(rule.name, '=', *value),
                       .rule = "not set in everyday runs",
                       .hint = std::string(rule.hint)});
  }
  for (const char* name : {"PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"}) {
    if (const auto value = surroundings.variable(name))
      results.push_back({.name = "variables",
                         .value = concat(name, '=', *value),
                         .rule = "expandable_segments:True where memory is in pieces"});
  }
  if (results.empty())
    results.push_back({.name = "variables",
                       .value = "none is set that makes LibTorch, CUDA or NCCL slow",
                       .rule = "those are for looking for errors"});
  return results;
}

}  // namespace

extern constinit const CheckEntry variables_entry{
    "variables", "environment variables that slow LibTorch, CUDA or NCCL down", &run_variables};

}  // namespace muster::diagnose
