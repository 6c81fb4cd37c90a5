// What it shows: images whose samples have boxes, labels, a mask and keypoints, in a dataset of one's
//     own. A chain of transforms moves them all by the same draw; boxes of which too little is left go,
//     and their labels with them. With a file's name it draws what becomes of them, epoch by epoch.
// How to run: build/bin/examples/boxes [FILE.png]
// Expected output:
//     epoch 0: 1 boxes: square
//     epoch 1: 2 boxes: circle square
//     epoch 2: 2 boxes: circle square
//     the mask is where the circle is: yes
#include <iostream>
#include <string>
#include <vector>

#include <torch/torch.h>

#include "muster/base.h"
#include "muster/data.h"
#include "muster/track.h"
#include "muster/train.h"

namespace data = muster::data;

constexpr int64_t kHeight = 120, kWidth = 160;

/// A circle, which the mask marks as well, and a square on a slope of grey.
class Shapes final : public data::SampleDataset {
 public:
  int64_t size() const override { return 2; }
  data::DataSpec spec() const override {
    return {.name = "shapes",
            .sample_shape = {3, kHeight, kWidth},
            .class_names = {"circle", "square"},
            .dtype = torch::kByte};
  }

 private:
  data::Sample sample(int64_t index, const data::SampleContext&) const override {
    const double x = 50 + 20.0 * static_cast<double>(index), y = 45, radius = 25;
    const torch::Tensor rows = torch::arange(kHeight).view({-1, 1}),
                        columns = torch::arange(kWidth);
    const torch::Tensor circle = (columns - x).pow(2).add((rows - y).pow(2)).lt(radius * radius);
    const torch::Tensor grey = (rows + columns).div(2).add(60).to(torch::kByte);
    torch::Tensor image = torch::stack({grey, grey, grey});
    image[0].masked_fill_(circle, 220);
    image.narrow(1, 70, 30)
        .narrow(2, 100, 30)
        .copy_(torch::tensor({40, 120, 200}, torch::kByte).view({3, 1, 1}));
    return {.tensors = {{"data", image},
                        {"boxes",
                         torch::tensor({{x - radius, y - radius, x + radius, y + radius},
                                        {100.0, 70.0, 130.0, 100.0}})},
                        {"labels", torch::tensor({0, 1})},
                        {"mask", circle},
                        {"keypoints", torch::tensor({{x, y}, {115.0, 85.0}})}}};
  }
};

int main(int argc, char** argv) {
  const auto shapes = std::make_shared<Shapes>();
  const auto steps = data::parse_transforms(
      "random_resized_crop:size=[120,160],scale=[0.3,1]|random_horizontal_flip|"
      "one_of(random_rotation:degrees=25|random_perspective|color_jitter:brightness=0.5):p=0.8|"
      "filter_boxes:min_visibility=0.4");
  const auto changed = data::transformed(shapes, steps);
  const std::vector<int64_t> first{0};
  bool in_place = true;
  for (int64_t epoch = 0; epoch < 3; ++epoch) {
    const data::Sample sample = changed->samples(first, {.seed = 4, .epoch = epoch}).at(0);
    const torch::Tensor labels = sample["labels"];
    std::cout << "epoch " << epoch << ": " << labels.size(0) << " boxes:";
    for (int64_t i = 0; i < labels.size(0); ++i)
      std::cout << ' '
                << changed->spec().class_names.at(static_cast<size_t>(labels[i].item<int64_t>()));
    std::cout << '\n';
    // The circle alone is redder than it is green.
    const torch::Tensor red = sample["data"][0].to(torch::kInt), green = sample["data"][1];
    const torch::Tensor seen = (red - green).gt(40);
    const double both = seen.logical_and(sample["mask"]).sum().item<double>();
    in_place = in_place && both > 0.9 * seen.logical_or(sample["mask"]).sum().item<double>();
  }
  std::cout << "the mask is where the circle is: " << (in_place ? "yes" : "no") << '\n';
  if (argc < 2) return 0;
  muster::track::ContactSheet sheet =
      muster::train::preview_sheet(shapes, steps, {.count = 2, .draws = 5, .seed = 4});
  sheet.title = "shapes";
  muster::write_file_atomic(argv[1], muster::track::contact_sheet_png(sheet));
  return 0;
}
