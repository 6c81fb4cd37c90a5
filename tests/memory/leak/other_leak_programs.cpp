// Leaks of handles and of memory that is no tensor's: programs 9 to 12, 15 to 18 and 20.
#include <condition_variable>
#include <deque>
#include <exception>
#include <map>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <utility>

#include <ATen/core/ivalue.h>

#include "muster/memory/allocator/scope.h"

#include "tests/memory/leak/leak_programs.h"

namespace muster::test {
namespace {

using memory::LeakKind;
using memory::Scope;

constexpr int64_t kRow = 64 * 1024;  // floats: 256 KiB

/// Threads that wait for the end of the run.
class ParkedThreads {
 public:
  ParkedThreads() = default;
  ParkedThreads(const ParkedThreads&) = delete;
  ParkedThreads& operator=(const ParkedThreads&) = delete;
  ~ParkedThreads() {
    {
      const std::lock_guard lock(mutex_);
      over_ = true;
    }
    end_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  /// A thread for one request; returns when it has been served.
  void serve(bool ends) {
    size_t served_before = 0;
    std::unique_lock lock(mutex_);
    served_before = served_;
    threads_.emplace_back([this, ends] {
      const Scope scope("request");
      const at::Tensor answer = torch::ones({kRow});
      std::unique_lock own(mutex_);
      ++served_;
      end_.notify_all();
      if (!ends) end_.wait(own, [this] { return over_; });
    });
    end_.wait(lock, [&] { return served_ > served_before; });
    lock.unlock();
    if (!ends) return;
    threads_.back().join();
    threads_.pop_back();
  }

 private:
  std::mutex mutex_;
  std::condition_variable end_;
  std::vector<std::thread> threads_;
  size_t served_ = 0;
  bool over_ = false;
};

LeakStep thread_per_request(LeakWorld&, bool leaks) {
  const auto threads = std::make_shared<ParkedThreads>();
  return [threads, leaks](int) { threads->serve(!leaks); };
}

/// What is prepared for a number of rows is kept for the next batch of as many, and there is none.
LeakStep plan_for_each_shape(LeakWorld& world, bool leaks) {
  return [&world, leaks, plans = std::map<int64_t, at::Tensor>()](int iteration) mutable {
    int64_t rows = 16 + (iteration * 37) % 241;  // another one in each of 241 iterations
    if (!leaks) rows = (rows + 63) / 64 * 64;    // padded to one of four, all met in the warm-up
    world.batch = torch::randn({rows, 64});
    const auto found = plans.find(rows);
    if (found == plans.end()) {
      const Scope scope("plans");
      plans.emplace(rows, torch::ones({rows, 1024}));
    }
    world.train();
  };
}

LeakStep from_blob_without_deleter(LeakWorld& world, bool leaks) {
  const auto buffers = std::make_shared<std::vector<std::unique_ptr<float[]>>>();
  return [&world, buffers, leaks](int) {
    world.train();
    const Scope scope("input");
    auto owned = std::make_unique<float[]>(kRow);
    const at::Tensor blob = leaks ? torch::from_blob(owned.get(), {kRow}, [](void*) {})
                                  : torch::from_blob(owned.release(), {kRow}, [](void* data) {
                                      delete[] static_cast<float*>(data);
                                    });
    blob.sum().item<float>();
    if (leaks) buffers->push_back(std::move(owned));  // nobody ever looks again
  };
}

LeakStep small_view_of_a_big_one(LeakWorld& world, bool leaks) {
  return [&world, leaks, kept = std::vector<at::Tensor>()](int) mutable {
    world.train();
    const Scope scope("features");
    const at::Tensor all = torch::randn({256, 256});
    const at::Tensor first = all.slice(0, 0, 1);
    kept.push_back(leaks ? first : first.clone());
  };
}

LeakStep optimizer_rebuilt(LeakWorld& world, bool leaks) {
  using Kept = std::vector<std::unique_ptr<torch::optim::Optimizer>>;
  const auto kept = std::make_shared<Kept>();
  return [&world, leaks, kept](int) {  // an iteration is an epoch here
    const Scope scope("optimizer");
    if (!leaks) kept->clear();
    kept->push_back(std::make_unique<torch::optim::Adam>(world.net->parameters()));
    for (int i = 0; i < 2; ++i) {
      kept->back()->zero_grad();
      world.loss_of(world.net->forward(world.batch)).backward();
      kept->back()->step();
    }
  };
}

struct Child;
struct Parent : torch::nn::Module {
  std::shared_ptr<Child> child;
};
struct Child : torch::nn::Module {
  Child() { layer = register_module("layer", torch::nn::Linear(256, 128)); }
  std::shared_ptr<Parent> strong;
  std::weak_ptr<Parent> weak;
  torch::nn::Linear layer{nullptr};
};

LeakStep cycle_of_modules(LeakWorld& world, bool leaks) {
  return [&world, leaks](int) {
    world.train();
    const Scope scope("build");
    const auto parent = std::make_shared<Parent>();
    parent->child = std::make_shared<Child>();
    if (leaks)
      parent->child->strong = parent;
    else
      parent->child->weak = parent;
  };
}

LeakStep prefetch_without_a_bound(LeakWorld& world, bool leaks) {
  return [&world, leaks, queue = std::deque<at::Tensor>()](int) mutable {
    {
      const Scope scope("prefetch");
      for (int i = 0; i < 2; ++i) {
        if (leaks || queue.size() < 4) queue.push_back(torch::randn({256, 64}));
      }
    }
    world.batch = queue.front();
    queue.pop_front();
    world.train();
  };
}

LeakStep futures_never_cleared(LeakWorld& world, bool leaks) {
  using Future = c10::intrusive_ptr<c10::ivalue::Future>;
  return [&world, leaks, pending = std::vector<Future>()](int) mutable {
    world.train();
    const Scope scope("communicate");
    const auto future = c10::make_intrusive<c10::ivalue::Future>(c10::TensorType::get());
    future->markCompleted(c10::IValue(torch::ones({kRow})));
    pending.push_back(future);
    pending.back()->wait();
    if (!leaks) pending.clear();
  };
}

struct BadBatch : std::runtime_error {
  explicit BadBatch(at::Tensor tensor)
      : std::runtime_error("bad batch"), batch(std::move(tensor)) {}
  at::Tensor batch;
};

LeakStep exceptions_hold_tensors(LeakWorld& world, bool leaks) {
  return [&world, leaks, log = std::vector<std::exception_ptr>()](int) mutable {
    world.train();
    const Scope scope("check");
    try {
      throw BadBatch(torch::ones({kRow}));
    } catch (const BadBatch&) {
      if (leaks) log.push_back(std::current_exception());
    }
  };
}

}  // namespace

std::vector<LeakProgram> other_leak_programs() {
  return {
      {"9 a thread per request", LeakKind::kTensors, "request", &thread_per_request},
      {"10a ever-new input shapes, a plan kept for each",
       LeakKind::kTensors,
       "plans",
       &plan_for_each_shape},
      {"11a from_blob, nobody frees", LeakKind::kHeap, "input", &from_blob_without_deleter},
      {"12 small view of a big tensor", LeakKind::kTensors, "features", &small_view_of_a_big_one},
      {"15 optimizer rebuilt each epoch", LeakKind::kTensors, "optimizer", &optimizer_rebuilt},
      {"16 cycle of modules", LeakKind::kTensors, "build", &cycle_of_modules},
      {"17a prefetch queue without a bound",
       LeakKind::kTensors,
       "prefetch",
       &prefetch_without_a_bound},
      {"18 futures never cleared", LeakKind::kTensors, "communicate", &futures_never_cleared},
      {"20 exceptions hold tensors", LeakKind::kTensors, "check", &exceptions_hold_tensors},
  };
}

}  // namespace muster::test
