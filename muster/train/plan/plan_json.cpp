// A plan as JSON, and back as the options of a resumed run.
#include <algorithm>
#include <iterator>
#include <string_view>

#include "muster/base/error.h"
#include "muster/base/json.h"
#include "muster/base/text.h"
#include "muster/formats/dataset_spec.h"
#include "muster/formats/index_list.h"
#include "muster/train/plan/fit_plan.h"
#include "muster/train/plan/option_infos.h"

namespace muster::train {
namespace {

constexpr const char* kHeldOut = "held_out";

/// One text for a place however it is written; "" for none.
std::string one_place(const std::filesystem::path& path) {
  if (path.empty()) return "";
  return std::filesystem::absolute(path).lexically_normal().string();
}

/// An option without a value (lr of a plan that is not resolved yet) is null.
template <class Value>
Json json_of(const Value& value) {
  if constexpr (std::is_same_v<Value, std::filesystem::path>) {
    return one_place(value);
  } else if constexpr (std::is_same_v<Value, LearningRate>) {
    if (!value.search.empty()) return value.search;
    return value.value ? Json(*value.value) : Json();
  } else if constexpr (std::is_same_v<Value, BatchSize>) {
    return value.value ? Json(*value.value) : Json(value.search);
  } else {
    return value;
  }
}

std::string shown(const std::filesystem::path& path) {
  return path.empty() ? "none" : path.string();
}

template <class Options>
Json options_json(const Options& options) {
  Json json;
  visit_options(options, [&](const OptionInfo& info, const auto& value) {
    const std::string name(info.name);
    json[name] = json_of(value);
  });
  if (!options.lr.found_by.empty()) json[kFoundBy] = options.lr.found_by;
  if (!options.batch_size.found_by.empty()) json[kBatchFoundBy] = options.batch_size.found_by;
  return json;
}

std::string shown(const auto& value) {
  if constexpr (std::is_same_v<std::remove_cvref_t<decltype(value)>, bool>)
    return value ? "on" : "off";
  const std::string text = concat(value);
  return text.empty() ? "none" : text;
}

constexpr std::string_view kData = "data";

constexpr std::string_view kRateOption = "lr";
constexpr std::string_view kHookOption = "comm_hook";

/// Whether the run's data are named anew, and by other places alone.
bool is_moved(std::string_view option, const std::string& before, const std::string& now) {
  return option == kData && formats::differ_in_places_alone(before, now);
}

/// Where the run found its data, where a path is said anew and no folder.
void forget_old_place(const Json& plan,
                      const std::vector<std::string>& said,
                      TrainOptions& options) {
  const auto is_said = [&](std::string_view name) {
    return std::find(said.begin(), said.end(), name) != said.end();
  };
  if (!is_said(kData) || is_said("data_dir") || !plan.contains(kData)) return;
  const auto path_in = [](const std::string& data) {
    return formats::parse_dataset_spec(data).params["path"];
  };
  const std::string now = path_in(options.data);
  if (!now.empty() && now != path_in(plan.at(kData).get<std::string>())) options.data_dir.clear();
}

/// Whether the word leaves to the run what it is: the run has settled that.
bool is_open(std::string_view option, const auto& value) {
  using Value = std::remove_cvref_t<decltype(value)>;
  if constexpr (std::is_same_v<Value, std::string>) return value == "auto";
  if constexpr (std::is_same_v<Value, int64_t>)
    return option == "validation_samples" && value == TrainOptions().validation_samples;
  return false;
}

template <class Options>
void take_options(const Json& plan, const std::vector<std::string>& said, Options& options) {
  std::vector<std::string> differences;
  bool is_data_other = false;
  Json defaults;
  const Options none_said;
  visit_options(none_said, [&](const OptionInfo& info, const auto& value) {
    defaults[std::string(info.name)] = json_of(value);
  });
  visit_options(options, [&](const OptionInfo& info, auto& value) {
    using Value = std::remove_reference_t<decltype(value)>;
    const std::string name(info.name);
    if (is_of_one_place(name)) return;
    const bool is_said = std::find(said.begin(), said.end(), name) != said.end();
    bool is_free = info.on_resume == OnResume::kFree;
    if constexpr (std::is_same_v<Value, LearningRate>) is_free = value.search.empty();
    if (is_said && is_free) return;
    if (!plan.contains(name)) {  // newer than the checkpoint, which was made with its default
      if (is_said && defaults[name] != json_of(value))
        differences.push_back(
            concat(name, " was ", json_text(defaults[name]), ", now ", json_text(json_of(value))));
      return;
    }
    Value before = value;
    if constexpr (std::is_same_v<Value, std::filesystem::path>) {
      before = plan.at(name).get<std::string>();
      if (is_said && one_place(value) != one_place(before))
        differences.push_back(concat(name, " was ", shown(before), ", now ", shown(value)));
    } else if constexpr (std::is_same_v<Value, LearningRate>) {
      before = kept_rate(plan, is_said ? value.search : "");
    } else if constexpr (std::is_same_v<Value, BatchSize>) {
      before = plan.at(name).get<int64_t>();
      before.found_by = plan.value(kBatchFoundBy, "");
      // A run that searched for it keeps what it found.
      const bool is_same = value.value ? *value.value == *before.value : !before.found_by.empty();
      if (is_said && !is_same)
        differences.push_back(concat(name, " was ", before, ", now ", value));
    } else {
      before = plan.at(name).get<Value>();
      if constexpr (std::is_same_v<Value, std::string>) {
        if (is_said && is_moved(name, before, value)) return;
      }
      if (is_said && value != before && !is_open(name, value)) {
        differences.push_back(concat(name, " was ", shown(before), ", now ", shown(value)));
        is_data_other |= name == kData;
      }
    }
    value = before;
  });
  if (!differences.empty()) {
    throw usage_error({.refused = "--resume",
                       .rule = "what shapes the numbers stays as it was",
                       .value = join(differences, "; "),
                       .hint = concat("leave these flags away, or start a new run",
                                      is_data_other ? "; of --data only its files may be said "
                                                      "anew, where they lie now"
                                                    : "")});
  }
}

/// Calls visit(name) for the options that a start which goes on may be told anew, and that its
/// checkpoints keep.
template <class Visitor>
void visit_told(const Visitor& visit) {
  const TrainOptions all;
  visit_options(all, [&](const OptionInfo& info, const auto&) {
    if (info.on_resume == OnResume::kFree && !is_of_one_place(info.name)) visit(info.name);
  });
}

/// One value of a plan that is told anew; false if nothing is.
bool take_told(const Json& told, std::string_view name, Json& plan) {
  const auto found = told.find(name);
  if (found == told.end() || (name == kRateOption && !found->is_number())) return false;
  plan[std::string(name)] = *found;
  return true;
}

/// What the data have taught says by which files, too.
void take_place_of_data(const Json& told, Json& plan) {
  if (!plan.contains(kData) || !told.contains(kData)) return;
  const auto before = plan.at(kData).get<std::string>(), now = told.at(kData).get<std::string>();
  if (before == now || !is_moved(kData, before, now)) return;
  take_told(told, kData, plan);
  take_told(told, kLearned, plan);
}

}  // namespace

bool is_of_one_place(std::string_view option) {
  return std::ranges::find(kOfOnePlace, option) != std::end(kOfOnePlace);
}

Json with_options_of(const Json& plan, const Json& told) {
  Json kept = plan;
  if (plan.empty()) return kept;
  visit_told([&](std::string_view name) {
    if (!take_told(told, name, kept) || name != kRateOption) return;
    if (!take_told(told, kFoundBy, kept)) kept.erase(kFoundBy);
  });
  const std::string hook = plan.value(kHookOption, "none");
  if (kept.value(kHookOption, "none") != hook && !kept.contains(kHookOfState))
    kept[kHookOfState] = hook;
  take_place_of_data(told, kept);
  return kept;
}

Json without_told(const Json& plan) {
  Json settled = plan;
  visit_told([&](std::string_view name) { settled.erase(std::string(name)); });
  for (const std::string_view name : {kData, std::string_view(kLearned)})  // for their places
    settled.erase(std::string(name));
  settled.erase(kFoundBy);
  settled.erase(kHookOfState);
  return settled;
}

LearningRate kept_rate(const Json& plan, const std::string& search) {
  LearningRate before = plan.at("lr").get<double>();
  before.found_by = plan.value(kFoundBy, "");
  if (search.empty() || !before.found_by.empty()) return before;
  throw usage_error({.refused = "--lr " + search,
                     .rule = "it searches before a run's first step; a run that goes on keeps its "
                             "rate, or gets a number",
                     .value = concat("a run that began with ", shortest(*before.value)),
                     .hint = "leave --lr away, give it a number, or begin a new run"});
}

Json to_json(const FitOptions& options, const FitNumbers& numbers) {
  Json json = options_json(options);
  json.update(to_json(numbers));
  return json;
}

Json to_json(const TrainOptions& options, const FitNumbers& numbers) {
  Json json = options_json(options);
  json.update(to_json(numbers));
  return json;
}

void take_over(const Json& plan, const std::vector<std::string>& said, FitOptions& options) {
  take_options(plan, said, options);
}

void take_over(const Json& plan, const std::vector<std::string>& said, TrainOptions& options) {
  Json whole = plan;
  if (!plan.contains("validation_split"))
    whole["validation_split"] = "tail";  // before there was one
  take_options(whole, said, options);
  forget_old_place(whole, said, options);
  const auto held_out = plan.find(kHeldOut);
  if (held_out == plan.end() || !held_out->is_string()) return;
  const auto& train = plan.value("train_samples", int64_t{0});
  options.held_out = formats::parse_index_ranges(held_out->get_ref<const std::string&>(),
                                                 "the validation's samples in the checkpoint",
                                                 train + options.validation_samples);
}

Json carried_json(const TrainOptions& options) {
  if (options.held_out.empty()) return Json::object();
  return {{kHeldOut, formats::to_index_ranges(options.held_out)}};
}

}  // namespace muster::train
