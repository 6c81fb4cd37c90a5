#include "muster/track/hparams.h"

#include "muster/track/utf8.h"

#include "hparams.pb.h"

namespace muster::track {
namespace {

template <class... Cases>
struct Overloaded : Cases... {
  using Cases::operator()...;
};
template <class... Cases>
Overloaded(Cases...) -> Overloaded<Cases...>;  // clang 14 deduces no aggregates by itself

proto::HParamInfo::Type type_of(const HParams::value_type::second_type& value) {
  return std::visit(Overloaded{[](bool) { return proto::HParamInfo::BOOL; },
                               [](double) { return proto::HParamInfo::FLOAT64; },
                               [](const std::string&) { return proto::HParamInfo::STRING; }},
                    value);
}

void set(proto::HParamValue& out, const HParams::value_type::second_type& value) {
  std::visit(Overloaded{[&](bool given) { out.set_bool_value(given); },
                        [&](double given) { out.set_number_value(given); },
                        [&](const std::string& given) { out.set_string_value(to_utf8(given)); }},
             value);
}

}  // namespace

std::string experiment_content(const HParams& hparams, std::span<const std::string> metric_tags) {
  proto::HParamsPluginData data;
  auto& experiment = *data.mutable_experiment();
  for (const auto& [name, value] : hparams) {
    auto& info = *experiment.add_hparam_infos();
    info.set_name(to_utf8(name));
    info.set_type(type_of(value));
  }
  for (const std::string& tag : metric_tags) {
    experiment.add_metric_infos()->mutable_name()->set_tag(to_utf8(tag));
  }
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
