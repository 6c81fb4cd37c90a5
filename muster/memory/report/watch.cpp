#include "muster/memory/report/watch.h"

#include <algorithm>
#include <deque>
#include <mutex>
#include <utility>

#include "muster/base/text.h"
#include "muster/memory/report/host_bytes.h"

namespace muster::memory {
namespace {

constexpr size_t kMostNoted = 8;

/// Of the process.
struct Notes {
  std::mutex mutex;
  int watches = 0;
  diagnose::Surroundings surroundings;
  std::deque<NotedRefusal> noted;  // newest last
};

Notes& all_notes() {
  static auto* const notes = new Notes;
  return *notes;
}

bool is_same_device(c10::Device a, c10::Device b) {
  return a.type() == b.type() && (a.is_cpu() || a.index() == b.index());
}

void note_refusal(const Refusal& refusal) {
  NotedRefusal noted{
      .refusal = refusal, .words = std::string(refusal.words), .level = recorded_level()};
  noted.refusal.words = {};
  noted.refusal.each_block = {};
  if (refusal.each_block)
    refusal.each_block([&noted](const HeldBlock& block) { noted.blocks.push_back(block); });
  Notes& notes = all_notes();
  const std::lock_guard lock(notes.mutex);
  if (notes.watches == 0) return;
  if (refusal.device.is_cpu())
    noted.host = std::make_shared<const HostBytes>(read_host_bytes(notes.surroundings));
  notes.noted.push_back(std::move(noted));
  if (notes.noted.size() > kMostNoted) notes.noted.pop_front();
}

}  // namespace

OomWatch::OomWatch(diagnose::Surroundings surroundings) {
  Notes& notes = all_notes();
  const std::lock_guard lock(notes.mutex);
  if (notes.watches++ > 0) return;
  notes.surroundings = std::move(surroundings);
  set_refusal_listener(&note_refusal);
}

OomWatch::~OomWatch() {
  Notes& notes = all_notes();
  const std::lock_guard lock(notes.mutex);
  if (--notes.watches > 0) return;
  set_refusal_listener(nullptr);
  notes.noted.clear();
}

std::optional<NotedRefusal> take_noted(c10::Device device, const std::string& words) {
  Notes& notes = all_notes();
  const std::lock_guard lock(notes.mutex);
  for (auto at = notes.noted.rbegin(); at != notes.noted.rend(); ++at) {
    if (!is_same_device(at->refusal.device, device) ||
        words.find(first_line(at->words)) == std::string::npos)
      continue;
    NotedRefusal found = std::move(*at);
    notes.noted.erase(std::next(at).base());
    return found;
  }
  return std::nullopt;
}

}  // namespace muster::memory
