#include "muster/tensor/what_of.h"

#include <c10/util/Exception.h>

#include "muster/base/error.h"
#include "muster/base/text.h"

namespace muster::tensor {

std::string what_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const c10::Error& known) {
    return known.what_without_backtrace();
  } catch (const std::exception& known) {
    return known.what();
  } catch (...) {
    return "an exception of unknown type";
  }
}

void throw_behind(const std::string& where) {
  ErrorKind kind = ErrorKind::kEnvironment;
  ErrorText text;
  try {
    throw;
  } catch (const Error& ours) {
    kind = ours.kind();
    text = ours.text();
  } catch (...) {
    text.refused = what_of(std::current_exception());
  }
  text.refused = concat(where, ": ", text.refused);
  std::throw_with_nested(Error(kind, text));
}

}  // namespace muster::tensor
