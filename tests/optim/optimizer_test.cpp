// Our optimizers against torch.optim's, from tests/golden/optimizers/golden.json.
#include "muster/optim/optimizer.h"

#include <cmath>
#include <fstream>
#include <limits>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "muster/base/json.h"
#include "muster/base/text.h"

#include "tests/support/distance.h"
#include "tests/support/error_of.h"
#include "tests/support/golden.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

std::pair<torch::Tensor, torch::Tensor> draw(uint64_t seed, torch::Dtype dtype) {
  auto generator = torch::make_generator<at::CPUGeneratorImpl>(seed);
  const torch::Tensor a = torch::rand({5, 7}, generator) * 2 - 1;
  const torch::Tensor b = torch::rand({5}, generator) * 2 - 1;
  return {a.to(dtype), b.to(dtype)};
}

ParamValues params_of(const Json& object) {
  ParamValues params;
  for (const auto& [name, value] : object.items()) params[name] = value.dump();
  return params;
}

struct Setting {
  torch::Tensor a, b;
  bool late;  // "b" gets its first gradient in step 2; else it has none in steps 3, 4 and 5
  std::unique_ptr<optim::Optimizer> optimizer;

  Setting(const std::string& name, double lr, ParamValues params, torch::Dtype dtype)
      : late(params.erase("late") > 0) {
    std::tie(a, b) = draw(499, dtype);
    optimizer = optim::optimizers().at(name).make(
        {{"a", a.requires_grad_()}, {"b", b.requires_grad_()}}, lr, params);
  }

  void step(int64_t number) {
    auto [gradient_a, gradient_b] = draw(static_cast<uint64_t>(500 + number), a.scalar_type());
    const bool without = late ? number < 2 : number >= 3 && number <= 5;
    a.mutable_grad() = gradient_a;
    b.mutable_grad() = without ? torch::Tensor() : gradient_b;
    optimizer->step();
  }
};

TEST(Optimizers, EndWhereTorchOptimEnds) {
  const Json data = test::read_golden("optimizers");
  ASSERT_GE(data.at("cases").size(), 40);
  std::set<std::string> seen;
  for (const Json& expected : data.at("cases")) {
    const auto dtype = expected.at("dtype") == "float64" ? torch::kDouble : torch::kFloat;
    Setting setting(
        expected.at("optimizer"), expected.at("lr"), params_of(expected.at("params")), dtype);
    seen.insert(expected.at("optimizer"));
    for (int64_t step = 0; step < data.at("steps").get<int64_t>(); ++step) setting.step(step);
    for (const auto& [kind, end] : expected.at("ends").items()) {
      const double tolerance = end.at("tolerance");
      EXPECT_LE(test::distance(setting.a, end.at("a")), tolerance)
          << kind << " of " << expected.dump();
      EXPECT_LE(test::distance(setting.b, end.at("b")), tolerance)
          << kind << " of " << expected.dump();
    }
  }
  EXPECT_EQ(seen.size(), optim::optimizers().size()) << "an optimizer has no golden";
}

// `muster list optimizers` and completions show them.
TEST(Optimizers, AreMadeWithTheDefaultsThatTheyShow) {
  for (const optim::OptimizerEntry* entry : optim::optimizers()) {
    ParamValues shown;
    for (const Param& param : entry->params) shown.emplace(param.name, param.default_value());
    const std::string name(entry->name);
    Setting plain(name, 0.05, {}, torch::kDouble), said(name, 0.05, shown, torch::kDouble);
    for (int64_t step = 0; step < 3; ++step) {
      plain.step(step);
      said.step(step);
    }
    EXPECT_TRUE(torch::equal(plain.a, said.a)) << name;
    EXPECT_TRUE(torch::equal(plain.b, said.b)) << name;
  }
}

