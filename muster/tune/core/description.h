// What a study is, as its storage keeps it; and in what two such descriptions differ.
#pragma once

#include <string>
#include <vector>

#include "muster/base/json_fwd.h"

namespace muster::tune {

/// What a resumed study changed against its description (StudyCore::describe), one line each;
/// empty: nothing that matters (num_samples, max_concurrent, budgets and resources may change).
std::vector<std::string> describe_differences(const Json& stored, const Json& now);

}  // namespace muster::tune
