#include "muster/train/classifier/parts.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>
#include <c10/util/Exception.h>

#include "muster/base/error.h"
#include "muster/base/text.h"
#include "muster/models/weights.h"
#include "muster/train/classifier/classifier_task.h"
#include "muster/train/loop/parameter_groups.h"

namespace muster::train {

namespace {

/// What does not fit in the last layer alone has a flag of the program.
void load_all_weights(models::Classifier& model, const tensor::NamedTensorList& weights) {
  try {
    models::load_weights(model, weights);
  } catch (const Error& error) {
    ErrorText text = error.text();
    if (text.hint.find("load_weights_but_head") == std::string::npos) throw;
    text.hint = "weights of other classes: --head new draws the last layer anew";
    throw Error(error.kind(), text);
  }
}

}  // namespace

std::shared_ptr<models::Classifier> make_initial_model(const TrainPlan& plan, bool is_resumed) {
  std::shared_ptr<models::Classifier> model =
      models::make_model(plan.model_name, plan.model_shape, plan.model_params);
  if (is_resumed || plan.options.weights.empty()) return model;
  const tensor::NamedTensorList weights = tensor::read_safetensors(plan.options.weights).tensors;
  if (plan.options.head == "new") {
    models::load_weights_but_head(*model, weights);
  } else {
    load_all_weights(*model, weights);
  }
  return model;
}

void check_model(const TrainPlan& plan) {
  const int64_t replicas = plan.world_size / plan.ranks_per_replica;
  const int64_t last = plan.samples_per_epoch % plan.options.batch_size;
  // The ranks' shares of a batch differ by one at most. Over all ranks (--sync-batch-norm) the batch
  // counts.
  const bool is_shared = plan.options.sync_batch_norm && plan.world_size > 1;
  const int64_t least = is_shared ? 2 : 2 * replicas;
  const bool always = plan.options.batch_size < least;
  const bool is_known = plan.options.batch_size.search.empty();
  // BatchNorm is of the models of images.
  const bool one_sample =
      plan.spec.is_image() && is_known && (always || (last > 0 && last < least));
  if (!one_sample && plan.model_params.empty()) return;
  const auto model = make_initial_model(plan, /*is_resumed=*/true);  // whatever its weights
  if (!one_sample) return;
  model->set_generator(at::detail::createCPUGenerator());  // torch's own is another rank's, too
  const models::ImageShape& shape = plan.model_shape;
  ClassifierTask task(model, ClassifierOptions{});
  ParameterGroups(task, plan.options).train_mode();  // a frozen one does not mind
  try {
    const c10::NoGradGuard no_grad;
    model->forward(at::zeros({1, shape.channels, shape.height, shape.width}));
  } catch (const c10::Error& error) {
    const std::string text = error.what_without_backtrace();
    if (text.find("Expected more than 1 value per channel") == std::string::npos) throw;
    throw usage_error(
        {.refused = concat("--batch-size with model ", plan.model_name),
         .rule = concat("its BatchNorm cannot train on one sample, which ",
                        always      ? "is all that a rank gets"
                        : is_shared ? "is all that an epoch's last batch leaves to the ranks"
                                    : "is all that an epoch's last batch leaves to a rank"),
         .value = always ? concat(plan.options.batch_size, " for ", replicas, " ranks")
                         : concat("batches of ",
                                  plan.options.batch_size,
                                  " from ",
                                  plan.samples_per_epoch,
                                  " samples"),
         .hint = always ? concat("take --batch-size ", least, " or more")
                        : "take --drop-last, or another --batch-size"});
  }
}

}  // namespace muster::train
