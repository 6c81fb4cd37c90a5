// How many threads ATen's operators use, for the calling thread alone.
#pragma once

namespace muster::tensor {

/// From here on operators that the calling thread calls use `count` threads (OpenMP's and MKL's);
/// other threads, also those started later, keep their number. at::set_num_threads sets it for all
/// threads that have not asked yet, and MKL's for all.
void set_own_intraop_threads(int count);

}  // namespace muster::tensor
