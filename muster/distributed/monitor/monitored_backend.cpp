#include "muster/distributed/monitor/monitored_backend.h"

#include <cstdlib>
#include <exception>
#include <thread>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/rank_env.h"
#include "muster/base/text.h"
#include "muster/distributed/call/last_word.h"
#include "muster/distributed/call/names.h"
#include "muster/distributed/meet/backend.h"
#include "muster/distributed/monitor/faulty_backend.h"
#include "muster/distributed/monitor/monitored_work.h"

namespace muster::distributed {
namespace {

static_assert(c10d::ReduceOp::SUM == 0 && c10d::ReduceOp::AVG == 1 &&
                  c10d::ReduceOp::PRODUCT == 2 && c10d::ReduceOp::MIN == 3 &&
                  c10d::ReduceOp::MAX == 4 && c10d::ReduceOp::BAND == 5 &&
                  c10d::ReduceOp::BOR == 6 && c10d::ReduceOp::BXOR == 7 &&
                  c10d::ReduceOp::PREMUL_SUM == 8,
              "op_record.cpp names them in this order");

diagnose::TensorMeta meta_of(const at::Tensor& tensor) {
  if (tensor.is_nested()) return {.dtype = dtype_name(tensor.scalar_type())};  // it is refused
  diagnose::TensorMeta meta{.dtype = dtype_name(tensor.scalar_type()),
                            .dims = static_cast<uint8_t>(std::min<int64_t>(tensor.dim(), 255)),
                            .elements = tensor.numel()};
  for (size_t i = 0; i < meta.dims && i < diagnose::TensorMeta::kMaxDims; ++i)
    meta.sizes[i] = tensor.size(static_cast<int64_t>(i));
  return meta;
}

using diagnose::OpKind;

/// What all ranks must have alike in operations whose inputs may differ: of an all-gather the list
/// of results, of the others the dtype.
uint64_t common_contents(const OpCall& call) {
  diagnose::OpRecord common;
  for (const at::Tensor& tensor : call.outputs.empty() ? call.inputs : call.outputs) {
    if (!tensor.defined()) continue;
    diagnose::TensorMeta meta = meta_of(tensor);
    if (call.kind != OpKind::kAllgather) meta.elements = 0;
    diagnose::add_tensor(common, meta, 0);
    if (call.kind != OpKind::kAllgather) break;
  }
  return common.contents;
}

bool has_unequal_inputs(OpKind kind) {
  return kind == OpKind::kAllgather || kind == OpKind::kGather || kind == OpKind::kScatter ||
         kind == OpKind::kAlltoall || kind == OpKind::kAlltoallBase;
}

diagnose::OpRecord record_of(const OpCall& call) {
  diagnose::OpRecord record{
      .kind = call.kind, .reduce = call.reduce, .root = call.root, .tag = call.tag};
  for (const at::Tensor& tensor : call.inputs) {
    if (tensor.defined())
      diagnose::add_tensor(record, meta_of(tensor), static_cast<int64_t>(tensor.element_size()));
  }
  if (has_unequal_inputs(call.kind)) record.contents = common_contents(call);
  return record;
}

/// As its entry says; of a backend without one, nothing is taken for granted.
BackendTraits traits_of(const c10d::Backend& backend) {
  const std::string name = backend.getBackendName();
  const BackendEntry* entry = backends().find(name);
  if (entry == nullptr) return {.name = name};
  return {.name = name,
          .has_threads = entry->completes_futures,
          .names_culprits = entry->names_culprits};
}

}  // namespace

/// The monitor around the backend of the group that this one is made from, if there is one.
const Monitor* MonitoredBackend::parent_of(const MonitorRequest& request) {
  const MonitoredBackend* parent =
      request.parent == nullptr ? nullptr : monitored_in(*request.parent);
  return parent == nullptr ? nullptr : parent->monitor_.get();
}

MonitoredBackend::MonitoredBackend(c10::intrusive_ptr<c10d::Backend> inner,
                                   const MonitorRequest& request,
                                   const MonitorOptions& options)
    : DecoratedBackend(std::move(inner)),
      monitor_(
          std::make_shared<Monitor>(request, options, traits_of(*inner_), parent_of(request))) {
  // The backend lives longer than the monitor's thread: stop() joins it.
  monitor_->start([backend = inner_.get()] { backend->abort(); },
                  dynamic_cast<LastWord*>(inner_.get()));
}

// A gloo backend joins its threads at its end, and they wait for operations whose ranks will never
// come until these time out. When the group has failed, nobody waits with them.
//
// To its peers a rank lives until it has given what it has sent.
MonitoredBackend::~MonitoredBackend() {
  if (std::uncaught_exceptions() > exceptions_) monitor_->failed_by_itself("");
  if (!monitor_->has_failed() && !monitor_->threw()) distributed::end_in_order(*inner_);
  monitor_->stop();
  if (!monitor_->has_failed() || !monitor_->traits().has_threads) return;
  std::thread([inner = std::move(inner_)]() mutable { inner.reset(); }).detach();
}

void MonitoredBackend::setTimeout(std::chrono::milliseconds timeout) {
  monitor_->set_timeout(timeout);
  inner_->setTimeout(timeout);
}

MonitoredBackend::WorkPtr MonitoredBackend::around(const OpCall& call, Posting& posting) {
  diagnose::OpRecord record = record_of(call);
  if (monitor_->has_failed()) monitor_->check_open(record);
  record.stands = false;
  record = recorder()->post(record);
  monitor_->check_first_call(record);
  const auto monitor_it = [&](WorkPtr inner) {
    return c10::make_intrusive<MonitoredWork>(
        monitor_, std::move(inner), record, call.type, call.timeout, getRank());
  };
  WorkPtr inner;
  if (call.blocks) recorder()->begin_wait(record.id);  // it may work on this thread
  try {
    inner = posting.post();
  } catch (const Error& error) {
    if (call.blocks) recorder()->end_wait(record.id);
    // The others did not come, or with something else; not: the call itself is bad.
    if (error.kind() == ErrorKind::kEnvironment ||
        error.text().refused.starts_with("ranks disagree")) {
      recorder()->let_stand(record.id);
      monitor_it({})->fail(std::current_exception());
    }
    monitor_->take_back(record);
    throw;
  } catch (...) {
    if (call.blocks) recorder()->end_wait(record.id);
    monitor_->take_back(record);
    throw;
  }
  recorder()->let_stand(record.id);
  if (call.blocks) recorder()->end_wait(record.id);
  if (!inner) {  // done, or part of a coalesced operation
    recorder()->complete(record.id);
    monitor_->succeeded(record);
    return inner;
  }
  const bool failed_at_once = call.kind == OpKind::kSend && call.blocks && inner->isCompleted() &&
                              inner->exception() != nullptr;
  if (failed_at_once) monitor_it(inner)->fail(inner->exception());
  auto work = monitor_it(std::move(inner));
  MonitoredWork::open(work);
  return work;
}

MonitorOptions with_environment(MonitorOptions options) {
  const auto default_from = [](std::string& option, std::string_view name) {
    if (option.empty()) option = process_environment(name).value_or("");
  };
  default_from(options.flight_dir, "MUSTER_FLIGHT_DIR");
  default_from(options.faults, "MUSTER_FAULTS");
  return options;
}

c10::intrusive_ptr<c10d::Backend> monitored(c10::intrusive_ptr<c10d::Backend> backend,
                                            const MonitorRequest& request,
                                            const MonitorOptions& options) {
  if (request.world_size == 1) return backend;
  std::shared_ptr<const diagnose::FlightRecorder> recorder;
  if (options.on) {
    auto monitored = c10::make_intrusive<MonitoredBackend>(std::move(backend), request, options);
    recorder = monitored->recorder();
    backend = std::move(monitored);
  }
  std::shared_ptr<RankFaults> faults;
  if (const auto* parent = dynamic_cast<const FaultyBackend*>(request.parent))
    faults = parent->faults();
  else if (!options.faults.empty())
    faults = std::make_shared<RankFaults>(
        diagnose::parse_fault_plan(options.faults), request.rank, request.threads, recorder);
  if (faults == nullptr) return backend;
  return c10::make_intrusive<FaultyBackend>(std::move(backend), std::move(faults));
}

MonitoredBackend* monitored_in(c10d::Backend& backend) {
  c10d::Backend* at = &backend;
  while (at != nullptr) {
    if (auto* found = dynamic_cast<MonitoredBackend*>(at)) return found;
    auto* decorated = dynamic_cast<DecoratedBackend*>(at);
    at = decorated == nullptr ? nullptr : decorated->inner().get();
  }
  return nullptr;
}

std::shared_ptr<diagnose::FlightRecorder> recorder_of(c10d::Backend& backend) {
  MonitoredBackend* found = monitored_in(backend);
  return found == nullptr ? nullptr : found->recorder();
}

}  // namespace muster::distributed
