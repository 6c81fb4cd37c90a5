#include "muster/launch/job/tail.h"

namespace muster::launch {

void Tail::add(std::string_view line) {
  if (lines_.size() == kLines) lines_.pop_front();
  lines_.emplace_back(line.substr(0, kLineBytes));
  if (line.size() > kLineBytes) lines_.back() += " …";
}

}  // namespace muster::launch
