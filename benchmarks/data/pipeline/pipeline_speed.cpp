// The C++ sides of benchmarks/data/pipeline: what peer.py does, by Muster, and by LibTorch's torch::data.
//
//     build/bin/pipeline_speed muster|torch_data FOLDER WORKERS EPOCHS [jitter]
//
// Photographs in class folders, random crop to 224, flip, with `jitter` brightness, contrast and
// saturation, normalised, in batches of 64. Prints one JSON object; peer.py says what its fields are.
#include <chrono>
#include <iostream>
#include <string>
#include <string_view>

#include <ATen/Parallel.h>
#include <sys/resource.h>
#include <torch/data.h>

#include "muster/base/json.h"
#include "muster/data.h"
#include "muster/formats/image/class_folders.h"
#include "muster/formats/image/image.h"

#include "benchmarks/peers/process_status.h"

namespace {

namespace data = muster::data;
namespace formats = muster::formats;

constexpr int64_t kSide = 224;
constexpr int64_t kBatch = 64;

double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double processor_s() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

/// What a consumer sees, batch by batch.
class Tally {
 public:
  void consume(const at::Tensor& images) {
    if (batches_++ == 0) {
      first_ = now_s();
    } else {
      images_ += images.size(0);
    }
    sum_ += images.mean().item<double>();
    last_ = now_s();
  }

  muster::Json json() const {
    return {{"images", images_},
            {"seconds", last_ - first_},
            {"first_batch", first_ - begin_},
            {"processor", processor_s() - processor_},
            {"peak_mib", status_mib("VmHWM")},
            {"mean", sum_ / static_cast<double>(batches_)}};
  }

 private:
  double begin_ = now_s(), processor_ = processor_s();
  double first_ = 0, last_ = 0, sum_ = 0;
  int64_t batches_ = 0, images_ = 0;
};

void by_muster(const std::string& folder, int64_t workers, int64_t epochs, bool jitter) {
  Tally tally;
  std::string chain = "random_resized_crop:size=224|random_horizontal_flip";
  if (jitter) chain += "|color_jitter:brightness=0.4,contrast=0.4,saturation=0.4";
  const auto images = data::transformed(std::make_shared<data::ImageFolder>(folder), chain);
  data::Loader loader(images,
                      {.batch_size = kBatch, .workers = workers, .drop_last = true, .seed = 1},
                      std::make_unique<data::RandomSampler>(images->size()));
  for (int64_t epoch = 0; epoch < epochs; ++epoch)
    for (const data::Batch& batch : loader.epoch(epoch)) tally.consume(batch["data"]);
  std::cout << tally.json().dump() << '\n';
}

/// What LibTorch alone offers a program: its DataLoader, and operators. It decodes no images, so
/// that part is ours.
class Photographs : public torch::data::Dataset<Photographs> {
 public:
  Photographs(const std::string& folder, bool jitter)
      : files_(formats::list_class_folders(folder)), jitter_(jitter) {}

  torch::data::Example<> get(size_t index) override {
    const formats::Image image = formats::read_image(files_.path_of(index));
    const at::Tensor whole =
        torch::from_blob(image.pixels.get(), {image.height, image.width, 3}, at::kByte)
            .permute({2, 0, 1});
    const auto [top, left, height, width] = crop_of(image.height, image.width);
    at::Tensor part = torch::upsample_bilinear2d(whole.slice(1, top, top + height)
                                                     .slice(2, left, left + width)
                                                     .unsqueeze(0)
                                                     .to(at::kFloat),
                                                 {kSide, kSide},
                                                 /*align_corners=*/false)
                          .squeeze(0);
    if (uniform(0, 1) < 0.5) part = part.flip(2);
    if (jitter_) part = jittered(part);
    return {(part / 255 - mean_) / deviation_, torch::tensor(files_.files[index].label, at::kLong)};
  }

  torch::optional<size_t> size() const override { return files_.files.size(); }

 private:
  static double uniform(double low, double high) {
    return torch::empty({}, at::kDouble).uniform_(low, high).item<double>();
  }

  static std::array<int64_t, 4> crop_of(int64_t height, int64_t width) {
    for (int tries = 0; tries < 10; ++tries) {
      const double area = static_cast<double>(height * width) * uniform(0.08, 1);
      const double ratio = std::exp(uniform(std::log(3.0 / 4), std::log(4.0 / 3)));
      const int64_t wide = std::lround(std::sqrt(area * ratio));
      const int64_t high = std::lround(std::sqrt(area / ratio));
      if (wide < 1 || high < 1 || wide > width || high > height) continue;
      const auto place = [](int64_t room) {
        return static_cast<int64_t>(uniform(0, static_cast<double>(room + 1)));
      };
      return {place(height - high), place(width - wide), high, wide};
    }
    return {0, 0, height, width};
  }

  static at::Tensor blend(const at::Tensor& image, const at::Tensor& with, double share) {
    return (image * share + with * (1 - share)).clamp_(0, 255);
  }

  static at::Tensor jittered(at::Tensor image) {
    const auto grey = [](const at::Tensor& of) {
      return of[0] * 0.2989 + of[1] * 0.587 + of[2] * 0.114;
    };
    image = (image * uniform(0.6, 1.4)).clamp_(0, 255);
    image = blend(image, grey(image).mean(), uniform(0.6, 1.4));
    return blend(image, grey(image).unsqueeze(0), uniform(0.6, 1.4));
  }

  formats::ClassFolders files_;
  bool jitter_;
  at::Tensor mean_ = torch::tensor({0.485F, 0.456F, 0.406F}).view({3, 1, 1});
  at::Tensor deviation_ = torch::tensor({0.229F, 0.224F, 0.225F}).view({3, 1, 1});
};

void by_torch_data(const std::string& folder, int64_t workers, int64_t epochs, bool jitter) {
  Tally tally;
  auto images = Photographs(folder, jitter).map(torch::data::transforms::Stack<>());
  const size_t count = *images.size();
  auto loader = torch::data::make_data_loader(
      std::move(images),
      torch::data::samplers::RandomSampler(static_cast<int64_t>(count)),
      torch::data::DataLoaderOptions()
          .batch_size(kBatch)
          .workers(static_cast<size_t>(workers))
          .drop_last(true));
  for (int64_t epoch = 0; epoch < epochs; ++epoch)
    for (const auto& batch : *loader) tally.consume(batch.data);
  std::cout << tally.json().dump() << '\n';
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 5) {
    std::cerr << "pipeline_speed muster|torch_data FOLDER WORKERS EPOCHS [jitter]\n";
    return 2;
  }
  at::set_num_threads(1);
  const std::string side = argv[1];
  const bool jitter = argc > 5 && std::string_view(argv[5]) == "jitter";
  (side == "muster" ? by_muster : by_torch_data)(
      argv[2], std::stoll(argv[3]), std::stoll(argv[4]), jitter);
  return 0;
}
