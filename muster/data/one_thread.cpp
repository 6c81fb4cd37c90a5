#include "muster/data/one_thread.h"

#include <ATen/Parallel.h>
#include <dlfcn.h>

namespace muster::data {

// at::set_num_threads(1) would do it, but it also stores the 1 as the default of every thread that
// asks later (seen in 2.15: threads started afterwards get one thread). OpenMP's own setting is per
// thread. It is looked up in the runtime that LibTorch brought along; linking one ourselves could
// load a second runtime.
void use_one_intraop_thread() {
  at::get_num_threads();  // ATen overwrites the setting when a thread asks for the first time; let
                          // that be now
  using SetThreads = void (*)(int);
  static const auto set_threads =
      reinterpret_cast<SetThreads>(::dlsym(RTLD_DEFAULT, "omp_set_num_threads"));
  if (set_threads != nullptr) set_threads(1);
}

}  // namespace muster::data
