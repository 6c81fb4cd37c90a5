#include "muster/train/program/preview.h"

#include <algorithm>
#include <string>
#include <utility>

#include <ATen/ops/tensor.h>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/data/functional/boxes.h"
#include "muster/data/transform/targets.h"
#include "muster/data/transform/transformed.h"

namespace muster::train {
namespace {

using data::functional::BoxFormat;

constexpr int64_t kMostSamples = 200, kMostDraws = 50;

void check_preview(const PreviewOptions& options) {
  const auto check = [](const char* what, int64_t value, int64_t least, int64_t most) {
    if (value >= least && value <= most) return;
    throw usage_error({.refused = concat(what, " of a preview"),
                       .rule = concat("it is in ", least, " … ", most),
                       .value = concat(value)});
  };
  check("count", options.count, 1, kMostSamples);
  check("draws", options.draws, 0, kMostDraws);
  check("epoch", options.epoch, 0, (int64_t{1} << 31) - 1);
}

/// [C, H, W] of bytes or floats  ->  [H, W, 3] uint8
at::Tensor shown_pixels(const at::Tensor& image, const data::DataSpec& spec) {
  at::Tensor pixels = image;
  if (pixels.scalar_type() != at::kByte) {
    pixels = pixels.to(at::kDouble);
    const auto per_channel = [&](const std::vector<double>& values) {
      return at::tensor(values, at::kDouble).view({-1, 1, 1});
    };
    if (!spec.mean.empty())
      pixels = pixels.mul(per_channel(spec.standard_deviation)).add(per_channel(spec.mean));
    pixels = pixels.clamp(0, 1).mul(255).round().to(at::kByte);
  }
  if (pixels.size(0) != 3) pixels = pixels.narrow(0, 0, 1).expand({3, -1, -1});
  return pixels.permute({1, 2, 0}).contiguous();
}

at::Tensor mixed_in(const at::Tensor& pixels, const at::Tensor& where, track::Ink ink) {
  constexpr double kShare = 0.45;
  const track::Rgb rgb = track::light_rgb(ink);
  const at::Tensor colour = at::tensor({rgb.red, rgb.green, rgb.blue}, at::kByte).to(at::kDouble);
  const at::Tensor mixed = pixels.to(at::kDouble).mul(1 - kShare).add(colour.mul(kShare));
  return at::where(where.unsqueeze(-1), mixed.round().to(at::kByte), pixels);
}

/// The numbers of a mask above 0, or the masks of a sample, a colour each.
at::Tensor with_mask(at::Tensor pixels, const at::Tensor& mask) {
  if (mask.dim() == 3) {
    for (int64_t i = 0; i < mask.size(0); ++i)
      pixels = mixed_in(pixels, mask[i].gt(0), track::series_ink(static_cast<size_t>(i)));
    return pixels;
  }
  for (size_t ink = 0; ink < track::kSeriesInks; ++ink) {
    const at::Tensor numbers = mask.to(at::kLong);
    const at::Tensor own = numbers.gt(0).logical_and(
        numbers.sub(1).remainder(track::kSeriesInks).eq(static_cast<int64_t>(ink)));
    pixels = mixed_in(pixels, own, track::series_ink(ink));
  }
  return pixels;
}

std::string class_text(int64_t number, const data::DataSpec& spec) {
  const auto at = static_cast<size_t>(number);
  if (number >= 0 && at < spec.class_names.size()) return spec.class_names[at];
  return std::to_string(number);
}

void add_boxes(track::SheetImage& out,
               const at::Tensor& boxes,
               BoxFormat format,
               const at::Tensor* labels,
               const data::DataSpec& spec) {
  const bool rotated = data::functional::is_rotated(format);
  at::Tensor corners = data::functional::convert_boxes(
      boxes, format, rotated ? BoxFormat::kXyxyxyxy : BoxFormat::kXyxy);
  if (!rotated) corners = corners.index_select(1, at::tensor({0, 1, 2, 1, 2, 3, 0, 3}));
  corners = corners.to(at::kDouble).contiguous();
  const bool has_labels = labels != nullptr && labels->dim() == 1 &&
                          labels->size(0) == boxes.size(0) && !labels->is_floating_point();
  for (int64_t row = 0; row < boxes.size(0); ++row) {
    const auto* at = corners.const_data_ptr<double>() + 8 * row;
    track::SheetOutline outline{.series = static_cast<size_t>(row)};
    for (int corner = 0; corner < 4; ++corner)
      outline.corners.push_back({at[2 * corner], at[2 * corner + 1]});
    if (has_labels) {
      const auto label = (*labels)[row].item<int64_t>();
      outline.label = class_text(label, spec);
      outline.series = static_cast<size_t>(std::max<int64_t>(label, 0));
    }
    out.outlines.push_back(std::move(outline));
  }
}

track::SheetImage shown(const data::Sample& sample, const data::DataSpec& spec) {
  const at::Tensor& image = sample["data"];
  at::Tensor pixels = shown_pixels(image, spec);
  track::SheetImage out{.height = image.size(1), .width = image.size(2)};
  for (const auto& [name, tensor] : sample.tensors) {
    const auto target = data::target_of(name);
    if (!target) continue;
    switch (target->kind) {
      case data::TargetKind::kBoxes:
        add_boxes(out, tensor, target->format, sample.find("labels"), spec);
        break;
      case data::TargetKind::kMask:
        pixels = with_mask(pixels, tensor);
        break;
      case data::TargetKind::kKeypoints: {
        const at::Tensor points = tensor.reshape({-1, 2}).to(at::kDouble).contiguous();
        for (int64_t row = 0; row < points.size(0); ++row) {
          const auto* at = points.const_data_ptr<double>() + 2 * row;
          out.points.push_back({at[0], at[1]});
        }
        break;
      }
    }
  }
  const auto* bytes = pixels.const_data_ptr<uint8_t>();
  out.rgb.assign(bytes, bytes + pixels.numel());
  out.caption = concat(out.width, " x ", out.height);
  return out;
}

std::string row_caption(const data::Sample& sample, const data::DataSpec& spec) {
  std::string text = concat("sample ", sample.index);
  const at::Tensor* target = sample.find("target");
  if (target != nullptr && target->numel() == 1 && spec.classes > 0)
    text += concat("   ", class_text(target->item<int64_t>(), spec));
  return text;
}

/// Spread evenly, from the middle of each share.
std::vector<int64_t> spread(int64_t count, int64_t size) {
  std::vector<int64_t> indices;
  count = std::min(count, size);
  for (int64_t i = 0; i < count; ++i) indices.push_back((2 * i + 1) * size / (2 * count));
  return indices;
}

/// Bytes where there are any, so that what a step leaves is seen as it is.
std::shared_ptr<const data::Dataset> as_pixels(std::shared_ptr<const data::Dataset> dataset) {
  auto pixels = dataset->before_normalising();
  return pixels ? pixels : dataset;
}

}  // namespace

track::ContactSheet preview_sheet(const std::shared_ptr<const data::Dataset>& dataset,
                                  const std::vector<data::TransformMaker>& steps,
                                  const PreviewOptions& options) {
  check_preview(options);
  const data::DataSpec named = dataset->spec();
  data::check_images("a preview", named);
  const auto before = as_pixels(dataset);
  const auto after = as_pixels(data::transformed(dataset, steps));
  const std::vector<int64_t> indices = spread(options.count, dataset->size());
  track::ContactSheet sheet;
  for (const data::Sample& sample : before->samples(indices)) {
    track::SheetRow row{.caption = row_caption(sample, named)};
    row.images.push_back(shown(sample, before->spec()));
    sheet.rows.push_back(std::move(row));
  }
  sheet.headings.emplace_back("as it is");
  const int64_t draws = steps.empty() ? 0 : options.draws;
  for (int64_t draw = 0; draw < draws; ++draw) {
    const int64_t epoch = options.epoch + draw;
    sheet.headings.push_back(concat("epoch ", epoch));
    const auto samples = after->samples(indices, {.seed = options.seed, .epoch = epoch});
    for (size_t row = 0; row < samples.size(); ++row)
      sheet.rows[row].images.push_back(shown(samples[row], after->spec()));
  }
  return sheet;
}

}  // namespace muster::train
