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
  const NcclStamp ours, theirs = *stamp_of();
  if (theirs != ours)
    return {.why_not = concat(file,
                              " was built for another Muster or LibTorch: ",
                              stamp_text(theirs),
                              " there, ",
                              stamp_text(ours),
                              " here")};
  return {.make = make, .why_not = {}};
}

}  // namespace muster::distributed
