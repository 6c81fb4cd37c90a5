// What a study is, as its storage keeps it; and in what two such descriptions differ.
#pragma once

#include <string>
#include <vector>

#include "muster/base/json_fwd.h"
#include "muster/tune/core/study_spec.h"
#include "muster/tune/objective/objective.h"

namespace muster::tune {

/// Several objectives and constraints as a description holds them: texts, under "objectives" and
/// "constraints"; no key for what there is not.
void describe_goals(const Goals& goals, Json& description);

/// The inverse. Throws a usage error for texts that are none.
Goals described_goals(const Json& description);

/// What ends a trial whatever the scheduler says: stop criteria, plateau, nan_is_failure.
void describe_rules(const StudySpec& spec, Json& description);

/// `now` as it is to be stored in place of `stored`: one of an older version goes without the keys
/// that this one has not, since nobody can tell what they were.
Json as_old_as(const Json& stored, Json now);

/// What a resumed study changed against its description (StudyCore::describe), one line each;
/// empty: nothing that matters (num_samples, max_concurrent, budgets and resources may change).
std::vector<std::string> describe_differences(const Json& stored, const Json& now);

}  // namespace muster::tune
