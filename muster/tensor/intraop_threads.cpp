#include "muster/tensor/intraop_threads.h"

#include <ATen/Parallel.h>
#include <dlfcn.h>

namespace muster::tensor {
namespace {

template <class Function>
Function* loaded(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_DEFAULT, name));
}

}  // namespace

// Both are looked up in what LibTorch brought along; linking an OpenMP ourselves could load a
// second runtime. A LibTorch without OpenMP has neither, and its operators use one pool for all
// threads.
void set_own_intraop_threads(int count) {
  at::get_num_threads();  // ATen overwrites the setting when a thread asks for the first time; let
                          // that be now
  static const auto openmp = loaded<void(int)>("omp_set_num_threads");
  static const auto mkl = loaded<int(int)>("MKL_Set_Num_Threads_Local");
  if (openmp != nullptr) openmp(count);
  if (mkl != nullptr) mkl(count);
}

}  // namespace muster::tensor