/// Those in which every kind of state is in use.
const std::vector<std::pair<std::string, ParamValues>> kWithAllState{
    {"sgd", {}},
    {"adam", {{"amsgrad", "true"}}},
    {"adamw", {{"amsgrad", "true"}}},
    {"rmsprop", {{"momentum", "0.9"}, {"centered", "true"}}}};

TEST(Optimizers, GoOnBitForBitFromTheirSavedState) {
  ASSERT_EQ(kWithAllState.size(), optim::optimizers().size());
  for (const auto& [name, params] : kWithAllState) {
    Setting straight(name, 0.05, params, torch::kFloat), broken(name, 0.05, params, torch::kFloat),
        resumed(name, 0.05, params, torch::kFloat);
    for (int64_t step = 0; step < 8; ++step) straight.step(step);
    for (int64_t step = 0; step < 4; ++step) broken.step(step);
    const std::string bytes = tensor::to_safetensors({broken.optimizer->state(), {}});
    for (int64_t step = 6; step < 8; ++step) resumed.step(step);  // state to be replaced
    {
      const torch::NoGradGuard no_grad;
      resumed.a.copy_(broken.a);
      resumed.b.copy_(broken.b);
    }
    resumed.optimizer->load_state(tensor::parse_safetensors(bytes, "state"));
    for (int64_t step = 4; step < 8; ++step) resumed.step(step);
    EXPECT_TRUE(torch::equal(resumed.a, straight.a)) << name;
    EXPECT_TRUE(torch::equal(resumed.b, straight.b)) << name;
  }
}

// What a hint about memory goes by.
TEST(Optimizers, KeepStateJustWhereTheirEntriesSaySo) {
  for (const optim::OptimizerEntry* entry : optim::optimizers()) {
    const auto expect_as_said = [&](const ParamValues& params, bool keeps, double momentum = 0) {
      EXPECT_EQ(optim::keeps_state(*entry, params, momentum), keeps) << entry->name;
      Setting setting(std::string(entry->name), 0.05, params, torch::kFloat);
      if (momentum > 0 && setting.optimizer->momentum()) setting.optimizer->set_momentum(momentum);
      setting.step(0);
      EXPECT_EQ(!setting.optimizer->state().empty(), keeps) << entry->name;
    };
    expect_as_said({}, true);
    if (entry->without_state.empty()) continue;
    const ParamValues without = parse_spec(concat(entry->name, ':', entry->without_state)).params;
    expect_as_said(without, false);
    expect_as_said(without, true, 0.9);  // as a schedule sets it
  }
}

TEST(Optimizers, SaveNoStateForAParameterThatNeverHadAGradient) {
  for (const auto& [name, params] : kWithAllState) {
    ParamValues late = params;
    late["late"] = "true";
    Setting setting(name, 0.05, late, torch::kFloat);
    setting.step(0);
    EXPECT_FALSE(setting.optimizer->state().empty()) << name;
    for (const auto& [key, tensor] : setting.optimizer->state())
      EXPECT_TRUE(key.ends_with("/a")) << name << ' ' << key;
  }
}

// ATen's fused kernels read gradients as flat arrays; see Note [Layout of gradients].
TEST(Optimizers, ReadExpandedAndTransposedGradients) {
  for (const auto& [name, params] : kWithAllState) {
    for (const torch::Tensor& gradient :
         {torch::ones({}).expand({5, 7}), torch::arange(35.).reshape({7, 5}).t()}) {
      Setting strided(name, 0.05, params, torch::kFloat), plain(name, 0.05, params, torch::kFloat);
      for (int i = 0; i < 2; ++i) {
        strided.a.mutable_grad() = gradient;
        plain.a.mutable_grad() = gradient.contiguous();
        strided.optimizer->step();
        plain.optimizer->step();
      }
      EXPECT_TRUE(torch::equal(strided.a, plain.a)) << name << gradient.strides();
    }
  }
}

