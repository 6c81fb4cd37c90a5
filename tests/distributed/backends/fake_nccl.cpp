// Stands for libmuster_nccl.so: with the stamp that a test writes into it, and no backend.
#include "muster/distributed/nccl/module.h"

namespace {
muster::distributed::NcclStamp stamp;
}

extern "C" muster::distributed::NcclStamp* muster_nccl_stamp() { return &stamp; }
extern "C" c10d::Backend* muster_make_nccl(const muster::distributed::BackendRequest&) {
  return nullptr;
}
