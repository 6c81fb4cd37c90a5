// All that a launcher tells a rank by way of its environment.
#pragma once

#include <string>
#include <vector>

namespace muster {

/// The names: of its place in the job (rank_env.h), and of what torchrun and `muster run` give it
/// besides. A process that a rank starts, and that is no rank of the job, is to have none of them.
std::vector<std::string> rank_variables();

}  // namespace muster
