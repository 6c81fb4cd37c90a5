// JSON's templates, compiled as in the library. Tests are not optimised, and of the copies of a template the
// linker takes the first: this object stands before theirs, or the library's own JSON would be theirs.
#include "muster/base/json.h"

template class nlohmann::basic_json<nlohmann::ordered_map>;
template class nlohmann::detail::serializer<muster::Json>;
