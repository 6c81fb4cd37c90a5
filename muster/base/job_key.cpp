#include "muster/base/job_key.h"

#include <bit>
#include <cstring>
#include <optional>

#include <errno.h>
#include <sys/random.h>

#include "muster/base/error.h"
#include "muster/base/text.h"

namespace muster {
namespace {

constexpr size_t kDigitsPerWord = 16;

/// As the paper's figure 2.1 has it.
struct SipState {
  uint64_t v0, v1, v2, v3;

  void round() {
    v0 += v1;
    v2 += v3;
    v1 = std::rotl(v1, 13) ^ v0;
    v3 = std::rotl(v3, 16) ^ v2;
    v0 = std::rotl(v0, 32);
    v2 += v1;
    v0 += v3;
    v1 = std::rotl(v1, 17) ^ v2;
    v3 = std::rotl(v3, 21) ^ v0;
    v2 = std::rotl(v2, 32);
  }

  void absorb(uint64_t word) {
    v3 ^= word;
    round();
    round();
    v0 ^= word;
  }
};

std::string hex(uint64_t word) {
  std::string digits(kDigitsPerWord, '0');
  for (size_t i = kDigitsPerWord; i-- > 0; word >>= 4) digits[i] = "0123456789abcdef"[word & 15];
  return digits;
}

std::optional<uint64_t> word_from(std::string_view digits) {
  uint64_t word = 0;
  for (const char digit : digits) {
    const bool decimal = digit >= '0' && digit <= '9', letter = digit >= 'a' && digit <= 'f';
    if (!decimal && !letter) return std::nullopt;
    word = word << 4 | static_cast<uint64_t>(decimal ? digit - '0' : digit - 'a' + 10);
  }
  return word;
}

}  // namespace

JobKey JobKey::make() {
  JobKey key;
  ssize_t got = -1;
  while ((got = ::getrandom(key.words_.data(), sizeof key.words_, 0)) < 0 && errno == EINTR) {
  }
  if (got != static_cast<ssize_t>(sizeof key.words_))
    throw environment_error({.refused = "cannot make a job's key", .rule = errno_text(errno)});
  return key;
}

JobKey JobKey::parse(std::string_view text) {
  JobKey key;
  const bool fits = text.size() == 2 * kDigitsPerWord;
  for (size_t i = 0; i < key.words_.size(); ++i) {
    const auto word =
        fits ? word_from(text.substr(i * kDigitsPerWord, kDigitsPerWord)) : std::nullopt;
    if (!word) {
      // The value is a secret, even a wrong one.
      throw usage_error({.refused = concat("environment variable ", kJobKeyEnv),
                         .rule = "a key is 32 hexadecimal digits in small letters",
                         .value = concat(text.size(), " characters"),
                         .hint = "make one with `openssl rand -hex 16`, or leave it unset"});
    }
    key.words_[i] = *word;
  }
  return key;
}

std::string JobKey::text() const { return hex(words_[0]) + hex(words_[1]); }

uint64_t JobKey::tag(std::string_view bytes) const {
  SipState state{words_[0] ^ 0x736f6d6570736575,
                 words_[1] ^ 0x646f72616e646f6d,
                 words_[0] ^ 0x6c7967656e657261,
                 words_[1] ^ 0x7465646279746573};
  uint64_t last = static_cast<uint64_t>(bytes.size()) << 56;
  for (; bytes.size() >= 8; bytes.remove_prefix(8)) {
    uint64_t word = 0;
    std::memcpy(&word, bytes.data(), 8);  // little-endian, as the paper's
    state.absorb(word);
  }
  for (size_t i = 0; i < bytes.size(); ++i)
    last |= static_cast<uint64_t>(static_cast<unsigned char>(bytes[i])) << (8 * i);
  state.absorb(last);
  state.v2 ^= 0xff;
  for (int i = 0; i < 4; ++i) state.round();
  return state.v0 ^ state.v1 ^ state.v2 ^ state.v3;
}

}  // namespace muster
