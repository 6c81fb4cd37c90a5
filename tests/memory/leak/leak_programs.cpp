// Leaks of graphs: programs 1 to 8, 13 and 14 of the suite.
#include "tests/memory/leak/leak_programs.h"

#include <thread>
#include <utility>

#include "muster/memory/allocator/process_bytes.h"
#include "muster/memory/allocator/scope.h"

namespace muster::test {
namespace {

using memory::LeakKind;
using memory::Scope;

LeakStep total_loss_without_backward(LeakWorld& world, bool leaks) {
  return [&world, leaks, total = at::Tensor(torch::zeros({}))](int) mutable {
    at::Tensor out;
    {
      const Scope scope("model");
      out = world.net->forward(world.batch);
    }
    const at::Tensor loss = world.loss_of(out);
    const Scope scope("metrics");
    total = leaks ? total + loss : total + loss.item<double>();
  };
}

LeakStep total_loss_after_backward(LeakWorld& world, bool leaks) {
  return [&world, leaks, total = at::Tensor(torch::zeros({}))](int) mutable {
    world.optimizer->zero_grad();
    const at::Tensor loss = world.loss_of(world.net->forward(world.batch));
    loss.backward();
    world.optimizer->step();
    const Scope scope("metrics");
    total = leaks ? total + loss : total + loss.item<double>();
  };
}

LeakStep losses_in_a_vector(LeakWorld& world, bool leaks) {
  return [&world, leaks, kept = std::vector<at::Tensor>()](int) mutable {
    at::Tensor out;
    {
      const Scope scope("model");
      out = world.net->forward(world.batch);
    }
    const at::Tensor loss = world.loss_of(out);
    kept.push_back(leaks ? loss : loss.detach());
  };
}

LeakStep predictions_kept(LeakWorld& world, bool leaks) {
  using Hits = std::vector<int64_t>;  // numbers in place of tensors
  return [&world, leaks, kept = std::vector<at::Tensor>(), hits = Hits()](int) mutable {
    const at::Tensor out = world.train();
    if (leaks)
      kept.push_back(out);
    else
      hits.push_back((out.argmax(1) == world.target.argmax(1)).sum().item<int64_t>());
  };
}

LeakStep state_not_detached(LeakWorld& world, bool leaks) {
  const at::Tensor recurrent = torch::randn({128, 128}) * 0.05;
  return [&world, leaks, recurrent, state = at::Tensor(torch::zeros({256, 128}))](int) mutable {
    at::Tensor loss;
    {
      const Scope scope("rnn");
      state = torch::tanh(world.net->first(world.batch) + state.matmul(recurrent));
      loss = state.square().mean();
    }
    world.net->zero_grad();
    loss.backward({}, /*retain_graph=*/leaks);
    if (!leaks) state = state.detach();
  };
}

LeakStep gradient_penalty(LeakWorld& world, bool leaks) {
  return [&world, leaks](int) {
    at::Tensor loss;
    {
      const Scope scope("model");
      loss = world.net->forward(world.batch).square().mean();
    }
    const std::vector<at::Tensor> parameters = world.net->parameters();
    std::vector<at::Tensor> gradients;
    if (leaks) {  // .grad is added to, and carries the graph of all that was added
      loss.backward({}, /*retain_graph=*/true, /*create_graph=*/true);
      for (const at::Tensor& parameter : parameters) gradients.push_back(parameter.grad());
    } else {
      gradients = torch::autograd::grad({loss}, parameters, {}, /*retain_graph=*/true, true);
    }
    at::Tensor penalty = torch::zeros({});
    for (const at::Tensor& gradient : gradients) penalty = penalty + gradient.square().sum();
    torch::autograd::grad({penalty}, {parameters[0]}, {}, /*retain_graph=*/leaks);
  };
}

/// A square that keeps its own output in its context.
struct OwnOutput : torch::autograd::Function<OwnOutput> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, at::Tensor x, bool leaks) {
    at::Tensor out = x * x;
    context->save_for_backward({x});
    if (leaks) context->saved_data["out"] = out;
    return out;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    return {gradients[0] * 2 * context->get_saved_variables()[0], at::Tensor()};
  }
};

LeakStep custom_function(LeakWorld& world, bool leaks) {
  return [&world, leaks](int) {
    world.optimizer->zero_grad();
    const at::Tensor hidden = world.net->first(world.batch);
    at::Tensor out;
    {
      const Scope scope("custom");
      out = OwnOutput::apply(hidden, leaks);
    }
    world.loss_of(world.net->second(out)).backward();
    world.optimizer->step();
  };
}

LeakStep guard_in_the_main_thread(LeakWorld& world, bool leaks) {
  return [&world, leaks](int) {
    world.train();
    world.net->eval();
    const torch::NoGradGuard of_this_thread;
    std::thread worker([&world, leaks] {
      const torch::AutoGradMode mode(leaks);
      const Scope scope("serve");
      world.net->forward(world.batch);
    });
    worker.join();
    world.net->train();
  };
}