TEST(Optimizers, KeepAChannelsLastParameterInItsLayout) {
  for (const auto& [name, params] : kWithAllState) {
    const torch::Tensor start = torch::linspace(-1, 1, 2 * 3 * 4 * 5).reshape({2, 3, 4, 5});
    const torch::Tensor gradient = start.flip(0).contiguous();
    torch::Tensor plain = start.clone().requires_grad_();
    torch::Tensor last = start.clone(torch::MemoryFormat::ChannelsLast).requires_grad_();
    for (torch::Tensor* parameter : {&plain, &last}) {
      const auto optimizer = optim::optimizers().at(name).make({{"p", *parameter}}, 0.1, params);
      for (int i = 0; i < 3; ++i) {
        parameter->mutable_grad() = gradient;
        optimizer->step();
      }
    }
    EXPECT_TRUE(last.is_contiguous(torch::MemoryFormat::ChannelsLast));
    EXPECT_LE((plain - last).abs().max().item<float>(), 1e-6) << name;
  }
}

// Short tensors go through the kernels together, and with one thread long ones in parts.
void expect_equal_in_parts() {
  for (const auto& [name, params] : kWithAllState) {
    auto generator = torch::make_generator<at::CPUGeneratorImpl>(17);
    std::vector<torch::Tensor> values, gradients;
    for (const int64_t count : {300, 131072, 131073, 400000, 5, 100000, 40000}) {
      values.push_back(torch::rand({count}, generator));
      gradients.push_back(torch::rand({count}, generator) - 0.5);
    }
    constexpr int64_t kShort = 4096;
    tensor::NamedTensorList long_ones, short_ones;
    for (size_t k = 0; k < values.size(); ++k) {
      long_ones.emplace_back(std::to_string(k), values[k].clone().requires_grad_());
      long_ones.back().second.mutable_grad() = gradients[k];
      const auto cuts = values[k].split(kShort), gradient_cuts = gradients[k].split(kShort);
      for (size_t i = 0; i < cuts.size(); ++i) {
        short_ones.emplace_back(concat(k, '-', i), cuts[i].clone().requires_grad_());
        short_ones.back().second.mutable_grad() = gradient_cuts[i];
      }
    }
    const auto whole = optim::optimizers().at(name).make(long_ones, 0.01, params);
    const auto cut = optim::optimizers().at(name).make(short_ones, 0.01, params);
    for (int i = 0; i < 3; ++i) {
      whole->step();
      cut->step();
    }
    std::vector<torch::Tensor> a, b;
    for (const auto& [key, tensor] : long_ones) a.push_back(tensor.detach());
    for (const auto& [key, tensor] : short_ones) b.push_back(tensor.detach());
    EXPECT_LE((torch::cat(a) - torch::cat(b)).abs().max().item<float>(), 2e-7) << name;
    EXPECT_GT(torch::cat(a).ne(torch::cat(values)).to(torch::kFloat).mean().item<float>(), 0.99)
        << name << " left numbers out";
  }
}

TEST(Optimizers, TreatLongTensorsAsManyShortOnes) { expect_equal_in_parts(); }

TEST(Optimizers, TreatLongTensorsAsManyShortOnesOnOneThread) {
  const int threads = torch::get_num_threads();
  torch::set_num_threads(1);
  expect_equal_in_parts();
  torch::set_num_threads(threads);
}

TEST(Optimizers, MoveTheirMomentumForAOneCycleSchedule) {
  for (const optim::OptimizerEntry* entry : optim::optimizers()) {
    Setting setting(std::string(entry->name), 0.1, {}, torch::kFloat);
    ASSERT_TRUE(setting.optimizer->momentum().has_value()) << entry->name;
    setting.optimizer->set_momentum(0.85);
    EXPECT_EQ(setting.optimizer->momentum(), 0.85);
    setting.step(0);
    setting.step(1);
    Setting from_start(std::string(entry->name),
                       0.1,
                       {{entry->name.starts_with("adam") ? "beta1" : "momentum", "0.85"}},
                       torch::kFloat);
    from_start.step(0);
    from_start.step(1);
    EXPECT_TRUE(torch::equal(setting.a, from_start.a)) << entry->name;
  }
}

