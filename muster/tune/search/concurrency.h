// How many trials of a searcher are under way at once.
#pragma once

#include <cstdint>
#include <memory>

#include "muster/tune/search/searcher.h"

namespace muster::tune {

/// Ray Tune's ConcurrencyLimiter around any searcher: with `max_concurrent` of its trials not
/// finished, suggest() answers kWait. With `batch` the searcher is told of a batch only when all of
/// its trials are finished, in the order in which they finished, and the next batch starts then; a
/// batch is what was suggested since the last one. Reports and pauses are passed on as they come. The number of slots is another matter
/// (StudySpec::max_concurrent): this one counts paused trials and those that wait for a retry.
/// Throws a usage error unless max_concurrent is at least 1.
std::unique_ptr<Searcher> limit_concurrency(std::unique_ptr<Searcher> searcher,
                                            int64_t max_concurrent,
                                            bool batch);

}  // namespace muster::tune
