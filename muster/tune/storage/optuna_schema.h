// What Optuna's database looks like. Only for the sources of this room.
// Source: optuna 5.0.0, storages/_rdb/models.py and distributions.py; tests/golden/tune_storage has
// what it writes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "muster/tune/space/domain.h"
#include "muster/tune/storage/sqlite.h"
#include "muster/tune/trial/trial.h"

namespace muster::tune {

inline constexpr int64_t kOptunaSchema = 12;
inline constexpr std::string_view kOptunaRevision = "v3.2.0.a";
inline constexpr size_t kMostStudyName = 512;  ///< bytes
/// System attribute of a trial that is a failed one of ours once more: its number.
inline constexpr std::string_view kAgainAttribute = "muster:again";
/// And {"began":…,"point":[…]}: when that one's study began, so that a copy of the attributes in another
/// study is known for one; and its point, null for NaN, so that who runs it need not read the log.
inline constexpr std::string_view kFailedAttribute = "muster:failed";
/// Of one that `muster study add` put in: true.
inline constexpr std::string_view kAddedAttribute = "muster:added";

/// Makes Optuna's tables in an empty database, and ours (Note [Storage]) where they are not there,
/// in one transaction, and has the file keep a write-ahead log. Throws a usage error for a database
/// of something else or of another schema, which is left as it is.
void make_schema(Database& database);

/// Makes the tables of outlines and of calls (Notes [Outlines], [Calls beside the log]), which files of
/// earlier versions have not. Within the caller's transaction.
void make_outlines(Database& database);

/// Throws a usage error unless the database is one of Optuna's with its present schema.
void check_schema(Database& database);

/// Whether our own tables are there too.
bool has_own_tables(Database& database);

/// The distribution as Optuna's distribution_to_json writes it. Optuna has no normal distribution:
/// that is its range of ten standard deviations; nor a logarithm with a step: that is without the
/// step.
std::string distribution_json(const Distribution& distribution);

/// The value that Optuna's number stands for. Throws a usage error for a distribution that Optuna
/// would not write.
Value value_from_optuna(double internal, std::string_view distribution_json);

/// Numbers of this distribution are drawn by their logarithms.
bool is_logarithmic(std::string_view distribution_json);

/// The distribution of a text as distribution_json writes it, both ends included; also of those of
/// Optuna's earlier versions. Throws as value_from_optuna, and for whole numbers beyond 2^53 of which
/// the table's doubles say little; `whose` names the parameter.
Distribution distribution_from_optuna(std::string_view distribution_json,
                                      std::string_view whose = "a parameter");

/// A state by its word in Optuna's tables, a usage error for another word.
TrialState state_of(std::string_view optuna_word);

/// "FINITE", "INF_POS", "INF_NEG", "NAN"; what is not finite is stored without its number.
std::string_view value_type(double value);
double from_value_type(std::string_view type, double value);

}  // namespace muster::tune
