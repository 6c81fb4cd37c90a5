#include "muster/train/record/tensorboard_log.h"

#include <algorithm>

#include <ATen/ops/cat.h>

#include "muster/base/json.h"
#include "muster/base/text.h"
#include "muster/parallel/sharded/gradient_marks.h"

namespace muster::train {
namespace {

constexpr int64_t kPictures = 8;  // side by side

track::HParams hparams_of(const FitPlan& plan) {
  track::HParams hparams;
  for (const auto& [name, value] : plan.record.items()) {
    if (value.is_boolean()) {
      hparams.emplace_back(name, value.get<bool>());
    } else if (value.is_number()) {
      hparams.emplace_back(name, value.get<double>());
    } else if (value.is_string()) {
      hparams.emplace_back(name, value.get<std::string>());
    }
  }
  return hparams;
}

std::span<const float> values_of(const at::Tensor& tensor) {
  return {tensor.const_data_ptr<float>(), static_cast<size_t>(tensor.numel())};
}

}  // namespace

TensorBoardLog::TensorBoardLog(const FitPlan& plan,
                               const std::vector<Metric>& metrics,
                               const std::filesystem::path& folder,
                               int64_t resumed_after,
                               std::optional<int64_t> purge_step)
    : writer_(folder, {.purge_step = purge_step}) {
  // Four spaces: a block of code, whose columns stay.
  std::string text = "    " + plan.explained;
  for (size_t at = text.find('\n'); at != text.npos && at + 1 < text.size();
       at = text.find('\n', at + 1))
    text.insert(at + 1, "    ");
  writer_.add_text("plan", text, std::max<int64_t>(0, resumed_after));
  std::vector<std::string> tags{"train/loss"};
  for (const char* phase : {"validate", "test"}) {
    tags.push_back(concat(phase, "/loss"));
    for (const Metric& metric : shown_metrics(metrics))
      tags.push_back(concat(phase, '/', metric.name));
  }
  writer_.start_hparams(hparams_of(plan), tags);
}

void TensorBoardLog::row(const track::MetricsRow& row) {
  for (const auto& [name, value] : row.values) {
    // Times rise and start again: no curves.
    if (name != "elapsed_s" && name != "epoch_s")
      writer_.add_scalar(row.phase + '/' + name, value, row.step);
  }
}

void TensorBoardLog::histograms(const tensor::NamedTensorList& parameters, int64_t step) {
  const auto add = [&](const std::string& tag, const at::Tensor& tensor) {
    const at::Tensor flat = tensor.detach().cpu().to(at::kFloat).contiguous();
    // A diverged weight has no histogram; its loss is reported as not finite elsewhere.
    if (flat.numel() > 0 && flat.isfinite().all().item<bool>())
      writer_.add_histogram(tag, values_of(flat), step);
  };
  for (const auto& [name, parameter] : parameters) {
    add("parameters/" + name, parameter);
    const at::Tensor& gradient = parameter.grad();
    if (gradient.defined() && !parallel::is_gradient_mark(gradient))
      add("gradients/" + name, gradient);
  }
}

void TensorBoardLog::images(const at::Tensor& batch, int64_t step) {
  const int64_t channels = batch.size(1);
  if (channels != 1 && channels != 3) return;
  const int64_t count = std::min(kPictures, batch.size(0));
  const at::Tensor some = batch.narrow(0, 0, count).cpu();
  const at::Tensor least = some.min();
  const at::Tensor range = (some.max() - least).clamp_min(1e-12);
  const at::Tensor stretched = ((some - least) / range * 255).round().to(at::kByte);
  const at::Tensor row = at::cat(stretched.unbind(0), 2).permute({1, 2, 0}).contiguous();
  writer_.add_image("train/images",
                    {.height = row.size(0),
                     .width = row.size(1),
                     .channels = channels,
                     .pixels = {row.const_data_ptr<uint8_t>(), static_cast<size_t>(row.numel())}},
                    step);
}

void TensorBoardLog::end_run(std::optional<track::RunStatus> status) {
  if (status) writer_.end_hparams(*status);
  writer_.flush();
}

}  // namespace muster::train
