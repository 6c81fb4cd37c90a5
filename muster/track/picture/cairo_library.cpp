#include "muster/track/picture/cairo_library.h"

#include <string>

#include <dlfcn.h>

#include "muster/base/error.h"
#include "muster/base/text.h"

namespace muster::track {
namespace {

constexpr const char* kCairoName = "libcairo.so.2";

Error no_cairo() {
  const char* why = ::dlerror();
  return environment_error({.refused = "a picture as PNG",
                            .rule = concat("it takes the library cairo: ", why ? why : kCairoName),
                            .hint = "apt-get install libcairo2, or ask for .svg or .html"});
}

CairoLibrary open_cairo() {
  void* handle = ::dlopen(kCairoName, RTLD_NOW | RTLD_LOCAL);  // for good
  if (handle == nullptr) throw no_cairo();
  CairoLibrary library;
  const auto find = [&](const char* name, auto& function) {
    void* symbol = ::dlsym(handle, name);
    if (symbol == nullptr) throw no_cairo();
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(symbol);
  };
#define MUSTER_CAIRO_FIND(name) find("cairo_" #name, library.name);
  MUSTER_CAIRO_FUNCTIONS(MUSTER_CAIRO_FIND)
#undef MUSTER_CAIRO_FIND
  return library;
}

}  // namespace

const CairoLibrary& cairo_library() {
  static const CairoLibrary library = open_cairo();
  return library;
}

}  // namespace muster::track

#if defined(__clang__)
#if __has_feature(address_sanitizer)
// Cairo keeps patterns of fontconfig until the process ends, in places where LeakSanitizer does not look.
extern "C" const char* __lsan_default_suppressions();  // NOLINT: its name
extern "C" const char* __lsan_default_suppressions() { return "leak:libfontconfig"; }  // NOLINT
#endif
#endif
