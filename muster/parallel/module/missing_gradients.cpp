#include "muster/parallel/module/missing_gradients.h"

#include <cstdint>
#include <utility>

#include "muster/base/counted.h"
#include "muster/base/text.h"

namespace muster::parallel {

Error missing_gradients(int rank,
                        const std::vector<std::string>& names,
                        std::string_view when,
                        std::string hint) {
  return usage_error({.refused = concat("rank ",
                                        rank,
                                        ": ",
                                        counted(static_cast<int64_t>(names.size()), "parameter"),
                                        " got no gradient",
                                        when.empty() ? "" : " ",
                                        when,
                                        ": ",
                                        join(names, ", ")),
                      .rule = "backward reaches every parameter in every step",
                      .hint = std::move(hint)});
}

}  // namespace muster::parallel
