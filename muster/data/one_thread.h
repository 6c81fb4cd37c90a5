// Threads that must leave the cores to others.
#pragma once

namespace muster::data {

/// From here on ATen's operators use one thread when the calling thread calls them; other threads
/// keep theirs.
void use_one_intraop_thread();

}  // namespace muster::data
