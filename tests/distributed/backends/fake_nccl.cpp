// Stands for libmuster_nccl.so: with the stamp that a test writes into it, and no backend.
#include "muster/distributed/nccl/module.h"

namespace {
muster::distributed::NcclStamp stamp{.nccl_headers = 22809};
}

extern "C" muster::distributed::NcclStamp* muster_nccl_stamp() { return &stamp; }
extern "C" c10d::Backend* muster_make_nccl(const muster::distributed::BackendRequest&) {
  return nullptr;
}
extern "C" int ncclGetVersion(int* code) {
  *code = 22803;  // of the same minor version
  return 0;
}
