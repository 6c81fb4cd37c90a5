#include "muster/base/local_time.h"

#include <chrono>
#include <cmath>

#include <time.h>

namespace muster {

std::string local_time(double unix_s, const char* format) {
  if (!(std::abs(unix_s) <= 1e18)) return "";  // a cast of more is undefined
  const auto seconds = static_cast<time_t>(unix_s);
  tm parts{};
  if (::localtime_r(&seconds, &parts) == nullptr) return "";
  char text[128];
  return {text, ::strftime(text, sizeof text, format, &parts)};
}

std::string local_time_now(const char* format) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return local_time(std::chrono::duration<double>(now).count(), format);
}

}  // namespace muster
