// What only looks like a leak.
#include <deque>
#include <map>
#include <utility>

#include "muster/memory/allocator/scope.h"

#include "tests/memory/leak/leak_programs.h"

namespace muster::test {
namespace {

using memory::Scope;

LeakStep plain_training(LeakWorld& world) {
  return [&world](int) { world.train(); };
}

LeakStep adam_state(LeakWorld& world) {
  world.optimizer = std::make_unique<torch::optim::Adam>(world.net->parameters());
  return [&world](int) { world.train(); };
}

LeakStep lbfgs_history(LeakWorld& world) {
  world.optimizer = std::make_unique<torch::optim::LBFGS>(
      world.net->parameters(), torch::optim::LBFGSOptions(0.1).max_iter(2).history_size(10));
  return [&world](int) {
    world.optimizer->step([&world] {
      world.optimizer->zero_grad();
      at::Tensor loss = world.loss_of(world.net->forward(world.batch));
      loss.backward();
      return loss;
    });
  };
}

LeakStep convolution_autotuning(LeakWorld& world) {
  torch::nn::Conv2d layer(torch::nn::Conv2dOptions(8, 16, 3));
  const at::Tensor images = torch::randn({8, 8, 20, 20});
  return [&world, layer, images](int) mutable {
    world.train();
    layer->zero_grad();
    layer->forward(images).square().mean().backward();
  };
}

LeakStep batches_of_changing_length(LeakWorld& world) {
  return [&world](int iteration) {
    world.batch = torch::randn({16 + (iteration * 37) % 241, 64});
    world.train();
  };
}

/// A list per epoch of 8 iterations; the last epoch has 16.
LeakStep longer_last_epoch(LeakWorld& world) {
  return [&world, kept = std::vector<at::Tensor>()](int iteration) mutable {
    const int first_of_last = 25;
    if (iteration <= first_of_last && iteration % 8 == 1) kept.clear();
    kept.push_back(world.train().detach());
  };
}

/// Predictions of an epoch of 16 iterations, cleared at its end.
LeakStep predictions_of_an_epoch(LeakWorld& world) {
  return [&world, kept = std::vector<at::Tensor>()](int iteration) mutable {
    if (iteration % 16 == 1) kept.clear();
    const Scope scope("predictions");
    world.train();
    for (int i = 0; i < 4; ++i) kept.push_back(torch::ones({256, 64}));
  };
}

/// Images that grow from epoch to epoch (progressive resizing).
LeakStep batches_that_grow(LeakWorld& world) {
  return [&world](int iteration) {
    const Scope scope("growing_batch");
    world.batch = torch::randn({256, 64}).slice(0, 0, 100 + 3 * iteration).clone();
    world.train();
  };
}

LeakStep checkpoint_every_10(LeakWorld& world) {
  return [&world, saved = std::vector<at::Tensor>()](int iteration) mutable {
    world.train();
    if (iteration % 10 != 0) return;
    const Scope scope("checkpoint");
    saved.clear();
    for (const at::Tensor& parameter : world.net->parameters())
      saved.push_back(parameter.detach().clone());
  };
}

LeakStep replay_buffer_that_fills(LeakWorld& world) {
  return [&world, buffer = std::deque<at::Tensor>()](int) mutable {
    world.train();
    const Scope scope("replay");
    buffer.push_back(world.batch.clone());
    buffer.push_back(world.batch.clone());
    while (buffer.size() > 24) buffer.pop_front();  // full in iteration 12
  };
}

LeakStep replay_buffer_that_says_its_end(LeakWorld& world) {
  return [&world, buffer = std::deque<at::Tensor>()](int) mutable {
    world.train();
    const Scope scope("declared_replay", memory::GrowsTo{int64_t{1000} * 256 * 64 * 4});
    buffer.push_back(world.batch.clone());  // full in iteration 1000
  };
}

LeakStep window_of_metrics(LeakWorld& world) {
  return [&world, window = std::deque<at::Tensor>()](int) mutable {
    const at::Tensor out = world.train();
    const Scope scope("metrics");
    window.push_back(out.detach().clone());
    if (window.size() > 10) window.pop_front();
  };
}

LeakStep cache_by_shape(LeakWorld& world) {
  return [&world, masks = std::map<int64_t, at::Tensor>()](int iteration) mutable {
    const int64_t length = 32 + 32 * ((iteration * 5) % 8);
    world.batch = torch::randn({length, 64});
    world.train();
    const Scope scope("masks");
    if (!masks.contains(length)) masks[length] = torch::ones({length, length * 8});
  };
}

LeakStep truncated_backward(LeakWorld& world) {
  const at::Tensor recurrent = torch::randn({128, 128}) * 0.05;
  return [&world, recurrent, state = at::Tensor(torch::zeros({256, 128}))](int iteration) mutable {
    const Scope scope("rnn");
    state = torch::tanh(world.net->first(world.batch) + state.matmul(recurrent));
    if (iteration % 4 != 0) return;
    world.net->zero_grad();
    state.square().mean().backward();
    state = state.detach();
  };
}

LeakStep gradient_accumulation(LeakWorld& world) {
  return [&world](int iteration) {
    world.loss_of(world.net->forward(world.batch)).backward();
    if (iteration % 4 != 0) return;
    world.optimizer->step();
    world.optimizer->zero_grad();
  };
}

LeakStep evaluation_under_a_guard(LeakWorld& world) {
  return [&world](int) {
    world.train();
    world.net->eval();
    {
      const torch::NoGradGuard no_grad;
      const Scope scope("validate_well");
      world.net->forward(world.batch).argmax(1).sum().item<int64_t>();
    }
    world.net->train();
  };
}

/// Batch norms are frozen in eval(), and yet it trains.
LeakStep fine_tuning_in_eval(LeakWorld& world) {
  world.net->eval();
  return [&world](int) { world.train(); };
}

LeakStep two_networks_in_turn(LeakWorld& world) {
  const auto other = std::make_shared<SmallNet>();
  return [&world, other](int) {
    const Scope scope("adversary");
    world.net->zero_grad();
    other->zero_grad();
    const at::Tensor made = world.net->first(world.batch);
    other->second(made.detach()).square().mean().backward();
    other->second(made).mean().backward();
  };
}

}  // namespace

std::vector<ControlProgram> control_programs() {
  return {
      {"allocator warm-up", &plain_training},
      {"Adam state at step 1", &adam_state},
      {"LBFGS history of 10", &lbfgs_history},
      {"autotuning of convolutions", &convolution_autotuning},
      {"batches of changing length", &batches_of_changing_length},
      {"a longer last epoch", &longer_last_epoch},
      {"predictions of epochs of 16", &predictions_of_an_epoch},
      {"batches that grow", &batches_that_grow},
      {"checkpoint every 10 iterations", &checkpoint_every_10},
      {"replay buffer that fills in 12", &replay_buffer_that_fills},
      {"replay buffer that says its end", &replay_buffer_that_says_its_end},
      {"window of the last 10 metrics", &window_of_metrics},
      {"cache of 8 shapes", &cache_by_shape},
      {"backward every 4 steps of an RNN", &truncated_backward},
      {"gradient accumulation over 4", &gradient_accumulation},
      {"evaluation under a guard", &evaluation_under_a_guard},
      {"fine-tuning in eval()", &fine_tuning_in_eval},
      {"two networks in turn", &two_networks_in_turn},
  };
}

}  // namespace muster::test
