// Unicode's normal forms as changes, so that offsets follow.
#pragma once

#include "muster/text/subword/normalizer.h"

namespace muster::text {

enum class NormalForm : uint8_t { kNfc, kNfd, kNfkc, kNfkd };

std::unique_ptr<const Normalizer> make_normal_form(NormalForm form);

}  // namespace muster::text
