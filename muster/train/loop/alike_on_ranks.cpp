#include "muster/train/loop/alike_on_ranks.h"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/json.h"
#include "muster/base/text.h"

namespace muster::train {
namespace {

using Words = std::map<std::string, std::string>;

/// What a rank has, for comparison and for people.
struct Start {
  std::string key, words;
};

// Ranks may see the folder under different paths; plan and sums tell a checkpoint from that of
// another run at the same step.
Start start_of(const std::optional<Checkpoint>& resume) {
  if (!resume) return {"", "no checkpoint"};
  const size_t digest = std::hash<std::string>{}(json_text(resume->plan) + json_text(resume->loop));
  return {concat(resume->position.step, ' ', digest),
          concat("step ",
                 resume->position.step,
                 resume->folder.empty() ? "" : " of " + resume->folder.string())};
}

Start data_of(const FitPlan& plan) {
  return {concat(plan.train_samples,
                 ' ',
                 plan.train_fingerprint,
                 ' ',
                 plan.validation_fingerprint,
                 ' ',
                 plan.test_fingerprint),
          concat(plan.train_samples,
                 " samples (fingerprint ",
                 plan.train_fingerprint,
                 ", to test ",
                 plan.test_fingerprint,
                 ")")};
}

/// A rank whose key is not rank 0's, with the words of both.
struct Difference {
  size_t rank;
  std::string first_words, words;
};

/// Collective; of several the first.
std::optional<Difference> difference(const Start& own, const distributed::ProcessGroup& group) {
  const std::vector<std::string> all = group.all_gather_text(concat(own.key, '\n', own.words));
  const auto key_of = [](const std::string& text) { return text.substr(0, text.find('\n')); };
  const auto words_of = [](const std::string& text) { return text.substr(text.find('\n') + 1); };
  for (size_t rank = 1; rank < all.size(); ++rank) {
    if (key_of(all[rank]) != key_of(all[0]))
      return Difference{rank, words_of(all[0]), words_of(all[rank])};
  }
  return std::nullopt;
}

std::string words_of_both(const Difference& found) {
  return concat("rank 0 has ", found.first_words, ", rank ", found.rank, " has ", found.words);
}

/// `key` is what is compared; the words are of checkpoint and data, whichever differs.
void check_same_start(const std::string& key,
                      const FitPlan& plan,
                      const distributed::ProcessGroup& group,
                      const std::optional<Checkpoint>& resume) {
  const std::string words = concat(start_of(resume).words, " and ", data_of(plan).words);
  const std::optional<Difference> found = difference({key, words}, group);
  if (!found) return;
  throw usage_error(
      {.refused = resume                             ? "--resume"
                  : plan.record.contains("data_dir") ? "--data"
                                                     : "the data of the ranks",
       .rule = "all ranks go on from one checkpoint and train on the same data",
       .value = words_of_both(*found),
       .hint = "name an output folder that all machines see, and one copy of the data for each"});
}

/// What is held out of the same data, and how it is chosen. Null for a program that holds out nothing.
Json held_out_of(const FitPlan& plan) {
  constexpr std::string_view kFile = "file:";
  if (!plan.record.contains("validation_split")) return nullptr;
  const auto said = plan.record["validation_split"].get<std::string>();
  const bool is_file = said.starts_with(kFile);  // its path may differ, what it lists may not
  return {{"all", concat(plan.train_samples + plan.validation_samples, ' ', plan.test_fingerprint)},
          {"samples", plan.validation_samples},
          {"split", is_file ? std::string(kFile) : said},
          {"list", is_file ? std::hash<std::string>{}(json_text(plan.carried)) : 0}};
}

/// The flag that explains why the data that two ranks train on differ, with the words of both, where
/// those that they have are the same as far as can be told.
std::optional<ErrorText> held_out_otherwise(const Json& first, const Json& theirs, size_t rank) {
  if (!first.is_object() || !theirs.is_object() || first["all"] != theirs["all"])
    return std::nullopt;
  const auto both = [&](const char* key, const char* behind) {
    const auto word = [&](const Json& own) {
      return own[key].is_string() ? own[key].get<std::string>() : json_text(own[key]);
    };
    return concat(word(first), behind, " on rank 0, ", word(theirs), behind, " on rank ", rank);
  };
  ErrorText text{.rule = "all ranks hold out the same samples",
                 .hint = "give every machine the same flags"};
  if (first["samples"] != theirs["samples"]) {
    text.refused = "--validation-samples";
    text.value = both("samples", "");
  } else if (first["split"] != theirs["split"]) {
    text.refused = "--validation-split";
    text.value = both("split", "");
  } else if (first["list"] != theirs["list"]) {
    text.refused = "--validation-split file:FILE";
    text.value = concat("rank ", rank, " has another list than rank 0");
    text.hint = "give every machine the same file";
  } else {
    return std::nullopt;
  }
  return text;
}

/// The data, and what is held out of them.
void check_same_split(const FitPlan& plan, const distributed::ProcessGroup& group) {
  const Json own = {{"key", data_of(plan).key}, {"held_out", held_out_of(plan)}};
  const std::vector<std::string> all = group.all_gather_text(json_text(own));
  const auto said_by = [&](size_t rank) {
    return parse_json(all[rank], "what a rank says of its data");
  };
  const Json first = said_by(0);
  for (size_t rank = 1; rank < all.size(); ++rank) {
    const Json theirs = said_by(rank);
    if (theirs["key"] == first["key"]) continue;
    if (auto text = held_out_otherwise(first["held_out"], theirs["held_out"], rank))
      throw usage_error(std::move(*text));
    return;  // the data themselves
  }
}

/// Options that may differ: how a machine computes; where its data and weights are, of which the data
/// are compared and the weights are rank 0's; how many samples are held out, if the data say it.
constexpr std::string_view kMayDiffer[] = {"device",
                                           "devices",
                                           "backend",
                                           "workers",
                                           "data",
                                           "data_dir",
                                           "weights",
                                           "validation_split",
                                           "validation_samples"};

/// By name what must be alike: options of a fit, of the program's more if it recorded them, and the
/// numbers and switches among the flags of its own, whose texts may be paths.
Words options_of(const FitPlan& plan) {
  const FitNumbers none;
  const Json numbers = to_json(none), known = to_json(TrainOptions(), none);
  Words words;
  const auto take = [&](const std::string& name, const Json& value) {
    if (std::ranges::find(kMayDiffer, name) == std::end(kMayDiffer) && !numbers.contains(name))
      words[name] = value.is_string() ? value.get<std::string>() : json_text(value);
  };
  const Json own = to_json(plan.options, none);
  for (const auto& [name, value] : own.items()) take(name, value);
  for (const auto& [name, value] : plan.record.items()) {
    if (known.contains(name)) take(name, value);
    if (!value.is_object()) continue;
    for (const auto& [flag, said] : value.items())
      if (said.is_number() || said.is_boolean()) take(flag, said);
  }
  return words;
}

/// Machines of one run may each have been told something else.
void check_same_options(const FitPlan& plan, const distributed::ProcessGroup& group) {
  const std::vector<std::string> all = group.all_gather_text(json_text(Json(options_of(plan))));
  const auto words_of = [&](size_t rank) {
    return parse_json(all[rank], "what a rank says of its options").get<Words>();
  };
  const Words first = words_of(0);
  for (size_t rank = 1; rank < all.size(); ++rank) {
    const Words theirs = words_of(rank);
    std::vector<std::string> differences;
    for (const auto& [name, word] : first) {
      const auto found = theirs.find(name);  // rank 0 alone may have recorded more
      if (found == theirs.end() || found->second == word) continue;
      differences.push_back(
          concat(name, ' ', word, " on rank 0, ", found->second, " on rank ", rank));
    }
    if (differences.empty()) continue;
    throw usage_error({.refused = "the ranks' options",
                       .rule = "all ranks train alike",
                       .value = join(differences, "; "),
                       .hint = "give every machine the same flags"});
  }
}

}  // namespace

void check_same_trace(const TraceOptions& trace, const distributed::ProcessGroup& group) {
  const std::string asked =
      trace.file.empty() ? "none" : concat("--trace, --trace-steps ", trace.steps);
  const std::optional<Difference> found = difference({asked, asked}, group);
  if (!found) return;
  throw usage_error({.refused = "--trace",
                     .rule = "all ranks make the trace together",
                     .value = words_of_both(*found),
                     .hint = "give every machine the same flags"});
}

void check_alike_on_ranks(const FitPlan& plan,
                          const distributed::ProcessGroup& group,
                          const std::optional<Checkpoint>& resume) {
  if (group.world_size() == 1) return;
  check_same_start(start_of(resume).key, plan, group, resume);
  check_same_options(plan, group);
  check_same_split(plan, group);
  check_same_start(data_of(plan).key, plan, group, resume);
}

}  // namespace muster::train
