#include "muster/track/tensorboard/tensorboard.h"

#include <chrono>

#include "muster/base/error.h"
#include "muster/track/tensorboard/histogram.h"
#include "muster/track/tensorboard/hparams.h"
#include "muster/track/utf8.h"

#include "event.pb.h"

namespace muster::track {
namespace {

constexpr const char* kFileVersion = "brain.Event:2";

double system_time_s() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

void require_tag(std::string_view tag) {
  if (tag.empty()) throw usage_error({.refused = "a TensorBoard event without a tag"});
}

void fill(proto::Histogram& out, const Histogram& histogram) {
  out.set_min(histogram.min);
  out.set_max(histogram.max);
  out.set_num(histogram.num);
  out.set_sum(histogram.sum);
  out.set_sum_squares(histogram.sum_squares);
  out.mutable_bucket_limit()->Add(histogram.bucket_limit.begin(), histogram.bucket_limit.end());
  out.mutable_bucket()->Add(histogram.bucket.begin(), histogram.bucket.end());
}

void fill(proto::SummaryValue& out, std::string_view plugin, const std::string& content) {
  auto& data = *out.mutable_metadata()->mutable_plugin_data();
  data.set_plugin_name(std::string(plugin));
  data.set_content(content);
}

}  // namespace

struct TensorBoardWriter::Moment {
  std::optional<int64_t> step;
  std::optional<double> wall_time;
};

TensorBoardWriter::TensorBoardWriter(const std::filesystem::path& folder,
                                     TensorBoardOptions options)
    : clock_(options.clock ? std::move(options.clock) : system_time_s),
      file_(folder, clock_(), options.buffer_bytes) {
  add_version();
  if (options.purge_step) add_purge(*options.purge_step);
  file_.flush();
}

void TensorBoardWriter::add_version() {
  proto::Event event;
  event.set_wall_time(clock_());
  event.set_file_version(kFileVersion);
  event.mutable_source_metadata()->set_writer("muster.track.tensorboard");
  file_.append(event.SerializeAsString());
}

// Readers honour the session log only in files that say their version at a step, as SummaryWriter
// does: the version event of that step comes first.
void TensorBoardWriter::add_purge(int64_t step) {
  proto::Event event;
  event.set_wall_time(clock_());
  event.set_step(step);
  event.set_file_version(kFileVersion);
  file_.append(event.SerializeAsString());
  event.mutable_session_log()->set_status(proto::SessionLog::START);
  file_.append(event.SerializeAsString());
}

template <class Fill>
void TensorBoardWriter::add_value(std::string_view tag, const Moment& moment, Fill fill) {
  require_tag(tag);
  proto::Event event;
  event.set_wall_time(moment.wall_time ? *moment.wall_time : clock_());
  if (moment.step) event.set_step(*moment.step);
  auto& value = *event.mutable_summary()->add_value();
  value.set_tag(to_utf8(tag));
  fill(value);
  file_.append(event.SerializeAsString());
}

void TensorBoardWriter::add_scalar(std::string_view tag,
                                   double value,
                                   int64_t step,
                                   std::optional<double> wall_time) {
  add_value(tag, {step, wall_time}, [&](proto::SummaryValue& out) {
    out.set_simple_value(static_cast<float>(value));
  });
}

void TensorBoardWriter::add_text(std::string_view tag,
                                 std::string_view text,
                                 int64_t step,
                                 std::optional<double> wall_time) {
  require_tag(tag);
  add_value(std::string(tag) + "/text_summary", {step, wall_time}, [&](proto::SummaryValue& out) {
    fill(out, "text", "");
    out.mutable_tensor()->set_dtype(proto::Tensor::STRING);
    out.mutable_tensor()->mutable_tensor_shape()->add_dim()->set_size(1);
    out.mutable_tensor()->add_string_val(to_utf8(text));
  });
}

template <class Number>
void TensorBoardWriter::add_numbers(std::string_view tag,
                                    std::span<const Number> values,
                                    const Moment& moment) {
  const Histogram histogram = tensorboard_histogram(values);
  add_value(tag, moment, [&](proto::SummaryValue& out) { fill(*out.mutable_histo(), histogram); });
}

void TensorBoardWriter::add_histogram(std::string_view tag,
                                      std::span<const float> values,
                                      int64_t step,
                                      std::optional<double> wall_time) {
  add_numbers(tag, values, {step, wall_time});
}

void TensorBoardWriter::add_histogram(std::string_view tag,
                                      std::span<const double> values,
                                      int64_t step,
                                      std::optional<double> wall_time) {
  add_numbers(tag, values, {step, wall_time});
}

void TensorBoardWriter::add_image(std::string_view tag,
                                  const Image& image,
                                  int64_t step,
                                  std::optional<double> wall_time) {
  const std::string png = encode_png(image);
  add_value(tag, {step, wall_time}, [&](proto::SummaryValue& out) {
    out.mutable_image()->set_height(static_cast<int32_t>(image.height));
    out.mutable_image()->set_width(static_cast<int32_t>(image.width));
    out.mutable_image()->set_colorspace(static_cast<int32_t>(image.channels));
    out.mutable_image()->set_encoded_image_string(png);
  });
}

void TensorBoardWriter::add_plugin_summary(std::string_view tag,
                                           const std::string& content,
                                           const Moment& moment) {
  add_value(tag, moment, [&](proto::SummaryValue& out) { fill(out, "hparams", content); });
}

void TensorBoardWriter::add_hparams(const HParams& hparams,
                                    const Metrics& metrics,
                                    std::optional<int64_t> step,
                                    std::optional<double> wall_time) {
  std::vector<std::string> tags;
  for (const auto& [tag, value] : metrics) tags.push_back(tag);
  const Moment moment{step, wall_time};
  add_plugin_summary(kExperimentTag, experiment_content(hparams, tags), moment);
  add_plugin_summary(kSessionStartTag, session_start_content(hparams, 0), moment);
  add_plugin_summary(kSessionEndTag, session_end_content(RunStatus::kSuccess, 0), moment);
  for (const auto& [tag, value] : metrics) add_scalar(tag, value, step.value_or(0), wall_time);
}

void TensorBoardWriter::start_hparams(const HParams& hparams,
                                      std::span<const std::string> metric_tags) {
  add_plugin_summary(kExperimentTag, experiment_content(hparams, metric_tags), {});
  add_plugin_summary(kSessionStartTag, session_start_content(hparams, clock_()), {});
}

void TensorBoardWriter::end_hparams(RunStatus status, std::optional<double> wall_time) {
  const double end_s = wall_time ? *wall_time : clock_();
  add_plugin_summary(kSessionEndTag, session_end_content(status, end_s), {{}, wall_time});
}

void TensorBoardWriter::add_experiment(std::span<const HParamDomain> hparams,
                                       std::span<const std::string> metric_tags) {
  add_plugin_summary(kExperimentTag, experiment_content(hparams, metric_tags), {});
}

void TensorBoardWriter::start_session(const HParams& hparams, std::optional<double> wall_time) {
  const double start_s = wall_time ? *wall_time : clock_();
  add_plugin_summary(kSessionStartTag, session_start_content(hparams, start_s), {{}, wall_time});
}

bool holds_whole_session(const std::filesystem::path& folder) {
  constexpr size_t kTail = 512;  // the closing event takes about 100 bytes
  return end_of_newest_events(folder, kTail).find(kSessionEndTag) != std::string::npos;
}

}  // namespace muster::track
