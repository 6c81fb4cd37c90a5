#include "muster/train/loop/alike_on_ranks.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "muster/base/digest.h"
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

// Ranks may see the folder under different paths, or have copies of it; plan and sums tell a
// checkpoint from that of another run at the same step. What the plan was told since (Note [Kept
// plan]) is compared as the options of this start.
Start start_of(const std::optional<Checkpoint>& resume) {
  if (!resume) return {"", "no checkpoint"};
  return {concat(resume->position.step,
                 ' ',
                 digest_of(json_text(without_told(resume->plan)) + json_text(resume->loop))),
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
                 plan.test_fingerprint.empty() ? "" : ", to test " + plan.test_fingerprint,
                 ")")};
}

std::string words_of_both(const std::string& first, const std::string& theirs, size_t rank) {
  return concat("rank 0 has ", first, ", rank ", rank, " has ", theirs);
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
          {"list", is_file ? digest_of(json_text(plan.carried)) : 0}};
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
  const auto add_word = [&](const std::string& name, const Json& value) {
    if (std::ranges::find(kMayDiffer, name) == std::end(kMayDiffer) && !numbers.contains(name))
      words[name] = value.is_string() ? value.get<std::string>() : json_text(value);
  };
  const Json own = to_json(plan.options, none);
  for (const auto& [name, value] : own.items()) add_word(name, value);
  for (const auto& [name, value] : plan.record.items()) {
    if (known.contains(name)) add_word(name, value);
    if (!value.is_object()) continue;
    for (const auto& [flag, said] : value.items())
      if (said.is_number() || said.is_boolean()) add_word(flag, said);
  }
  return words;
}

/// What each rank says of itself, in the order of ranks.
using Said = std::vector<Json>;

Said gather(const FitPlan& plan,
            const distributed::ProcessGroup& group,
            const std::optional<Checkpoint>& resume) {
  const Start start = start_of(resume), data = data_of(plan);
  const Json own = {{"start", start.key},
                    {"data", data.key},
                    {"words", concat(start.words, " and ", data.words)},
                    {"options", options_of(plan)},
                    {"held_out", held_out_of(plan)}};
  Said all;
  for (const std::string& text : group.all_gather_text(json_text(own)))
    all.push_back(parse_json(text, "what a rank says of its run"));
  return all;
}

/// The first rank that has another `key` than rank 0; 0 if none has.
size_t who_differs(const Said& all, const char* key) {
  const auto found = std::ranges::find_if(
      all, [&](const Json& theirs) { return theirs[key] != all.front()[key]; });
  return found == all.end() ? 0 : static_cast<size_t>(found - all.begin());
}

/// `key`: "start" or "data". The words are of both, whichever differs.
void check_same(const char* key, const Said& all, const FitPlan& plan, bool resumes) {
  const size_t rank = who_differs(all, key);
  if (rank == 0) return;
  throw usage_error(
      {.refused = resumes                            ? "--resume"
                  : plan.record.contains("data_dir") ? "--data"
                                                     : "the data of the ranks",
       .rule = "all ranks go on from one checkpoint and train on the same data",
       .value = words_of_both(
           all[0]["words"].get<std::string>(), all[rank]["words"].get<std::string>(), rank),
       .hint = "name an output folder that all machines see, and one copy of the data for each"});
}

/// What is held out, where that is why the data differ.
void check_same_split(const Said& all) {
  const size_t rank = who_differs(all, "data");
  if (rank == 0) return;
  if (auto text = held_out_otherwise(all[0]["held_out"], all[rank]["held_out"], rank))
    throw usage_error(std::move(*text));
}

/// Machines of one run may each have been told something else.
void check_same_options(const Said& all) {
  const auto first = all[0]["options"].get<Words>();
  for (size_t rank = 1; rank < all.size(); ++rank) {
    const auto theirs = all[rank]["options"].get<Words>();
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
  const std::vector<std::string> all = group.all_gather_text(asked);
  const auto other = std::ranges::find_if(all, [&](const auto& said) { return said != all[0]; });
  if (other == all.end()) return;
  throw usage_error(
      {.refused = "--trace",
       .rule = "all ranks make the trace together",
       .value = words_of_both(all[0], *other, static_cast<size_t>(other - all.begin())),
       .hint = "give every machine the same flags"});
}

void check_alike_on_ranks(const FitPlan& plan,
                          const distributed::ProcessGroup& group,
                          const std::optional<Checkpoint>& resume) {
  if (group.world_size() == 1) return;
  const Said all = gather(plan, group, resume);
  check_same("start", all, plan, resume.has_value());
  check_same_options(all);
  check_same_split(all);
  check_same("data", all, plan, resume.has_value());
}

}  // namespace muster::train
