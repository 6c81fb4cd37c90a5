#include "muster/tensor/dtype_name.h"

namespace muster::tensor {

const char* dtype_name(at::ScalarType type) {
  switch (type) {
    case at::kByte:
      return "uint8";
    case at::ScalarType::UInt16:
      return "uint16";
    case at::ScalarType::UInt32:
      return "uint32";
    case at::ScalarType::UInt64:
      return "uint64";
    case at::kChar:
      return "int8";
    case at::kShort:
      return "int16";
    case at::kInt:
      return "int32";
    case at::kLong:
      return "int64";
    case at::kHalf:
      return "float16";
    case at::kBFloat16:
      return "bfloat16";
    case at::kFloat:
      return "float32";
    case at::kDouble:
      return "float64";
    case at::kComplexHalf:
      return "complex32";
    case at::kComplexFloat:
      return "complex64";
    case at::kComplexDouble:
      return "complex128";
    case at::kBool:
      return "bool";
    case at::kFloat8_e5m2:
      return "float8_e5m2";
    case at::kFloat8_e4m3fn:
      return "float8_e4m3fn";
    case at::kFloat8_e5m2fnuz:
      return "float8_e5m2fnuz";
    case at::kFloat8_e4m3fnuz:
      return "float8_e4m3fnuz";
    case at::kQInt8:
      return "qint8";
    case at::kQUInt8:
      return "quint8";
    case at::kQInt32:
      return "qint32";
    default:
      return c10::toString(type);
  }
}

}  // namespace muster::tensor
