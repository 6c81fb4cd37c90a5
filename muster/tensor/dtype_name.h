// What dtypes are called wherever a user reads of them.
#pragma once

#include <c10/core/ScalarType.h>

namespace muster::tensor {

/// "float32", as PyTorch's dtypes and as users write them; c10's own name for those that have none.
/// Lives as long as the program.
const char* dtype_name(at::ScalarType type);

}  // namespace muster::tensor
