#include "muster/track/tensorboard/hparams.h"

#include "muster/base/overloaded.h"
#include "muster/track/utf8.h"

#include "hparams.pb.h"

namespace muster::track {
namespace {

proto::HParamInfo::Type type_of(const HParamValue& value) {
  return std::visit(Overloaded{[](bool) { return proto::HParamInfo::BOOL; },
                               [](double) { return proto::HParamInfo::FLOAT64; },
                               [](const std::string&) { return proto::HParamInfo::STRING; }},
                    value);
}

void set(proto::HParamValue& out, const HParamValue& value) {
  std::visit(Overloaded{[&](bool given) { out.set_bool_value(given); },
                        [&](double given) { out.set_number_value(given); },
                        [&](const std::string& given) { out.set_string_value(to_utf8(given)); }},
             value);
}

proto::HParamInfo::Type type_of(HParamDomain::Type type) {
  if (type == HParamDomain::Type::kBool) return proto::HParamInfo::BOOL;
  return type == HParamDomain::Type::kNumber ? proto::HParamInfo::FLOAT64
                                             : proto::HParamInfo::STRING;
}

void add_metrics(proto::Experiment& experiment, std::span<const std::string> metric_tags) {
  for (const std::string& tag : metric_tags)
    experiment.add_metric_infos()->mutable_name()->set_tag(to_utf8(tag));
}

}  // namespace

std::string experiment_content(std::span<const HParamDomain> hparams,
                               std::span<const std::string> metric_tags) {
  proto::HParamsPluginData data;
  auto& experiment = *data.mutable_experiment();
  for (const HParamDomain& hparam : hparams) {
    auto& info = *experiment.add_hparam_infos();
    info.set_name(to_utf8(hparam.name));
    info.set_type(type_of(hparam.type));
    for (const HParamValue& value : hparam.values)
      set(*info.mutable_domain_discrete()->add_values(), value);
    if (hparam.values.empty() && hparam.interval) {
      info.mutable_domain_interval()->set_min_value(hparam.interval->first);
      info.mutable_domain_interval()->set_max_value(hparam.interval->second);
    }
  }
  add_metrics(experiment, metric_tags);
  return data.SerializeAsString();
}

std::string experiment_content(const HParams& hparams, std::span<const std::string> metric_tags) {
  proto::HParamsPluginData data;
  auto& experiment = *data.mutable_experiment();
  for (const auto& [name, value] : hparams) {
    auto& info = *experiment.add_hparam_infos();
    info.set_name(to_utf8(name));
    info.set_type(type_of(value));
  }
  add_metrics(experiment, metric_tags);
  return data.SerializeAsString();
}

std::string session_start_content(const HParams& hparams, double start_time_s) {
  proto::HParamsPluginData data;
  auto& start = *data.mutable_session_start_info();
  for (const auto& [name, value] : hparams) {
    auto& entry = *start.add_hparams();
    entry.set_key(to_utf8(name));
    set(*entry.mutable_value(), value);
  }
  start.set_start_time_secs(start_time_s);
  return data.SerializeAsString();
}

std::string session_end_content(RunStatus status, double end_time_s) {
  proto::HParamsPluginData data;
  auto& end = *data.mutable_session_end_info();
  end.set_status(status == RunStatus::kSuccess ? proto::SessionEndInfo::SUCCESS
                                               : proto::SessionEndInfo::FAILURE);
  end.set_end_time_secs(end_time_s);
  return data.SerializeAsString();
}

}  // namespace muster::track
