// CRC-32C, the checksum of TensorBoard's records.
#pragma once

#include <cstdint>
#include <string_view>

namespace muster::track {

/// The checksum with Castagnoli's polynomial, reflected, as in RFC 3720 (iSCSI), section 12.1.
/// Pure; any thread.
uint32_t crc32c(std::string_view bytes);

/// `crc32c` rotated right by 15 bits plus 0xa282ead8 modulo 2^32. A record holds the checksum of
/// bytes that may hold checksums themselves, and a CRC over its own value is degenerate.
/// Source: TensorFlow, core/lib/hash/crc32c.h.
uint32_t masked_crc32c(std::string_view bytes);

}  // namespace muster::track
