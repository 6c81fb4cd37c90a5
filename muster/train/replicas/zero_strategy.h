// What zero1, zero2 and fsdp share.
#pragma once

#include <memory>
#include <string>

#include "muster/parallel/sharded/zero.h"
#include "muster/train/replicas/sharded_optimizer.h"
#include "muster/train/replicas/strategy.h"

namespace muster::train::detail {

struct ZeroStrategyOptions {
  int64_t bucket_mb = 25;  ///< MiB of parameters and gradients that travel together
  std::string dtype = "float32";
};

inline constexpr Param kZeroParams[] = {
    param<&ZeroStrategyOptions::bucket_mb>("bucket_mb",
                                           "MiB of parameters and gradients that travel together"),
    param<&ZeroStrategyOptions::dtype>(
        "dtype", "of parameters and gradients; bfloat16 keeps float32 masters in shards")};

/// The options that `params` say. Throws a usage error that names `owner` for what does not fit the
/// plan.
ZeroStrategyOptions zero_options(const FitOptions& fit,
                                 const FitNumbers& numbers,
                                 const ParamValues& params,
                                 std::string_view owner);

/// Throws a usage error that names `owner` for a dtype or an optimizer that shards do not go with.
void check_shards(const FitOptions& fit,
                  const FitNumbers& numbers,
                  const std::string& dtype,
                  std::string_view owner);

/// A module in shards as `options` say, but for unused parameters, which the plan knows of.
std::unique_ptr<Strategy> make_sharded(parallel::ZeroOptions options,
                                       const std::string& dtype,
                                       StrategyRequest request);

/// A whole model on every rank; optimizer state, and in stage 2 gradients, in shards. See Note
/// [ZeRO].
std::unique_ptr<Strategy> make_zero(int stage,
                                    StrategyRequest request,
                                    const ParamValues& params,
                                    std::string_view owner);

}  // namespace muster::train::detail
