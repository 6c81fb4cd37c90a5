#include "muster/memory/tracker/owned_tensors.h"

#include <deque>

#include <torch/optim/adagrad.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/lbfgs.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>

namespace muster::memory {
namespace {

template <class State>
void add_moments(const State& state, std::vector<at::Tensor>& all) {
  all.insert(all.end(), {state.exp_avg(), state.exp_avg_sq(), state.max_exp_avg_sq()});
}

void add_state(const torch::optim::OptimizerParamState& any, std::vector<at::Tensor>& all) {
  using namespace torch::optim;  // NOLINT: its six kinds of state
  if (const auto* sgd = dynamic_cast<const SGDParamState*>(&any)) {
    all.push_back(sgd->momentum_buffer());
  } else if (const auto* adam = dynamic_cast<const AdamParamState*>(&any)) {
    add_moments(*adam, all);
  } else if (const auto* adamw = dynamic_cast<const AdamWParamState*>(&any)) {
    add_moments(*adamw, all);
  } else if (const auto* rms = dynamic_cast<const RMSpropParamState*>(&any)) {
    all.insert(all.end(), {rms->square_avg(), rms->momentum_buffer(), rms->grad_avg()});
  } else if (const auto* adagrad = dynamic_cast<const AdagradParamState*>(&any)) {
    all.push_back(adagrad->sum());
  } else if (const auto* lbfgs = dynamic_cast<const LBFGSParamState*>(&any)) {
    all.insert(all.end(), {lbfgs->d(), lbfgs->H_diag(), lbfgs->prev_flat_grad()});
    for (const auto& step : lbfgs->old_dirs()) all.push_back(step);
    for (const auto& step : lbfgs->old_stps()) all.push_back(step);
  }
}

}  // namespace

std::vector<at::Tensor> state_tensors(const torch::optim::Optimizer& optimizer) {
  std::vector<at::Tensor> all;
  for (const auto& [parameter, state] : optimizer.state()) {
    if (state != nullptr) add_state(*state, all);
  }
  return all;
}

}  // namespace muster::memory
