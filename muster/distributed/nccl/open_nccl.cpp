// The library's side of the seam.
#include <dlfcn.h>

#include "muster/base/text.h"
#include "muster/distributed/nccl/module.h"

namespace muster::distributed {
namespace {

std::string stamp_text(const NcclStamp& stamp) {
  return concat("LibTorch ",
                stamp.torch_major,
                '.',
                stamp.torch_minor,
                '.',
                stamp.torch_patch,
                ", seam ",
                stamp.seam,
                " of ",
                stamp.request_bytes,
                " bytes");
}

/// NCCL_VERSION_CODE of the NCCL that is loaded; 0: none that the module sees.
uint32_t loaded_nccl(void* module) {
  using GetVersion = int (*)(int*);
  void* found = ::dlsym(module, "ncclGetVersion");
  if (found == nullptr) found = ::dlsym(RTLD_DEFAULT, "ncclGetVersion");  // LibTorch's
  int code = 0;
  const bool answered = found != nullptr && reinterpret_cast<GetVersion>(found)(&code) == 0;
  return answered ? static_cast<uint32_t>(code) : 0;
}

/// "2.28" of 22809.
std::string minor_of(uint32_t code) { return concat(code / 10'000, '.', code / 100 % 100); }

}  // namespace

NcclLibrary open_nccl(const char* file) {
  void* handle = ::dlopen(file, RTLD_NOW);
  if (handle == nullptr)
    return {.why_not =
                concat("Muster was built without NCCL, or its module does not fit this LibTorch: ",
                       ::dlerror())};
  const auto stamp_of = reinterpret_cast<NcclStampOf>(::dlsym(handle, kNcclStamp));
  const auto make = reinterpret_cast<NcclFactory>(::dlsym(handle, kNcclFactory));
  if (stamp_of == nullptr || make == nullptr)
    return {.why_not = concat(file, " is no module of this Muster: it lacks ", kNcclStamp)};
  const NcclStamp theirs = *stamp_of();
  const NcclStamp ours{.nccl_headers = theirs.nccl_headers};  // compared with what is loaded, below
  if (theirs != ours)
    return {.why_not = concat(file,
                              " was built for another Muster or LibTorch: ",
                              stamp_text(theirs),
                              " there, ",
                              stamp_text(ours),
                              " here")};
  const uint32_t loaded = loaded_nccl(handle);
  if (theirs.nccl_headers != 0 && loaded != 0 && theirs.nccl_headers / 100 != loaded / 100)
    return {.why_not = concat(file,
                              " was built with the headers of NCCL ",
                              minor_of(theirs.nccl_headers),
                              ", and this LibTorch has NCCL ",
                              minor_of(loaded),
                              ": build Muster with that one's (MUSTER_NCCL_INCLUDE)")};
  return {.make = make, .why_not = {}};
}

}  // namespace muster::distributed