LeakStep validation_with_gradients(LeakWorld& world, bool leaks) {
  return [&world, leaks](int) {
    world.train();
    world.net->eval();
    {
      const torch::AutoGradMode mode(leaks);
      const Scope scope("validate");
      for (int i = 0; i < 2; ++i) world.net->forward(world.batch).argmax(1).sum().item<int64_t>();
    }
    world.net->train();
  };
}

LeakStep hook_that_captures_its_tensor(LeakWorld& world, bool leaks) {
  return [&world, leaks](int) {
    world.optimizer->zero_grad();
    at::Tensor out;
    {
      const Scope scope("model");
      out = world.net->forward(world.batch);
    }
    if (leaks) {
      out.register_hook([out](const at::Tensor& gradient) {
        return gradient / std::max<int64_t>(1, out.size(0) / 256);
      });
    } else {
      const int64_t rows = out.size(0);
      out.register_hook([rows](const at::Tensor& gradient) {
        return gradient / std::max<int64_t>(1, rows / 256);
      });
    }
    world.loss_of(out).backward();
    world.optimizer->step();
  };
}

LeakStep average_with_gradients(LeakWorld& world, bool leaks) {
  return [&world, leaks, average = world.net->first->weight.detach().clone()](int) mutable {
    world.train();
    const torch::AutoGradMode mode(leaks);
    const Scope scope("ema");
    average = average * 0.99 + world.net->first->weight * 0.01 * average.tanh();
  };
}

}  // namespace

SmallNet::SmallNet() {
  first = register_module("first", torch::nn::Linear(64, 128));
  second = register_module("second", torch::nn::Linear(128, 16));
}

at::Tensor SmallNet::forward(const at::Tensor& x) { return second(torch::tanh(first(x))); }

LeakWorld::LeakWorld() : net(std::make_shared<SmallNet>()) {
  optimizer = std::make_unique<torch::optim::SGD>(net->parameters(), 1e-3);
  batch = torch::randn({256, 64});
  target = torch::randn({256, 16});
}

at::Tensor LeakWorld::loss_of(const at::Tensor& out) const {
  const Scope scope("loss");
  return torch::mse_loss(out, target.slice(0, 0, out.size(0)));
}

at::Tensor LeakWorld::train() {
  optimizer->zero_grad();
  at::Tensor out;
  {
    const Scope scope("model");
    out = net->forward(batch);
  }
  loss_of(out).backward();
  optimizer->step();
  return out;
}

std::vector<LeakProgram> graph_leak_programs() {
  return {
      {"1a total loss as a tensor, no backward",
       LeakKind::kGraph,
       "model",
       &total_loss_without_backward},
      {"1b total loss as a tensor", LeakKind::kGraph, "metrics", &total_loss_after_backward},
      {"2 losses in a vector", LeakKind::kGraph, "model", &losses_in_a_vector},
      {"3 predictions kept for metrics", LeakKind::kGraph, "model", &predictions_kept},
      {"4 RNN state not detached", LeakKind::kGraph, "rnn", &state_not_detached},
      {"5 create_graph, .grad kept", LeakKind::kGraph, "model", &gradient_penalty},
      {"6 custom Function keeps its output", LeakKind::kGraph, "custom", &custom_function},
      {"7 NoGradGuard in the main thread only",
       LeakKind::kEvaluationGraph,
       "serve",
       &guard_in_the_main_thread},
      {"8 validation with gradients",
       LeakKind::kEvaluationGraph,
       "validate",
       &validation_with_gradients},
      {"13 hook captures its tensor", LeakKind::kGraph, "model", &hook_that_captures_its_tensor},
      {"14 running average with gradients", LeakKind::kGraph, "ema", &average_with_gradients},
  };
}

LeakRun run_under_leak_finder(const std::function<LeakStep(LeakWorld&)>& make,
                              int iterations,
                              const memory::LeakOptions& options) {
  torch::set_num_threads(1);  // a team that spins for tiny operators starves on a busy machine
  torch::manual_seed(5);
  LeakWorld world;
  const LeakStep step = make(world);  // perhaps with another optimizer
  memory::Tracker tracker(*world.net, world.optimizer.get());
  const memory::LeakFinder finder(tracker, options);
  LeakRun run;
  for (int i = 1; i <= iterations; ++i) {
    step(i);
    const memory::IterationMemory& end = tracker.end_iteration();
    run.end_bytes.push_back(end.end_bytes);
    if (end.device) run.device_bytes.push_back(end.device->current);
    run.resident.push_back(memory::process_bytes().resident);
    if (i == LeakRun::kEarly) run.early = memory::live_blocks();
    if (i == LeakRun::kLate) run.late = memory::live_blocks();
    run.last = finder.report();
    if (run.first_iteration == 0 && !run.last.findings.empty()) {
      run.first_iteration = i;
      run.first = run.last;
    }
  }
  return run;
}

}  // namespace muster::test
