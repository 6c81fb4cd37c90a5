#include "muster/tune/machine/resources.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "muster/base/error.h"
#include "muster/base/text.h"

namespace muster::tune {
namespace {

constexpr int64_t kWhole = 1000;  // thousandths
constexpr double kMost = 1e9;     // of anything; keeps the counts far from their ends

int64_t thousandths(double amount) { return std::llround(amount * kWhole); }

std::string amount_text(int64_t amount) { return shortest(static_cast<double>(amount) / kWhole); }

Error refused(const std::string& what, const std::string& rule) {
  return usage_error({.refused = concat("resources_per_trial: ", what), .rule = rule});
}

/// An amount that is asked for, against what is there.
int64_t checked(const std::string& name, double amount, double there) {
  if (!(amount >= 0) || amount > kMost)
    throw refused(concat(name, ' ', shortest(amount)),
                  concat("an amount is from 0 to ", shortest(kMost)));
  if (amount > 0 && thousandths(amount) == 0)
    throw refused(concat(name, ' ', shortest(amount)), "amounts are counted in thousandths");
  if (thousandths(amount) > thousandths(there))
    throw refused(concat(name, ' ', shortest(amount)), "this machine has " + shortest(there));
  return thousandths(amount);
}

/// "needs 1 gpu, 0 free of 1".
std::string lack(const std::string& needed,
                 const std::string& unit,
                 const std::string& free,
                 const std::string& there) {
  return concat("needs ", needed, unit, ", ", free, " free of ", there);
}

}  // namespace

ResourcePool::ResourcePool(Machine machine, Resources per_trial)
    : machine_(std::move(machine)),
      per_trial_(std::move(per_trial)),
      gpu_used_(machine_.gpus.size()) {
  checked("cpu", per_trial_.cpu, machine_.cpu);
  const double gpu = per_trial_.gpu;
  if (gpu > 1 && gpu != std::floor(gpu)) {
    throw refused("gpu " + shortest(gpu),
                  "a share of one device is below 1, and several devices are whole ones");
  }
  checked("gpu", gpu, static_cast<double>(machine_.gpus.size()));
  if (per_trial_.memory_bytes > machine_.memory_bytes) {
    throw refused("memory " + human_bytes(per_trial_.memory_bytes),
                  "this machine has " + human_bytes(machine_.memory_bytes));
  }
  for (const auto& [name, amount] : per_trial_.custom) {
    const auto there = machine_.custom.find(name);
    checked(name, amount, there == machine_.custom.end() ? 0 : there->second);
    custom_used_[name] = 0;
  }
}

std::optional<ResourcePool::Share> ResourcePool::try_acquire() {
  Share share;
  if (!why_not().empty()) return std::nullopt;
  int64_t left = thousandths(per_trial_.gpu);
  const int64_t of_each = std::min(left, kWhole);
  for (size_t i = 0; i < gpu_used_.size() && left > 0; ++i) {
    if (gpu_used_[i] + of_each > kWhole) continue;
    gpu_used_[i] += of_each;
    left -= of_each;
    share.gpus.push_back(i);
  }
  cpu_used_ += thousandths(per_trial_.cpu);
  memory_used_ += static_cast<int64_t>(per_trial_.memory_bytes);
  for (const auto& [name, amount] : per_trial_.custom) custom_used_[name] += thousandths(amount);
  return share;
}

void ResourcePool::give_back(const Share& share) {
  const int64_t of_each = std::min(thousandths(per_trial_.gpu), kWhole);
  for (const size_t gpu : share.gpus) gpu_used_.at(gpu) -= of_each;
  cpu_used_ -= thousandths(per_trial_.cpu);
  memory_used_ -= static_cast<int64_t>(per_trial_.memory_bytes);
  for (const auto& [name, amount] : per_trial_.custom) custom_used_[name] -= thousandths(amount);
}

std::string ResourcePool::why_not() const {
  const int64_t cpu = thousandths(machine_.cpu), gpu = thousandths(per_trial_.gpu);
  if (cpu_used_ + thousandths(per_trial_.cpu) > cpu)
    return lack(
        shortest(per_trial_.cpu), " cpu", amount_text(cpu - cpu_used_), shortest(machine_.cpu));
  const int64_t of_each = std::min(gpu, kWhole);
  const auto fits =
      std::ranges::count_if(gpu_used_, [&](int64_t used) { return used + of_each <= kWhole; });
  if (gpu >= kWhole && fits * kWhole < gpu)
    return lack(
        shortest(per_trial_.gpu), " gpu", std::to_string(fits), std::to_string(gpu_used_.size()));
  if (gpu > 0 && gpu < kWhole && fits == 0) {
    const int64_t least = *std::ranges::min_element(gpu_used_);
    return concat("needs ",
                  shortest(per_trial_.gpu),
                  " gpu, at most ",
                  amount_text(kWhole - least),
                  " free on one of ",
                  gpu_used_.size());
  }
  const auto memory = static_cast<int64_t>(machine_.memory_bytes);
  if (memory_used_ + static_cast<int64_t>(per_trial_.memory_bytes) > memory) {
    return lack(human_bytes(per_trial_.memory_bytes),
                " memory",
                human_bytes(static_cast<uint64_t>(memory - memory_used_)),
                human_bytes(machine_.memory_bytes));
  }
  for (const auto& [name, amount] : per_trial_.custom) {
    const int64_t there = amount == 0 ? 0 : thousandths(machine_.custom.at(name));
    const int64_t used = custom_used_.at(name);
    if (used + thousandths(amount) > there)
      return lack(shortest(amount), ' ' + name, amount_text(there - used), amount_text(there));
  }
  return "";
}

std::string ResourcePool::used() const {
  std::vector<std::string> parts;
  if (per_trial_.cpu > 0)
    parts.push_back(concat("cpu ", amount_text(cpu_used_), '/', shortest(machine_.cpu)));
  if (per_trial_.gpu > 0) {
    const int64_t used = std::accumulate(gpu_used_.begin(), gpu_used_.end(), int64_t{0});
    parts.push_back(concat("gpu ", amount_text(used), '/', gpu_used_.size()));
  }
  if (per_trial_.memory_bytes > 0) {
    parts.push_back(concat("memory ",
                           human_bytes(static_cast<uint64_t>(memory_used_)),
                           '/',
                           human_bytes(machine_.memory_bytes)));
  }
  for (const auto& [name, amount] : per_trial_.custom) {
    if (amount > 0)
      parts.push_back(concat(
          name, ' ', amount_text(custom_used_.at(name)), '/', shortest(machine_.custom.at(name))));
  }
  return join(parts, ", ");
}

}  // namespace muster::tune
