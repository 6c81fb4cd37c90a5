#include "muster/parallel/ddp/ddp_options.h"

#include <algorithm>

#include "muster/base/error.h"
#include "muster/base/text.h"

namespace muster::parallel {
namespace {

void require_option_at_least(int64_t least, const char* name, int64_t value) {
  if (value >= least) return;
  throw usage_error({.refused = concat("DdpOptions: ", name),
                     .rule = concat("at least ", least),
                     .value = std::to_string(value)});
}

}  // namespace

void check_ddp_options(const DdpOptions& options,
                       const NamedTensors& parameters,
                       const NamedTensors& buffers) {
  require_option_at_least(0, "bucket_bytes_cap", options.bucket_bytes_cap);
  require_option_at_least(1, "first_bucket_bytes_cap", options.first_bucket_bytes_cap);
  require_option_at_least(0, "direct_bytes", options.direct_bytes);
  require_option_at_least(0, "desync_check_steps", options.desync_check_steps);
  for (const std::string& name : options.parameters_to_ignore) {
    const auto has_it = [&](const auto& named) { return named.first == name; };
    if (std::any_of(parameters.begin(), parameters.end(), has_it) ||
        std::any_of(buffers.begin(), buffers.end(), has_it))
      continue;
    throw usage_error({.refused = "DdpOptions: parameters_to_ignore",
                       .rule = "names of the module's parameters and buffers",
                       .value = name,
                       .hint = "named_parameters() and named_buffers() say them"});
  }
}

std::string ddp_options_text(const DdpOptions& options) {
  return concat("option bucket_bytes_cap ",
                options.bucket_bytes_cap,
                "\noption first_bucket_bytes_cap ",
                options.first_bucket_bytes_cap,
                "\noption direct_bytes ",
                options.direct_bytes,
                "\noption find_unused_parameters ",
                options.find_unused_parameters ? "true" : "false",
                "\noption static_graph ",
                options.static_graph ? "true" : "false",
                "\noption broadcast_buffers ",
                options.broadcast_buffers ? "true" : "false",
                "\noption desync_check_steps ",
                options.desync_check_steps,
                "\noption comm_hook ",
                options.comm_hook,
                "\n");
}

}  // namespace muster::parallel
