// What every model of the zoo keeps to, whoever added it.
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/base/error.h"
#include "muster/base/params.h"
#include "muster/base/text.h"
#include "muster/models/layers/dropout.h"
#include "muster/models/model.h"
#include "muster/models/weights.h"

#include "tests/support/error_of.h"

namespace muster::models {
namespace {

using test::refusal_of;
using ::testing::HasSubstr;

bool has_param(const ModelEntry& entry, std::string_view name) {
  return std::ranges::any_of(entry.params, [&](const Param& param) { return param.name == name; });
}

class Contract : public ::testing::TestWithParam<std::string> {
 protected:
  const ModelEntry& entry() const { return models().at(GetParam()); }

  /// The smallest images that the model takes, in a size that patches divide.
  ImageShape shape() const {
    const int64_t size = std::max<int64_t>(entry().min_size, 8);
    const int64_t channels = entry().channels == 0 ? 2 : entry().channels;
    return {.channels = channels, .height = size, .width = size, .classes = 3};
  }

  /// Narrow where the model can be, so that VGG's 100 million weights are not drawn here.
  std::shared_ptr<Classifier> make(uint64_t seed, ParamValues params = {}) const {
    torch::manual_seed(seed);
    if (has_param(entry(), "hidden")) params.emplace("hidden", "16");
    return make_model(GetParam(), shape(), params);
  }

  torch::Tensor images(int64_t count = 4) const {
    return torch::randn({count, shape().channels, shape().height, shape().width},
                        torch::make_generator<at::CPUGeneratorImpl>(2));
  }

