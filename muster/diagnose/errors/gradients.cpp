// Gradients: rows 36, 39, 40, 66 and 67.
#include <algorithm>

#include "muster/base/text.h"
#include "muster/diagnose/catalogue/error_row.h"

namespace muster::diagnose {
namespace {

constexpr Pattern kUnused[] = {{"Expected to have finished reduction in the prior iteration"},
                               {"parameters that were not used in producing"},
                               {"Expected to mark a variable ready only once"},
                               {"Parameter at index*has been marked as ready twice"},
                               {"doesn't have any parameters that require a gradient"},
                               {"unused param", nullptr, Depth::kGuess},
                               {"find_unused", nullptr, Depth::kGuess},
                               {"indices which did not receive grad"},
                               {"did not receive grad"},
                               {"was not used in the forward", nullptr, Depth::kPerhaps},
                               {"received no grad", nullptr, Depth::kGuess}};
constexpr Cause kUnusedCauses[] = {
    {.why = "A parameter takes part twice in one backward: it is shared by two passes, or "
            "recomputed by activation checkpointing.",
     .step = "Tell DDP that the graph is static, use the checkpointing that is not re-entrant, or "
             "make one forward of the two.",
     .when = "marked as ready twice"},
    {.why = "A parameter takes part twice in one backward: shared by two passes, or recomputed by "
            "activation checkpointing.",
     .step = "Tell DDP that the graph is static, or use the checkpointing that is not re-entrant.",
     .when = "ready only once"},
    {.why =
         "An output of forward has no part in the loss, though unused parameters are looked for.",
     .step = "Return only what the loss is computed from, or add the rest to it with weight 0.",
     .when = "find_unused_parameters=True` is enabled"},
    {.why = "Some parameters had no part in the loss, and DDP waits for their gradients.",
     .step = "Set find_unused_parameters (it costs a walk over the graph), or freeze or remove "
             "what is not used. TORCH_DISTRIBUTED_DEBUG=DETAIL names the parameters; Muster's DDP "
             "names them by itself."}};

constexpr Pattern kTwice[] = {{"backward through the graph a second time"},
                              {"backward*second time", nullptr, Depth::kGuess},
                              {"already*freed", nullptr, Depth::kGuess}};
constexpr Cause kTwiceCauses[] = {
    {.why = "A tensor of an earlier step is part of the loss: the state of an RNN, a cached "
            "feature, a "
            "running sum; or backward is called twice on one graph.",
     .step = "detach() what is carried from step to step, and compute the loss anew before each "
             "backward. retain_graph only hides it, and costs memory."}};

constexpr Pattern kInplace[] = {{"modified by an inplace operation"},
                                {"a leaf Variable that requires grad"},
                                {"a view of a leaf Variable"},
                                {"is a view and is being modified inplace"},
                                {"is a view of a leaf*in-place"},
                                {"moved into the graph interior"},
                                {"in-place*grad", nullptr, Depth::kGuess},
                                {"inplace*grad", nullptr, Depth::kGuess},
                                {"Inplace update to inference tensor"},
                                {"modified inplace"},
                                {"inplace", nullptr, Depth::kGuess},
                                {"in-place", nullptr, Depth::kGuess}};
constexpr Cause kInplaceCauses[] = {
    {.why =
         "A tensor that backward needs was changed after it had been used: `+=`, relu_, an index "
         "assignment, or an optimizer's step between two backwards.",
     .step =
         "Use the form that makes a new tensor. Anomaly mode shows the operation whose backward "
         "failed; the change came after it. With two networks, call both backwards before "
         "the first step."}};

/// "loss is not nan", "no NaN in the loss".
bool is_denied(std::string_view line, size_t at) {
  const size_t last = line.substr(0, at).find_last_not_of(" '\"");
  if (last == line.npos) return false;
  const size_t blank = line.find_last_of(" ,;:(", last);
  const std::string_view word = line.substr(blank + 1, last - blank);
  for (const std::string_view denial : {"not", "no", "No", "without", "never", "isn't"}) {
    if (word == denial) return true;
  }
  return false;
}

/// "loss 2.3 nan 0", "nan count 0": a name behind a value and before one, or a counted thing before one.
bool is_name_of_zero(std::string_view line, size_t at, size_t end) {
  std::string_view rest = line.substr(end);
  bool is_name = false;
  for (const std::string_view counted :
       {" count", " counts", " losses", " steps", " batches", " values", " grads"}) {
    if (!rest.starts_with(concat(counted, " "))) continue;
    rest.remove_prefix(counted.size());
    is_name = true;
    break;
  }
  const size_t last = line.substr(0, at).find_last_not_of(" ,;|");
  is_name = is_name || (last != line.npos && line[last] >= '0' && line[last] <= '9');
  const size_t value = rest.find_first_not_of(' ');
  if (!is_name || value == rest.npos || value == 0 || rest[value] != '0') return false;
  return value + 1 == rest.size() || std::string_view(" ,;|})").find(rest[value + 1]) != rest.npos;
}

/// "number of nan iterations: 0" (Megatron's log line), "nan=0", "0 nan losses", "\"nan\": false": none of them.
bool is_a_count(std::string_view line, size_t at, size_t end) {
  if (at >= 2 && line.substr(at - 2, 2) == "0 ") {
    const size_t before = line.substr(0, at - 2).find_last_not_of(' ');
    if (before == line.npos || std::string_view(",;:|([=").find(line[before]) != line.npos)
      return true;
  }
  if (is_denied(line, at) || is_name_of_zero(line, at, end)) return true;
  const size_t sign = line.find_first_of(":=", end);
  if (sign == line.npos || line.substr(end, sign - end).find_first_of("|,;.()") != line.npos)
    return false;
  const size_t value = line.find_first_not_of(' ', sign + 1);
  if (value == line.npos) return false;
  if (line.substr(value).starts_with("False") || line.substr(value).starts_with("false"))
    return true;
  return line[value] == '0' && (value + 1 == line.size() ||
                                std::string_view(" ,;|})").find(line[value + 1]) != line.npos);
}

/// A loss that is NaN, by the word and not by a part of another.
bool is_nan_loss(std::string_view line) {
  // a bar that has not begun has measured nothing: "0%| | 0/100 [00:00<?, ?it/s, loss=nan]"
  if (line.find(" 0/") != line.npos && line.find("[00:00<?") != line.npos) return false;
  const auto is_letter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  };
  for (const std::string_view nan : {"nan", "NaN", "NAN"}) {
    for (size_t at = line.find(nan); at != line.npos; at = line.find(nan, at + 3)) {
      const size_t end = at + 3;
      const bool is_word =
          (at == 0 || !is_letter(line[at - 1])) && (end == line.size() || !is_letter(line[end]));
      if (is_word && !is_a_count(line, at, end)) return true;
    }
  }
  return false;
}

/// A step whose losses are NaN, whatever they are called: "G: nan | D: nan" beside a bar. Measures of what is not in a
/// set are NaN, too.
bool is_step_with_nans(std::string_view line) {
  for (const std::string_view measure : {"AP", "IoU", "AUC", "acc", "Acc", "ecall", "recision"}) {
    if (line.find(measure) != line.npos) return false;
  }
  int values = 0;
  for (size_t at = line.find("nan"); at != line.npos; at = line.find("nan", at + 3)) {
    const size_t sign = at == 0 ? line.npos : line.find_last_not_of(' ', at - 1);
    values += sign != line.npos && (line[sign] == ':' || line[sign] == '=') ? 1 : 0;
  }
  if (values < 2 || !is_nan_loss(line)) return false;
  for (const std::string_view step : {"it/s", "s/it", "poch", "step", "Step", "iter", "Iter"}) {
    if (line.find(step) != line.npos) return true;
  }
  return false;
}

/// A loss that is infinite; the smallest loss so far, before there is one, is no failure.
bool is_infinite_loss(std::string_view line) {
  for (const std::string_view so_far :
       {"best", "Best", "min", "Min", "improved", "decreased", "from inf", "->"}) {
    if (line.find(so_far) != line.npos) return false;
  }
  const size_t loss = std::min(line.find("loss"), line.find("Loss"));
  for (size_t at = line.find("inf", loss); at != line.npos; at = line.find("inf", at + 3)) {
    const char before = line[at - 1], behind = at + 3 < line.size() ? line[at + 3] : ' ';
    if (is_a_count(line, at, at + 3)) continue;
    if (std::string_view(" :=").find(before) != line.npos &&
        std::string_view(" ,;|)}").find(behind) != line.npos)
      return true;
  }
  return false;
}

constexpr Pattern kNan[] = {{"loss*inf", is_infinite_loss, Depth::kPerhaps},
                            {"DomainError with NaN"},  // Julia's
                            {"with nan", nullptr, Depth::kGuess},
                            {"nan values in its 0th output"},
                            {"nan values in its 1th output"},
                            {"nan values in its"},
                            {"probability tensor contains either"},
                            {"oss is nan, stopping"},
                            {"Loss became infinite or NaN"},
                            {"loss is NaN"},
                            {"non-finite loss"},
                            {"found NaN in loss"},
                            {"Loss is infinite or NaN"},
                            {"loss has become NaN"},
                            {"contains NaN or infinity"},
                            {"Current loss scale already at minimum"},
                            {"Minimum loss scale reached"},
                            {"reducing loss scale to 0.0"},
                            {"reducing loss scale to *e-"},
                            {"Detected NaN"},
                            {"input contains NaN"},
                            {"The total norm of order*is non-finite"},
                            {"was found non-finite"},
                            {"nan*nan", is_step_with_nans, Depth::kPerhaps},
                            {"loss*nan", is_nan_loss, Depth::kPerhaps},
                            {"nan*loss", is_nan_loss, Depth::kPerhaps},
                            {"loss diverged"},
                            {"diverged with loss"},
                            {"training diverged"},
                            {"to satisfy the constraint"},
                            {"NaN detected in"},
                            {"nan detected", nullptr, Depth::kGuess},
                            {"found nan", nullptr, Depth::kGuess},
                            {"contains nan", nullptr, Depth::kGuess},
                            {"has nan", nullptr, Depth::kGuess},
                            {"nan in", nullptr, Depth::kGuess},
                            {"nan or inf", nullptr, Depth::kGuess},
                            {"inf or nan", nullptr, Depth::kGuess},
                            {"is nan", nullptr, Depth::kGuess},
                            {"non-finite", nullptr, Depth::kGuess},
                            {"not finite", nullptr, Depth::kGuess},
                            {"contain nan", nullptr, Depth::kGuess},
                            {"nans in", nullptr, Depth::kGuess},
                            {"nan values", nullptr, Depth::kGuess},
                            {"nonfinite grad"},
                            {"nonfinite loss"},
                            {"nonfinite", nullptr, Depth::kGuess},
                            {"result out of range", nullptr, Depth::kGuess},
                            {"overflow detected", nullptr, Depth::kGuess},
                            {"became infinite", nullptr, Depth::kGuess},
                            {"is inf", nullptr, Depth::kGuess},
                            {"Training has diverged"},
                            {"NaN losses", nullptr, Depth::kPerhaps},
                            {"Got NaN", nullptr, Depth::kPerhaps},
                            {"NaN loss", nullptr, Depth::kPerhaps},
                            {"loss is inf", nullptr, Depth::kPerhaps},
                            {"diverge", nullptr, Depth::kGuess},
                            {"tensor(nan", nullptr, Depth::kGuess},
                            {"inf/nan", nullptr, Depth::kGuess}};
constexpr Cause kNanCauses[] = {
    {.why = "Sampling met probabilities that are negative, infinite or NaN.",
     .step = "Find the first NaN in what comes before; draw from logits in float32.",
     .when = "probability tensor"},
    {.why = "In 16 bits a value became too large, again and again, until the loss scale had "
            "nowhere to go.",
     .step = "Use bfloat16, a lower learning rate, or float32 where sums are long (losses, norms, "
             "softmax).",
     .when = "loss scale"},
    {.why = "A value became infinite or NaN: a learning rate that is too high, a division or "
            "logarithm of zero, a bad sample, or an overflow in 16 bits.",
     .step = "Find the first operation that makes it (anomaly mode, or a check after each layer); "
             "look at that batch; clip gradients, warm the learning rate up, add an epsilon under "
             "logarithms, roots and divisions."}};

constexpr Pattern kNoGrad[] = {{"does not require grad and does not have a grad_fn"},
                               {"appears to not have been used in the graph"},
                               {"grad can be implicitly created only for scalar outputs"},
                               {"optimizer got an empty parameter list"},
                               {"can't optimize a non-leaf Tensor"},
                               {"can't optimize a non-leaf"},
                               {"cannot register a hook on a tensor that doesn't require gradient"},
                               {"can't call numpy() on Tensor that requires grad"},
                               {"No inf checks were recorded for this optimizer"},
                               {"One of the differentiated Tensors does not require grad"},
                               {"does not have a grad", nullptr, Depth::kGuess},
                               {"require*grad*not", nullptr, Depth::kGuess},
                               {"not*require*grad", nullptr, Depth::kGuess},
                               {"'NoneType' object has no attribute 'grad'"},
                               {"no grad", nullptr, Depth::kGuess}};
constexpr Cause kNoGradCauses[] = {
    {.why = "backward starts from a tensor with more than one element.",
     .step = "Take the mean or the sum first, or give backward a gradient of that shape.",
     .when = "scalar outputs"},
    {.why = "The optimizer was given what is no parameter of a leaf: none at all, or the result of "
            "an operation (to(device) on a parameter is one).",
     .step = "Move the module first, and give the optimizer module.parameters() after that.",
     .when = "optimi"},
    {.why = "The loss has no way back to a parameter: computed under NoGradGuard, through item(), "
            "detach() or a conversion, from inputs alone, or all parameters are frozen.",
     .step = "Print requires_grad of what goes into the loss, from its end backwards: the step "
             "where it turns false is the one. With re-entrant checkpointing one input must "
             "require a gradient."}};

constexpr ErrorRow kGradientRows[] = {
    {.number = 36,
     .name = "ddp-unused-parameters",
     .title = "DDP waits for gradients that do not come",
     .depth = Depth::kCause,
     .patterns = kUnused,
     .causes = kUnusedCauses,
     .checks = "",
     .confirm = "the parameters without a gradient after backward",
     .source = "https://github.com/pytorch/pytorch/issues/22436"},
    {.number = 39,
     .name = "backward-twice",
     .title = "backward goes through a graph a second time",
     .depth = Depth::kCause,
     .patterns = kTwice,
     .causes = kTwiceCauses,
     .checks = "",
     .confirm = "the depth of the loss's graph grows from step to step",
     .source = ""},
    {.number = 40,
     .name = "inplace-modified",
     .title = "a tensor that backward needs was changed",
     .depth = Depth::kCause,
     .patterns = kInplace,
     .causes = kInplaceCauses,
     .checks = "",
     .confirm = "anomaly mode; version counters of the saved tensors",
     .source = ""},
    {.number = 66,
     .name = "not-a-number",
     .title = "a value is NaN or infinite",
     .depth = Depth::kCause,
     .patterns = kNan,
     .causes = kNanCauses,
     .checks = "",
     .confirm = "the first operation whose result is not finite",
     .source = ""},
    {.number = 67,
     .name = "no-gradient",
     .title = "there is no gradient to compute",
     .depth = Depth::kCause,
     .patterns = kNoGrad,
     .causes = kNoGradCauses,
     .checks = "",
     .confirm = "requires_grad along the way from the loss to a parameter",
     .source = ""}};

}  // namespace

extern constinit const ErrorFamilyEntry gradients_entry{
    "gradients", "gradients and losses", kGradientRows};

}  // namespace muster::diagnose
