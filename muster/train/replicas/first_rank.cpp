#include "muster/train/replicas/first_rank.h"

#include <optional>

#include <ATen/ops/full.h>

#include "muster/base/error.h"
#include "muster/base/json.h"

namespace muster::train {

void on_first_rank(const distributed::ProcessGroup& group, const std::function<void()>& work) {
  Json outcome = nullptr;
  std::optional<Error> own;
  if (group.rank() == 0) {
    try {
      work();
    } catch (const Error& error) {
      own = error;
      const ErrorText& text = error.text();
      outcome = {static_cast<int>(error.kind()), text.refused, text.rule, text.value, text.hint};
    } catch (const std::exception& error) {  // of the file system: no rank may wait for this one
      own = environment_error({.refused = error.what()});
      outcome = {static_cast<int>(own->kind()), own->text().refused, "", "", ""};
    }
  }
  if (group.world_size() > 1) {
    outcome = parse_json(group.all_gather_text(json_text(outcome))[0], "what rank 0 says");
  }
  if (own) throw *own;
  if (outcome.is_null()) return;
  const Error told(static_cast<ErrorKind>(outcome[0].get<int>()),
                   {.refused = outcome[1].get<std::string>(),
                    .rule = outcome[2].get<std::string>(),
                    .value = outcome[3].get<std::string>(),
                    .hint = outcome[4].get<std::string>()});
  group.note_told_failure(0, told.what());
  throw told;
}

bool from_first_rank(const distributed::ProcessGroup& group, bool value) {
  if (group.world_size() == 1) return value;
  const at::Tensor told = at::full({1}, value ? 1.0F : 0.0F).to(group.device());
  group.broadcast(told);
  return told.item<float>() != 0;
}

}  // namespace muster::train