  void scores_every_class_of_every_image(Classifier& model) const;
  void its_head_answers_for_the_classes(Classifier& model) const;
  void does_not_write_to_its_input(Classifier& model) const;
  void gradients_reach_every_parameter(Classifier& model) const;
  void in_eval_mode_an_image_is_scored_alone_as_in_a_batch(Classifier& model) const;
  void its_dropout_draws_from_the_generator_that_it_was_given(Classifier& model) const;
  void its_state_makes_another_model_score_alike(Classifier& from, Classifier& to) const;
};

void Contract::scores_every_class_of_every_image(Classifier& model) const {
  SCOPED_TRACE(__func__);
  const torch::Tensor scores = model.forward(images());
  EXPECT_EQ(scores.sizes(), (at::IntArrayRef{4, 3}));
  EXPECT_EQ(scores.scalar_type(), torch::kFloat);
  EXPECT_TRUE(scores.isfinite().all().item<bool>());
}

/// Where --head new takes effect.
void Contract::its_head_answers_for_the_classes(Classifier& model) const {
  SCOPED_TRACE(__func__);
  const std::string head = head_of(model);
  const auto parameters = model.named_parameters();
  EXPECT_EQ(parameters[head + ".weight"].size(0), 3);
  EXPECT_EQ(parameters[head + ".bias"].sizes(), (at::IntArrayRef{3}));
}

void Contract::does_not_write_to_its_input(Classifier& model) const {
  SCOPED_TRACE(__func__);
  const torch::Tensor batch = images(), copy = batch.clone();
  model.forward(batch);
  EXPECT_TRUE(batch.equal(copy));
}

void Contract::gradients_reach_every_parameter(Classifier& model) const {
  SCOPED_TRACE(__func__);
  torch::nn::functional::cross_entropy(model.forward(images()), torch::tensor({0, 1, 2, 1}))
      .backward();
  for (const auto& item : model.named_parameters()) {
    ASSERT_TRUE(item.value().grad().defined()) << item.key();
    EXPECT_GT(item.value().grad().abs().max().item<float>(), 0) << item.key();
  }
}

/// Nor does anything of the model change.
void Contract::in_eval_mode_an_image_is_scored_alone_as_in_a_batch(Classifier& model) const {
  SCOPED_TRACE(__func__);
  model.eval();
  const torch::NoGradGuard no_grad;
  std::vector<torch::Tensor> before;
  for (const auto& buffer : model.buffers()) before.push_back(buffer.clone());
  const torch::Tensor batch = images();
  const torch::Tensor scores = model.forward(batch);
  EXPECT_TRUE(scores.equal(model.forward(batch))) << "two passes differ";
  EXPECT_TRUE(scores[2].allclose(model.forward(batch.slice(0, 2, 3))[0], 1e-3, 1e-5));
  for (size_t i = 0; i < before.size(); ++i) EXPECT_TRUE(before[i].equal(model.buffers()[i]));
  model.train();
}

// Two ranks that are threads draw from generators of their own, however the default one moves.
void Contract::its_dropout_draws_from_the_generator_that_it_was_given(Classifier& model) const {
  SCOPED_TRACE(__func__);
  const auto dropouts = std::ranges::count_if(
      model.modules(), [](const auto& module) { return module->template as<DropoutImpl>(); });
  EXPECT_EQ(dropouts > 0, has_param(entry(), "dropout"));
  for (const auto& module : model.modules())
    EXPECT_EQ(module->as<torch::nn::DropoutImpl>(), nullptr) << "LibTorch's dropout";
  at::Generator generator = torch::make_generator<at::CPUGeneratorImpl>(7);
  model.set_generator(generator);
  const torch::Tensor start = generator.get_state();
  const torch::Tensor default_start = at::detail::getDefaultCPUGenerator().get_state();
  const torch::NoGradGuard no_grad;
  const torch::Tensor first = model.forward(images());
  EXPECT_TRUE(default_start.equal(at::detail::getDefaultCPUGenerator().get_state()));
  EXPECT_EQ(!start.equal(generator.get_state()), dropouts > 0);
  if (dropouts == 0) return;
  generator.set_state(start);
  torch::rand({3});  // another rank
  EXPECT_TRUE(first.equal(model.forward(images())));
}

/// Running statistics as well: `from` has seen images in training mode.
void Contract::its_state_makes_another_model_score_alike(Classifier& from, Classifier& to) const {
  SCOPED_TRACE(__func__);
  std::vector<std::pair<std::string, at::Tensor>> state;
  for (const auto& item : from.named_parameters()) state.emplace_back(item.key(), item.value());
  for (const auto& item : from.named_buffers()) state.emplace_back(item.key(), item.value());
  from.eval(), to.eval();
  EXPECT_FALSE(from.forward(images()).equal(to.forward(images())));
  load_weights(to, state);
  EXPECT_TRUE(from.forward(images()).equal(to.forward(images())));
}

// One model for all that leaves it as it was but for running statistics: to draw the weights of a
// VGG or ResNet costs more than what is done with them.
TEST_P(Contract, OfAModelIsKept) {
  const auto model =
      make(1, has_param(entry(), "dropout") ? ParamValues{{"dropout", "0.5"}} : ParamValues{});
  scores_every_class_of_every_image(*model);
  its_head_answers_for_the_classes(*model);
  does_not_write_to_its_input(*model);
  gradients_reach_every_parameter(*model);
  in_eval_mode_an_image_is_scored_alone_as_in_a_batch(*model);
  its_dropout_draws_from_the_generator_that_it_was_given(*model);
  its_state_makes_another_model_score_alike(*model, *make(2));
}

TEST_P(Contract, TheSameSeedGivesTheSameModel) {
  const auto one = make(1), same = make(1);
  one->eval(), same->eval();
  EXPECT_TRUE(one->forward(images()).equal(same->forward(images())));
}

TEST_P(Contract, RefusesImagesBelowItsMinimum) {
  ImageShape small = shape();
  small.width = entry().min_size - 1;
  EXPECT_THAT(refusal_of([&] { make_model(GetParam(), small); }), HasSubstr("pixels"));
  if (entry().channels != 0) {
    ImageShape wrong = shape();
    ++wrong.channels;
    EXPECT_THAT(refusal_of([&] { make_model(GetParam(), wrong); }), HasSubstr("channel"));
  }
}

/// The error is ours and names the option as it was typed, or the model is made.
void expect_made_or_refused(const ModelEntry& entry,
                            const ImageShape& shape,
                            const std::string& name,
                            const std::string& value) {
  SCOPED_TRACE(concat(entry.name, ":", name, "=", value));
  try {
    entry.make(shape, {{name, value}});
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage) << error.what();
    EXPECT_THAT(error.what(), HasSubstr(concat(name, "=", value)));
  } catch (const std::exception& error) {
    ADD_FAILURE() << error.what();
  }
}

// Products of these wrap around to sizes that look small, or LibTorch refuses them in its words.
TEST_P(Contract, RefusesSizesThatNoMachineHoldsByTheirName) {
  std::vector<ImageShape> shapes{shape()};
  if (entry().takes_tokens)
    shapes.push_back({.height = 1, .width = 9, .classes = 3, .vocabulary = 11});
  for (const Param& param : entry().params) {
    if (param.type != "int") continue;
    for (const std::string value : {"9223372036854775807", "4611686018427387904", "8589934592"})
      for (const ImageShape& of : shapes)
        expect_made_or_refused(entry(), of, std::string(param.name), value);
  }
}

TEST(Zoo, RefusesSizesWhoseProductsAreTooLarge) {
  const auto refused = [](const std::string& spec) {
    const Spec model = parse_spec(spec);
    return refusal_of([&] { make_model(model.name, {.channels = 1}, model.params); });
  };
  for (const std::string spec : {"mlp:hidden=1000000,layers=60000",
                                 "lstm:hidden=1000000,layers=60000",
                                 "transformer:width=100000,layers=60000",
                                 "cnn:width=1000000,hidden=1000000"}) {
    EXPECT_THAT(refused(spec), HasSubstr("it has at most 1000000000000 weights")) << spec;
    EXPECT_THAT(refused(spec), HasSubstr(spec.substr(spec.find(':') + 1))) << spec;
  }
  for (const std::string spec :
       {"mlp:hidden=1,layers=65537", "lstm:hidden=1,layers=65537", "transformer:layers=65537"})
    EXPECT_THAT(refused(spec), HasSubstr("at most 65536")) << spec;
}

INSTANTIATE_TEST_SUITE_P(Zoo,
                         Contract,
                         ::testing::ValuesIn(models().names()),
                         [](const auto& info) { return info.param; });

ImageShape fit(std::string_view model, int64_t channels, int64_t height, int64_t width) {
  return fitted_shape(models().at(model),
                      {.channels = channels, .height = height, .width = width, .classes = 4});
}

TEST(FittedShape, ChangesNothingThatTheModelTakes) {
  const ImageShape cnn = fit("cnn", 2, 28, 30);
  EXPECT_EQ(std::tie(cnn.channels, cnn.height, cnn.width, cnn.classes),
            std::make_tuple(2, 28, 30, 4));
  const ImageShape vgg = fit("vgg11", 3, 32, 200);
  EXPECT_EQ(std::tie(vgg.channels, vgg.height, vgg.width), std::make_tuple(3, 32, 200));
}

TEST(FittedShape, RepeatsAGreyChannelAndEnlargesToTheMinimumInProportion) {
  const ImageShape grey = fit("resnet18", 1, 28, 28);
  EXPECT_EQ(std::tie(grey.channels, grey.height, grey.width), std::make_tuple(3, 28, 28));
  const ImageShape small = fit("alexnet", 1, 28, 41);
  EXPECT_EQ(std::tie(small.channels, small.height, small.width), std::make_tuple(3, 63, 92));
  const ImageShape tall = fit("vgg16", 3, 50, 20);
  EXPECT_EQ(std::tie(tall.channels, tall.height, tall.width), std::make_tuple(3, 80, 32));
}

TEST(FittedShape, RefusesChannelsThatCannotBeRepeatedAndImagesWithoutPixels) {
  EXPECT_THAT(refusal_of([] { fit("resnet18", 2, 28, 28); }), HasSubstr("got 2 channels"));
  EXPECT_THAT(refusal_of([] { fit("cnn", 1, 0, 28); }), HasSubstr("at least one pixel"));
}

}  // namespace
}  // namespace muster::models