TEST(Optimizers, RefuseASparseGradientByName) {
  Setting setting("sgd", 0.1, {}, torch::kFloat);
  setting.a.mutable_grad() = torch::ones({5, 7}).to_sparse();
  try {
    setting.optimizer->step();
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("parameter a"));
    EXPECT_THAT(error.what(), HasSubstr("dense"));
  }
}

TEST(Optimizers, RefuseStateThatIsNotTheirs) {
  const auto state_error = [](const std::string& name, const tensor::NamedTensorList& tensors) {
    Setting setting(name, 0.1, {}, torch::kFloat);
    try {
      setting.optimizer->load_state({tensors, {}});
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  const torch::Tensor a = torch::zeros({5, 7});
  EXPECT_THAT(state_error("sgd", {{"momentum/c", a}}), HasSubstr("momentum/a"));
  EXPECT_THAT(state_error("sgd", {{"exp_avg/a", a}}), HasSubstr("exp_avg/a"));
  EXPECT_THAT(state_error("adam", {{"exp_avg/a", a}, {"exp_avg_sq/a", a}}), HasSubstr("step"));
  EXPECT_THAT(state_error("adam", {{"step/a", torch::full({}, 3, torch::kLong)}}),
              HasSubstr("exp_avg_sq"));
}

TEST(Optimizers, RefuseStateOfAnotherShape) {
  Setting setting("sgd", 0.1, {}, torch::kFloat);
  try {
    setting.optimizer->load_state({{{"momentum/a", torch::zeros({2})}}, {}});
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("momentum/a"));
    EXPECT_THAT(error.what(), HasSubstr("[5, 7]"));
  }
}

TEST(Optimizers, RefuseValuesThatMakeNoSense) {
  for (const auto& [name, params] : std::vector<std::pair<std::string, ParamValues>>{
           {"sgd", {{"momentum", "-0.1"}}},
           {"sgd", {{"nesterov", "true"}, {"momentum", "0"}}},
           {"adamw", {{"beta1", "1"}}},
           {"adam", {{"eps", "nan"}}},
           {"sgd", {{"momentum", "nan"}}},
           {"sgd", {{"momentum", "inf"}}},
           {"sgd", {{"weight_decay", "nan"}}},
           {"sgd", {{"dampening", "nan"}}},
           {"rmsprop", {{"momentum", "inf"}}},
           {"sgd", {{"dampening", "inf"}}},
           {"sgd", {{"weight_decay", "inf"}}},
           {"adamw", {{"weight_decay", "inf"}}},
           {"rmsprop", {{"eps", "inf"}}},
           {"rmsprop", {{"alpha", "1"}}},
           {"rmsprop", {{"centred", "true"}}},
           {"sgd", {{"moment", "1"}}}}) {
    EXPECT_THROW(Setting(name, 0.1, params, torch::kFloat), Error) << name;
  }
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (const double lr : {-0.1, kInfinity, std::nan("")})
    EXPECT_THROW(Setting("sgd", lr, {}, torch::kFloat), Error) << lr;
}

// Whatever parameter will be added: one check reads them all.
TEST(Optimizers, RefuseNumbersThatAreNoneByTheirParametersName) {
  for (const optim::OptimizerEntry* entry : optim::optimizers()) {
    for (const Param& param : entry->params) {
      if (param.type != "float") continue;
      for (const std::string value : {"nan", "-nan", "inf", "-inf"}) {
        const ParamValues params{{std::string(param.name), value}};
        const std::string error = test::refusal_of(
            [&] { Setting(std::string(entry->name), 0.1, params, torch::kFloat); });
        EXPECT_THAT(error, HasSubstr(concat("parameter \"", param.name, "\": a finite number")));
      }
    }
  }
}

}  // namespace
}  // namespace muster
